"""The gateway's image, built twice by `deploy/image.sh`, and the base's pod, run from its root file system by runc
(docs/supply-chain.md).

    make test-image

As root, with what tests.pods.setup installs. Some minutes of two cores: both builds run at once.
"""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.k8s.rendered import ROOT, Object
from tests.pinned import found, needed
from tests.pods.oci import digest, unpack
from tests.sbom.bom import of_image, written


@dataclass(frozen=True, slots=True)
class Image:
    printed: list[str]
    archives: list[Path]
    root: Path
    configuration: Object


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    folder = tmp_path_factory.mktemp("built")
    archives = [folder / "first.tar", folder / "second.tar"]

    def build(archive: Path) -> str:
        words = [str(ROOT / "deploy/image.sh"), str(Path(sys.executable).with_name("pip")), str(archive)]
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    with ThreadPoolExecutor() as threads:
        printed = list(threads.map(build, archives))
    yield Image(printed, archives, folder / "root", unpack(archives[0], folder / "root"))
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def seen(image: Image, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of the pod: tests.pods.inside."""
    arguments = [str(image.root), json.dumps(image.configuration), str(tmp_path_factory.mktemp("pod"))]
    words = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.pods.inside", *arguments]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return dict(json.loads(done.stdout))


def test_two_builds_have_one_digest(image: Image) -> None:
    assert [digest(archive) for archive in image.archives] == image.printed
    assert len(set(image.printed)) == 1


def test_the_configuration_is_the_dockerfiles(image: Image) -> None:
    assert image.configuration["User"] == "65532:65532"
    assert (image.configuration["Entrypoint"], image.configuration["Cmd"]) == (["extproc"], ["--help"])
    assert image.configuration["Env"][0].startswith("PATH=/opt/extproc/bin:")


def test_the_python_packages_are_those_that_are_pinned(image: Image) -> None:
    (packages,) = (image.root / "opt/extproc").glob("lib/python3*/site-packages")
    assert {name: distribution.version for name, distribution in found(packages).items()} == needed("image")


def test_nothing_of_the_machine_that_built_it_is_there_and_nothing_that_installs(image: Image) -> None:
    for path in ("etc/hostname", "etc/resolv.conf", "etc/apt", "usr/bin/apt-get", "usr/bin/dpkg", "usr/bin/pip"):
        assert not (image.root / path).exists()
    modes = {path: path.lstat().st_mode for path in image.root.rglob("*") if not path.is_symlink()}
    assert not [path for path, mode in modes.items() if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_IWOTH)]


def test_each_debian_package_is_named_with_its_licence(image: Image) -> None:
    named = list((image.root / "var/lib/dpkg/status.d").iterdir())
    assert {"base-files", "libc6", "libssl3", "python3.11"} <= {path.name for path in named}
    for path in named:
        assert path.read_text(encoding="utf-8").startswith(f"Package: {path.name}\n")
        assert (image.root / "usr/share/doc" / path.name / "copyright").resolve().name == "copyright"


def test_the_sbom_has_each_package_and_is_the_same_of_both_builds(image: Image) -> None:
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True)
    python = json.loads((ROOT / "build/sbom.cdx.json").read_text(encoding="utf-8"))
    bom, other = (of_image(python, archive) for archive in image.archives)
    assert bom == other
    debian = {each["name"] for each in bom["components"] if each.get("purl", "").startswith("pkg:deb/debian/")}
    assert debian == {path.name for path in (image.root / "var/lib/dpkg/status.d").iterdir()}
    assert [each["name"] for each in bom["components"] if not each.get("licenses")] == ["debian"]
    subprocess.run([ROOT / "build/tools/bin/python", "-c", VALID], input=written(bom), text=True, check=True)


VALID = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read())
sys.exit(fault and str(fault))
"""
"""For the Python of the tools: CycloneDX's own library, with its schema."""


def test_bytecode_is_there_and_needs_no_time_of_its_source(image: Image) -> None:
    compiled = [*image.root.rglob("*.pyc")]
    assert len(compiled) > 2000
    unchecked_hash = (1).to_bytes(4, "little")
    assert not [path for path in compiled if path.read_bytes()[4:8] != unchecked_hash]


# ---- the pod


def test_the_pod_answers_with_a_tool_call(seen: dict[str, Any]) -> None:
    print(f"the processor started in {seen['start']:.1f} s")
    assert seen["calls"] == [{"name": "read_file", "arguments": '{"path": "main.py"}'}]
    assert seen["ready"]
    assert seen["metrics"]


def test_the_processor_runs_as_nobody_with_no_capability(seen: dict[str, Any]) -> None:
    status = seen["status"]
    assert status["Uid"].split() == status["Gid"].split() == ["65532"] * 4
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"] == "1"


def test_it_can_write_where_the_manifests_let_it_and_nowhere_else(seen: dict[str, Any]) -> None:
    for path in ("/opt/extproc/new", "/etc/extproc/new", "/tmp/new"):
        assert seen[path] == f"OSError: [Errno 30] Read-only file system: '{path}'"
    assert seen["/run/extproc/new"] == ""


def test_the_pod_ends_by_itself(seen: dict[str, Any]) -> None:
    assert seen["hook"] == 0
    assert seen["ends"] == [0, 0]


def test_the_processors_log_is_json_and_has_no_complaint(seen: dict[str, Any]) -> None:
    assert seen["log"]
    assert {line["level"] for line in seen["log"]} == {"info"}

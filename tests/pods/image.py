"""What the images install, installed: two minutes or so and a package registry, so not among `make test`'s.

    make test-image

The Dockerfiles' own commands, with the sources that their COPY instructions name, and directories for /opt/extproc and
/opt/scripted-vllm. The Python is that of the tests, which need not be the images'.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.generate_licence_docs import OF_THEIR_OWN, apart, licences, told
from tests.pinned import found, needed
from tests.pods.dockerfile import GATEWAY, ROOT, SCRIPTED, Dockerfile

OPT = "/opt/"

SBOM = ROOT / "build/sbom.cdx.json"

MEGABYTES = 130
"""122 were measured; a sixth is gRPC, a seventh each the JSON Schema validator and what MCP's client brings for OAuth
(cryptography)."""


@pytest.fixture(scope="module")
def opt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the gateway's image has in /opt/extproc."""
    folder = tmp_path_factory.mktemp("image")
    install(GATEWAY, folder)
    yield folder / "extproc"
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the scripted vLLM's image has in /opt/scripted-vllm."""
    folder = tmp_path_factory.mktemp("scripted")
    install(SCRIPTED, folder)
    yield folder / "scripted-vllm"
    shutil.rmtree(folder)


def install(dockerfile: Dockerfile, folder: Path) -> None:
    dockerfile.copy_sources(folder / "src")
    for command in dockerfile.stages()[0].all("RUN"):
        run(command, folder).check_returncode()


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A RUN instruction, as Docker has its shell do it, with a folder instead of /opt."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    words = ["/bin/sh", "-c", command.replace(OPT, f"{folder}/")]
    return subprocess.run(
        words, cwd=folder / "src", env={**os.environ, "PATH": path}, check=False, stderr=-1, text=True
    )


def extproc(opt: Path, *arguments: str) -> str:
    # Nothing of this environment: neither its packages nor its directory.
    command = [str(opt / "bin/extproc"), *arguments]
    return subprocess.run(command, cwd=opt, env={}, check=True, capture_output=True, text=True).stdout


def test_the_commands_run(opt: Path) -> None:
    assert "serve" in extproc(opt, "--help")
    assert "hermes" in extproc(opt, "formats")


def test_the_runner_has_what_it_needs(opt: Path) -> None:
    loaded = subprocess.run(
        [str(opt / "bin/python"), "-c", "import extproc.control.runner"], cwd=opt, env={}, check=False
    )
    assert loaded.returncode == 0


def test_envoys_configuration_can_be_made(opt: Path) -> None:
    settings = str(ROOT / "deploy/k8s/base/extproc.yaml")
    assert "static_resources" in extproc(opt, "envoy", "--config", settings)


def scripted_vllm(opt: Path) -> subprocess.CompletedProcess[str]:
    command = [str(opt / "bin/python"), "-m", "scripted_vllm", "--help"]
    return subprocess.run(command, cwd=opt, env={}, check=False, capture_output=True, text=True)


def test_the_gateways_image_holds_no_scripted_vllm(opt: Path) -> None:
    assert "No module named scripted_vllm" in scripted_vllm(opt).stderr
    assert not [path for path in opt.rglob("*") if "scripted" in path.name]


def test_the_scripted_vllms_image_holds_it_and_what_it_needs_and_nothing_else(scripted: Path) -> None:
    assert "--max-model-len" in scripted_vllm(scripted).stdout
    there = {name: distribution.version for name, distribution in found(packages(scripted)).items()}
    assert there == needed("scripted")
    assert not (packages(scripted) / "extproc").exists()
    subprocess.run([sys.executable, "-m", "pip", "--python", str(scripted / "bin/python"), "check"], check=True)


def packages(opt: Path) -> Path:
    (folder,) = opt.glob("lib/python3*/site-packages")
    return folder


def test_what_is_pinned_for_it_is_there_and_nothing_else(opt: Path) -> None:
    there = {name: distribution.version for name, distribution in found(packages(opt)).items()}
    assert there == needed("image")
    assert not (packages(opt) / "pip").exists()
    assert not (opt / "bin/envoy").exists()


def test_what_is_there_works_together(opt: Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--python", str(opt / "bin/python"), "check"], check=True)


def test_a_package_with_another_hash_is_refused(opt: Path) -> None:
    (backend,) = (command for command in GATEWAY.stages()[0].all("RUN") if "build.txt" in command)
    pins = opt.parent / "src/requirements/build.txt"
    pins.write_text(re.sub("sha256:.", "sha256:g", pins.read_text()).replace("sha256:g", "sha256:0"))
    done = run(f"{backend} --force-reinstall", opt.parent)
    assert done.returncode == 1
    assert "hash" in done.stderr.lower()


def test_the_licences_of_what_is_there_are_on_the_page(opt: Path) -> None:
    assert told("image") == licences(found(packages(opt)))


@pytest.mark.parametrize("which", OF_THEIR_OWN)
def test_the_licences_of_what_is_installed_apart_are_on_the_page(which: str) -> None:
    make(f"{OF_THEIR_OWN[which]}/.installed")
    assert told(which) == licences(apart(which))


def test_the_sbom_lists_what_is_there_and_nothing_else(opt: Path) -> None:
    make("sbom")
    sbom = json.loads(SBOM.read_text(encoding="utf-8"))
    listed = {canonicalize_name(each["name"]): each["version"] for each in sbom["components"]}
    assert listed == {name: distribution.version for name, distribution in found(packages(opt)).items()}
    assert sbom["metadata"]["component"]["name"] == "extproc"
    assert not [each["name"] for each in sbom["components"] if not each.get("licenses")]


def test_the_sbom_is_the_same_each_time() -> None:
    make("sbom")
    first = SBOM.read_bytes()
    make("sbom")
    assert SBOM.read_bytes() == first
    assert str(ROOT).encode() not in first


def make(target: str) -> None:
    subprocess.run(["make", target], cwd=ROOT, check=True)


def test_every_module_is_compiled(opt: Path) -> None:
    package = packages(opt) / "extproc"
    modules = list(package.rglob("*.py"))
    compiled = {path.name.partition(".")[0] for path in package.rglob("*.pyc")}
    assert {path.stem for path in modules} == compiled


def test_it_is_as_small_as_it_was(opt: Path) -> None:
    size = sum(path.stat().st_size for path in opt.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6
    print(f"{size:.0f} MB")
    assert size < MEGABYTES

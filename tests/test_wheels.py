"""Two wheels come of the checkout, and neither holds anything of the other."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from email import message_from_string
from email.message import Message
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import distributions

ROOT = Path(__file__).parent.parent
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "extproc", "scripted_vllm")
LEFT_BY_BUILDS = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with both, built in a copy: what is left in a checkout by earlier builds would be in them too."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=LEFT_BY_BUILDS)
        else:
            shutil.copy(ROOT / name, source)
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(made))
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, ".", "./scripted_vllm"], cwd=source, check=True)
    return made


def files(wheels: Path, name: str) -> set[str]:
    with zipfile.ZipFile(wheels / f"{name}-{version('extproc')}-py3-none-any.whl") as wheel:
        return set(wheel.namelist())


def metadata(wheels: Path, name: str) -> Message:
    path = f"{name}-{version('extproc')}"
    with zipfile.ZipFile(wheels / f"{path}-py3-none-any.whl") as wheel:
        return message_from_string(wheel.read(f"{path}.dist-info/METADATA").decode())


@pytest.mark.parametrize(("name", "package"), [("extproc", "extproc"), ("extproc_scripted_vllm", "scripted_vllm")])
def test_a_wheel_holds_its_package_with_all_its_data_and_nothing_else(wheels: Path, name: str, package: str) -> None:
    info = f"{name}-{version('extproc')}.dist-info/"
    there = {path for path in distributions.files() if path.startswith(f"{package}/")}
    held = {path for path in files(wheels, name) if not path.startswith(info)}
    assert held == there - {"scripted_vllm/pyproject.toml", "scripted_vllm/LICENSE"}, "[tool.setuptools.package-data]"
    assert f"{package}/py.typed" in held


def test_the_scripted_vllm_comes_with_the_extra_up_alone(wheels: Path) -> None:
    its = f"extproc-scripted-vllm=={version('extproc')}"
    needed = [Requirement(each) for each in metadata(wheels, "extproc").get_all("Requires-Dist", [])]
    assert [str(each).replace('"', "'") for each in needed if "scripted" in each.name] == [f"{its}; extra == 'up'"]


@pytest.mark.parametrize("name", ["extproc", "extproc_scripted_vllm"])
def test_a_package_index_can_show_what_it_is(wheels: Path, name: str) -> None:
    its = metadata(wheels, name)
    assert its["Description-Content-Type"] == "text/markdown"
    assert "on PyPI" in its.get_payload(), "whose name it is there"


def test_the_scripted_vllm_has_the_products_version_and_licence(wheels: Path) -> None:
    assert version("extproc-scripted-vllm") == version("extproc")
    ours, its = (metadata(wheels, name) for name in ("extproc", "extproc_scripted_vllm"))
    assert its["Version"] == ours["Version"]
    assert its["License-Expression"] == ours["License-Expression"] == "Apache-2.0"
    assert its["Requires-Python"] == ours["Requires-Python"]
    (text,) = (path for path in files(wheels, "extproc_scripted_vllm") if path.endswith("/licenses/LICENSE"))
    with zipfile.ZipFile(next(wheels.glob("extproc_scripted_vllm-*.whl"))) as wheel:
        assert wheel.read(text) == (ROOT / "LICENSE").read_bytes()

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


def modules(package: str) -> set[str]:
    built = ROOT / package / "build"
    there = [path for path in (ROOT / package).rglob("*.py") if not path.is_relative_to(built)]
    return {path.relative_to(ROOT).as_posix() for path in there}


@pytest.mark.parametrize(("name", "package"), [("extproc", "extproc"), ("extproc_scripted_vllm", "scripted_vllm")])
def test_a_wheel_holds_its_package_and_nothing_else(wheels: Path, name: str, package: str) -> None:
    held = files(wheels, name)
    assert {path for path in held if path.endswith(".py")} == modules(package)
    assert {path.partition("/")[0] for path in held} == {package, f"{name}-{version('extproc')}.dist-info"}
    assert f"{package}/py.typed" in held


def test_the_products_wheel_holds_the_corpus(wheels: Path) -> None:
    corpus = ROOT / "extproc" / "corpus"
    data = {path.relative_to(ROOT).as_posix() for path in (*corpus.glob("*.json"), *corpus.glob("formats/*.jsonl"))}
    assert len(data) > 50
    assert data <= files(wheels, "extproc")


def test_the_products_wheel_holds_the_cases_of_the_model_checks(wheels: Path) -> None:
    data = {"cases.jsonl", "case.schema.json", "versions.json"}
    assert {f"extproc/model_checks/{name}" for name in data} <= files(wheels, "extproc")


def test_the_products_wheel_holds_no_scripted_vllm(wheels: Path) -> None:
    assert not [path for path in files(wheels, "extproc") if "scripted" in path]
    assert "scripted" not in " ".join(metadata(wheels, "extproc").get_all("Requires-Dist", []))


def test_the_scripted_vllm_has_the_products_version_and_licence(wheels: Path) -> None:
    assert version("extproc-scripted-vllm") == version("extproc")
    ours, its = (metadata(wheels, name) for name in ("extproc", "extproc_scripted_vllm"))
    assert its["Version"] == ours["Version"]
    assert its["License-Expression"] == ours["License-Expression"] == "Apache-2.0"
    assert its["Requires-Python"] == ours["Requires-Python"]
    (text,) = (path for path in files(wheels, "extproc_scripted_vllm") if path.endswith("/licenses/LICENSE"))
    with zipfile.ZipFile(next(wheels.glob("extproc_scripted_vllm-*.whl"))) as wheel:
        assert wheel.read(text) == (ROOT / "LICENSE").read_bytes()

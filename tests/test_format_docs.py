"""The pages about formats: the list is fresh, and following the instructions adds a format."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import extproc.toolcalls.formats.shapes as shapes
import extproc.toolcalls.table as table
from extproc.toolcalls import NAMED
from tests.generate_format_docs import PAGE, page

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "adding-a-format.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    return str(text)


def test_the_list_of_formats_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.generate_format_docs`"


def test_the_list_shows_every_format_with_its_example() -> None:
    text = page()
    for format_ in NAMED:
        assert f"\n## {format_.name}\n" in text
        assert format_.example.rstrip() in text
        assert all(f"`{alias}`" in text for alias in format_.aliases)


@pytest.fixture(scope="module")
def lantern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which the guide has been followed: one file more, and the samples."""
    copy = tmp_path_factory.mktemp("lantern")
    for package in ("extproc", "bench"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests" / "format_writers", copy / "tests" / "format_writers")
    (named,) = re.findall(r"`(extproc/toolcalls/formats/\w+\.py)`", GUIDE)
    (copy / named).write_text(block("python"), encoding="utf-8")
    (copy / "docs").mkdir()
    (written,) = re.findall(r"`(tests/samples/formats/\w+\.jsonl)`", GUIDE)
    samples = copy / written
    samples.parent.mkdir(parents=True)
    samples.write_text(block("json"), encoding="utf-8")
    for module in (
        "__init__.py",
        "cuts.py",
        "json_values.py",
        "sample_rows.py",
        "test_format_properties.py",
        "test_format_samples.py",
        "generate_format_docs.py",
    ):
        shutil.copy(ROOT / "tests" / module, copy / "tests")
    # As in the project's own: a busy machine is no reason to fail.
    conftest = "from hypothesis import settings\nsettings.register_profile('p', deadline=None, derandomize=True)\n"
    (copy / "tests" / "conftest.py").write_text(conftest + "settings.load_profile('p')\n", encoding="utf-8")
    return copy


def run(command: str, directory: Path) -> str:
    """One command, as the guide prints it; raises when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", *command.removeprefix("python -m ").split()],
        cwd=directory,
        check=True,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    return done.stdout


def test_the_guides_commands_work(lantern: Path) -> None:
    tests, properties, docs, bench = block("bash").splitlines()
    rows = block("json").splitlines()
    assert f"{len(rows)} passed" in run(f"{tests} -v --rootdir . -p no:cacheprovider", lantern)
    assert "failed" not in run(f"{properties} --rootdir . -p no:cacheprovider", lantern)
    run(docs, lantern)
    assert "⟦call get_weather⟧⟦set city⟧Paris⟦done⟧" in (lantern / "docs" / "formats.md").read_text(encoding="utf-8")
    assert "lantern" in run(f"{bench} --sizes 1 --runs 1", lantern)


def test_the_guides_format_can_be_asked_for(lantern: Path) -> None:
    assert "Lantern 1" in run("extproc formats lantern1", lantern)


def test_the_guides_samples_can_fail(lantern: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    shutil.copytree(lantern, wrong)
    row = json.loads(block("json").splitlines()[0])
    row["expect_calls"][0]["arguments"]["days"] = "3"
    (wrong / "tests" / "samples" / "formats" / "lantern.jsonl").write_text(json.dumps(row), encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run("pytest tests/test_format_samples.py -k lantern --rootdir . -p no:cacheprovider", wrong)
    assert "['args']" in failed.value.stdout


def test_everything_the_guide_lists_exists() -> None:
    in_table, in_shapes = GUIDE[GUIDE.index("| in `table.py`") :].split("| in `formats/shapes.py`")
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", in_table, re.MULTILINE)))
    assert listed
    assert all(hasattr(table, name) for name in listed)
    listed = re.findall(r"^\| `(\w+)` \|", in_shapes, re.MULTILINE)
    assert listed
    assert all(hasattr(shapes, name) for name in listed)

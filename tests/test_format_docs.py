"""The pages about formats: the list is fresh, and following the instructions adds a format."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import extproc.toolcalls.formats.shapes as shapes
import extproc.toolcalls.table as table
from extproc.toolcalls import NAMED, CallSyntax
from extproc.toolcalls.syntax.arguments import Elements
from tests.generate_format_docs import PAGE, page

pytestmark = pytest.mark.long

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


def copied(copy: Path) -> Path:
    """A copy of what of the project makes formats and tests them."""
    for package in ("extproc", "bench"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests" / "format_writers", copy / "tests" / "format_writers")
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


@pytest.fixture(scope="module")
def lantern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which the guide has been followed: one file more, and the samples."""
    copy = copied(tmp_path_factory.mktemp("lantern"))
    (named,) = re.findall(r"`(extproc/toolcalls/formats/\w+\.py)`", GUIDE)
    (copy / named).write_text(block("python"), encoding="utf-8")
    (copy / "docs").mkdir()
    (written,) = re.findall(r"`(tests/samples/formats/\w+\.jsonl)`", GUIDE)
    samples = copy / written
    samples.parent.mkdir(parents=True)
    samples.write_text(block("json"), encoding="utf-8")
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


IN_TABLE, _rest = GUIDE[GUIDE.index("| in `table.py`") :].split("| in `formats/shapes.py`")
IN_SHAPES, IN_SYNTAX = _rest.split("| field of |")
LISTED_SHAPES = re.findall(r"^\| `(\w+)` \|", IN_SHAPES, re.MULTILINE)


def test_everything_the_guide_lists_exists() -> None:
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", IN_TABLE, re.MULTILINE)))
    assert listed
    assert all(hasattr(table, name) for name in listed)
    assert LISTED_SHAPES
    assert all(hasattr(shapes, name) for name in LISTED_SHAPES)
    told: dict[str, list[str]] = {}
    of = ""
    for kind, names in re.findall(r"^\| (?:(`\w+`) )?\| (`\w+`.*?) \|", IN_SYNTAX, re.MULTILINE):
        of = kind.strip("`") or of
        told.setdefault(of, []).extend(re.findall(r"`(\w+)`", names))
    for syntax in (CallSyntax, Elements):
        assert sorted(told[syntax.__name__]) == sorted(f.name for f in fields(syntax) if f.name != "format")


def test_every_shape_has_the_states_at_which_it_is_entered() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \| (`[A-Z].*`) \|$", IN_SHAPES, re.MULTILINE)
    assert [shape for shape, _ in rows] == LISTED_SHAPES
    for shape, states in rows:
        source = inspect.getsource(getattr(shapes, shape))
        assert [name for name in re.findall(r"`(\w+)`", states) if f"State.{name}: " not in source] == []


def test_the_guide_names_a_format_that_has_the_shape() -> None:
    """The one in brackets: its file calls the function."""
    for shape, example in re.findall(r"^\| `(\w+)` \|.*?\(([\w-]+)\) \|", IN_SHAPES, re.MULTILINE):
        files = [file.read_text(encoding="utf-8") for file in (ROOT / "extproc/toolcalls/formats").glob("*.py")]
        (own,) = [text for text in files if f'name="{example}"' in text]
        assert f"{shape}(" in own, (shape, example)


MADE = Path(__file__).parent / "format_writers" / "made_of_shapes.txt"


def test_a_format_made_of_each_shape_keeps_what_every_format_promises(tmp_path: Path) -> None:
    made = MADE.read_text(encoding="utf-8")
    assert [shape for shape in LISTED_SHAPES if f"{shape}(" not in made] == []
    copy = copied(tmp_path)
    (copy / "extproc/toolcalls/formats/made_of_shapes.py").write_text(made, encoding="utf-8")
    done = run("pytest tests/test_format_properties.py -k made_of -q --rootdir . -p no:cacheprovider", copy)
    assert "passed" in done

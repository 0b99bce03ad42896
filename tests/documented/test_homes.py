"""No block of code is without a home, and each home is what it says."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.documented.blocks import Block, blocks
from tests.documented.catalogue import CATALOGUE, Held, Why, home
from tests.site.pages import ROOT

HOMES = sorted({entry.home for entry in CATALOGUE if isinstance(entry.home, Held)}, key=str)
HELD = {(entry.page, entry.home.file) for entry in CATALOGUE if isinstance(entry.home, Held)}


def test_every_block_has_a_home() -> None:
    homeless = [f"{block} {block.language!r} {block.text[:40]!r}" for block in blocks() if home(block) is None]
    assert homeless == [], "tests/documented/catalogue.py: which test runs it, or why does none?"


def test_every_entry_is_of_use() -> None:
    used = {next(entry for entry in CATALOGUE if entry.fits(block)) for block in blocks() if home(block)}
    assert [entry for entry in CATALOGUE if entry not in used] == []


def test_every_reason_is_given_for_something() -> None:
    assert {entry.home for entry in CATALOGUE if isinstance(entry.home, Why)} == set(Why)


@pytest.mark.parametrize("tested", HOMES, ids=lambda tested: f"{Path(tested.file).stem}-{tested.function}")
def test_a_home_is_a_test(tested: Held) -> None:
    assert tested.function in functions(tested.file)
    assert tested.function.startswith("test_")


@pytest.mark.parametrize(("page", "file"), sorted(HELD))
def test_a_home_reads_the_page(page: str, file: str) -> None:
    """By its name, if it isn't here, where all pages are read."""
    assert file.startswith("tests/documented/") or Path(page).name in (ROOT / file).read_text(encoding="utf-8")


def test_what_takes_a_cluster_has_kubectl_in_it() -> None:
    for block in (each for each in blocks() if home(each) is Why.CLUSTER):
        assert "kubectl" in {words[0] for words in block.commands}


def test_what_is_drawn_is_no_command() -> None:
    assert [str(block) for block in blocks() if home(block) is Why.DRAWN and block.language != ""] == []


def test_a_new_block_would_be_noticed() -> None:
    assert home(Block("docs/operations.md", 1, "bash", "extproc formats\n")) is None
    assert home(Block("docs/new.md", 1, "yaml", "models: []\n")) is None


@cache
def functions(file: str) -> set[str]:
    """The names of all functions of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}

"""Each name of docs/glossary.md that stands for something in code is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = re.findall(r"^\| (\*\*.+?\*\*.*?) \| .+ \| (.+) \|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
NAMES = [name for _, code in ROWS for name in re.findall(r"`([\w.]+)`", code)]


def test_every_entry_says_where_it_is_and_they_are_in_order() -> None:
    terms = [re.findall(r"\*\*(.+?)\*\*", entry)[0] for entry, _ in ROWS]
    assert len(terms) > 20
    assert terms == sorted(terms)


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_there(name: str) -> None:
    assert _is_there(name if name.startswith("tests.") else f"extproc.{name}")


def test_a_name_that_is_not_there_is_noticed() -> None:
    assert not _is_there("extproc.toolcalls.Nothing")
    assert not _is_there("extproc.nothing")


def _is_there(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, last = name.rpartition(".")
        try:
            return hasattr(importlib.import_module(module), last)
        except ModuleNotFoundError:
            return False
    return True

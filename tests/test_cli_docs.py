"""docs/cli.md is what the parsers say. Its examples are held by tests/documented, as those of all pages are."""

from __future__ import annotations

import subprocess
import sys

import pytest

from extproc.commands.parser import parsers
from tests.generate_cli_docs import PAGE, page


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.generate_cli_docs`"


def test_every_command_and_option_is_told() -> None:
    _, commands = parsers()
    text = page()
    for name, command in commands.choices.items():
        section = text.partition(f"\n## extproc {name}\n")[2].partition("\n## ")[0]
        options = [option for action in command._actions for option in action.option_strings if option.startswith("--")]
        assert [option for option in options if option != "--help" and f"`{option}" not in section] == [], name


@pytest.mark.parametrize("directory", ["", "/somewhere"])
def test_the_page_is_the_same_for_every_user(monkeypatch: pytest.MonkeyPatch, directory: str) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
    made = "from tests.generate_cli_docs import page; print(page(), end='')"
    assert subprocess.check_output([sys.executable, "-c", made], text=True, timeout=60) == page()

"""docs/library.md: its code runs as printed, and prints what it says; it tells of every event."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from dataclasses import fields
from io import StringIO
from pathlib import Path
from typing import Any, get_args

import extproc.toolcalls
from extproc.toolcalls import Event

PAGE = (Path(__file__).parent.parent / "docs" / "library.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_code_prints_what_the_page_says() -> None:
    assert [language for language, _ in BLOCKS] == ["python", "text"] * 3
    names: dict[str, Any] = {}
    for (_, code), (_, expected) in zip(BLOCKS[::2], BLOCKS[1::2], strict=True):
        with redirect_stdout(StringIO()) as printed:
            exec(code, names)
        assert printed.getvalue() == expected


def test_every_event_is_told_with_its_fields() -> None:
    rows = re.findall(r"^\| `([A-Z]\w+)` \| (.*?) \|", PAGE, re.MULTILINE)
    told = {name: re.findall(r"`(\w+)`", columns) for name, columns in rows}
    assert told == {event.__name__: [field.name for field in fields(event)] for event in get_args(Event)}


def test_the_names_that_are_promised_are_there() -> None:
    promised = re.findall(r"^ {4}(?! )(.+?)(?: {2}|$)", extproc.toolcalls.__doc__ or "", re.MULTILINE)
    names = [name for group in promised for name in group.split(", ")]
    assert {"parse", "Parser", "CallEnd", "NAMED"} <= set(names) <= set(extproc.toolcalls.__all__)

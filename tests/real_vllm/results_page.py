"""docs/real-models.md: each command that measures writes a section of its own, and leaves the others as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "real-models.md"
_SHOWN = 160
"""Characters of a text in a cell."""


def write_section(title: str, lines: Iterable[str]) -> None:
    """Put the section in the place of the one with this title, or at the page's end."""
    page = PAGE.read_text(encoding="utf-8")
    section = "\n".join([f"## {title}", "", *lines, ""])
    begin, end = _place_of(title, page)
    before, after = page[:begin].rstrip("\n"), page[end:].strip("\n")
    parts = [part for part in (before, section.rstrip("\n"), after) if part]
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _place_of(title: str, page: str) -> tuple[int, int]:
    found = re.search(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return (len(page), len(page)) if found is None else found.span()


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table's lines; columns whose title ends with a colon hold numbers."""
    rules = ["--:" if title.endswith(":") else "---" for title in head]
    titles = [title.removesuffix(":") for title in head]
    return [_row(titles), _row(rules), *map(_row, rows)]


def quoted(text: str) -> str:
    """A text as it came, in a cell: on one line, and no longer than can be read there."""
    line = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]} ..."
    return f"`{shown}`" if shown else ""


def without_folder(text: str) -> str:
    """Where a client's workspace lies is another place each time."""
    return re.sub(r"/[^\s'\"]*/workspace\b", "/workspace", text)


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"

"""How what was said, and numbers, stand in a terminal."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from typing import TypeAlias

from textual.content import Content

Part: TypeAlias = tuple[str, str]
"""A text and its style, in Textual's words."""

FAINT = "$foreground-muted"
HEADING = "bold $primary"
_KEPT = frozenset("\n\t")
_PICTURES = 0x2400
"""Where Unicode has pictures of the control characters."""


def content_of(parts: Iterable[Part]) -> Content:
    """What is drawn. All that anybody said comes by here: it is text, and neither markup nor control sequences."""
    return Content.assemble(*((plain(text), style) for text, style in parts))


def plain(text: str) -> str:
    """Without characters that a terminal obeys, or that show a text in another order: they are made visible."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character in _KEPT or character.isprintable():
        return character
    code = ord(character)
    if code < 0x20:
        return chr(_PICTURES + code)
    if code == 0x7F:
        return "\u2421"
    if unicodedata.category(character) in ("Zs", "Zl", "Zp"):
        return " "
    return f"<U+{code:04X}>"


def one_line(text: str) -> str:
    """Without line breaks."""
    return " ".join(text.split())


def with_code(text: str, style: str = "") -> list[Part]:
    """A sentence in which what stands between backticks is code."""
    return [(part, "bold" if number % 2 else style) for number, part in enumerate(text.split("`"))]


def pretty(text: str) -> str:
    """JSON with line breaks if it is some, else the text."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def duration(ms: float | None) -> str:
    """Milliseconds as a person reads them; "" for None."""
    if ms is None:
        return ""
    if ms < 1:
        return "<1 ms"
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.{2 if ms < 10_000 else 1}f} s"
    return f"{int(ms // 60_000)} min {ms % 60_000 / 1000:.0f} s"


def count(number: int, noun: str, several: str = "") -> str:
    """With its noun, of which `several` is the plural where that isn't an `s` more."""
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"

"""Takes the markup off the edges of a value that arrives in pieces. What may be markup is held, and nothing else."""

from __future__ import annotations

import re
from typing import Protocol


class Edges(Protocol):
    """The edges of one value."""

    def inside(self, text: str) -> str:
        """What has become certain of the value with the next piece."""

    def held(self, *, ended: bool) -> str:
        """What is left of the value, whose end has come; or `ended` is False, and the output broke off."""


class LineBreaks:
    """One line break at the beginning and one at the end; the latter only behind the former if that is `wrapping`."""

    __slots__ = ("_begun", "_break", "_trims", "_wrapping")

    def __init__(self, *, wrapping: bool) -> None:
        self._wrapping = wrapping
        self._begun = False
        self._trims = True
        self._break = False  # the one that is held

    def inside(self, text: str) -> str:
        if not self._begun and text:
            self._begun = True
            self._trims = text[0] == "\n" or not self._wrapping
            text = text.removeprefix("\n")
        if not self._trims or not text:
            return text
        if self._break:
            text = "\n" + text
        self._break = text[-1] == "\n"
        return text[:-1] if self._break else text

    def held(self, *, ended: bool) -> str:
        return "\n" if self._break and not ended else ""


_CDATA = "<![CDATA["
_LONGEST_LEAD = 64  # characters of white space before it
_LONGEST_END = 35
_end = re.compile(r"\](?:\](?:>\s{0,32})?)?\Z").search
_is_end = re.compile(r"\]\]>\s*").fullmatch


class CData:
    """`<![CDATA[` at the beginning, `]]>` at the end, and white space around them. A value without them has none."""

    __slots__ = ("_held", "_opened")

    def __init__(self) -> None:
        self._opened: bool | None = None
        self._held = ""

    def inside(self, text: str) -> str:
        if self._opened is False:
            return text
        text = self._held + text
        self._held = ""
        if self._opened is None:
            lead = len(text) - len(text.lstrip())
            opening = text[lead : lead + len(_CDATA)]
            if lead <= _LONGEST_LEAD and opening != _CDATA and _CDATA.startswith(opening):
                self._held = text
                return ""
            self._opened = lead <= _LONGEST_LEAD and opening == _CDATA
            if not self._opened:
                return text
            text = text[lead + len(_CDATA) :]
        if end := _end(text, max(len(text) - _LONGEST_END, 0)):
            self._held = end.group()
            return text[: end.start()]
        return text

    def held(self, *, ended: bool) -> str:
        return "" if self._opened and _is_end(self._held) else self._held

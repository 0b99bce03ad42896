"""Reads a key or a name in the object that holds a call."""

from __future__ import annotations

import re

from extproc.toolcalls.notations.json_encoded import DecodedString

_bare = re.compile(r"[\w$.\-]*+").match
_LONGEST = 512  # no key and no name is longer


class HeadString:
    """One of them, from behind its opening quote; `scan` returns the end of what belongs to it."""

    __slots__ = ("_length", "_pieces", "_string", "done")

    def __init__(self, quote: str | None) -> None:
        """`quote` is None for a word without quotes."""
        self.done = False
        self._string = None if quote is None else DecodedString(quote)
        self._pieces: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def is_python(self) -> bool:
        """Its escapes are Python's."""
        return self._string is not None and self._string.is_python

    @property
    def is_too_long(self) -> bool:
        return self._length == _LONGEST

    def scan(self, text: str, position: int) -> int:
        chunk = text[position : position + _LONGEST - self._length]
        if self._string is None:
            found = _bare(chunk)
            end = 0 if found is None else found.end()
            piece, self.done = chunk[:end], end < len(chunk)
        else:
            end, piece = self._string.scan(chunk, 0)
            self.done = self._string.done
        self._pieces.append(piece)
        self._length += end
        return position + end

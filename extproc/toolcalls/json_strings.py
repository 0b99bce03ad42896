"""Follows the inside of a string between double quotes, as it arrives, and hands it on as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence

from extproc.toolcalls.json_following import ANYTHING, WINDOW, is_certain, surely_closes
from extproc.toolcalls.quoted_text import inside

_ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
RUN = rf'[^"\\\x00-\x1f]*+(?:{_ESCAPE}[^"\\\x00-\x1f]*+)*+'
"""The inside of a string, as far as it is JSON."""
_BRACKETS = r"{}()\[\]"
_run = re.compile(RUN).match
_run_to_bracket = re.compile(rf'[^"\\\x00-\x1f{_BRACKETS}]*+(?:{_ESCAPE}[^"\\\x00-\x1f{_BRACKETS}]*+)*+').match
_unfinished_escape = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z").match
_continues = re.compile(r"""(?:\s*+\+|[ \t]*+\r?\n)\s*+(?:(\Z)|["'])""").match
_BALANCE = {"{": 1, "[": 1, "(": 1, "}": -1, "]": -1, ")": -1}


class DoubleQuoted:
    """One string, from behind its opening quote; `scan` is that of `QuotedText`.

    What is JSON stays as it is. Escapes that are none and control characters are escaped, and so are quotes that
    can't be the closing one by what follows them.
    """

    __slots__ = ("_balance", "_closers", "_ends", "_opens", "continues", "done", "odd")

    def __init__(self, ends: re.Pattern[str] = ANYTHING, closers: Sequence[str] = (), *, opens: bool = False) -> None:
        """`ends` says what may follow the closing quote, `closers` what brackets are open around the string; `opens`
        that it begins with a bracket, as a text does that holds JSON."""
        self.done = False
        self.continues = False
        """The string ended, but another one follows that belongs to it."""
        self.odd = False
        """It has shown quotes that aren't escaped,"""
        self._balance = 0  # and so many brackets that are still open
        self._ends = ends
        self._closers = closers
        self._opens = opens

    def scan(self, text: str, start: int, before: str = "", *, final: bool = False) -> tuple[int, str]:
        """`before` ends with the character that came before the text."""
        size = len(text)
        pieces: list[str] = []
        mark = position = start
        while not self.done:
            run = (_run_to_bracket if self.odd else _run)(text, position)
            position = position if run is None else run.end()
            if position == size:
                break
            character = text[position]
            if character == '"':
                closes = self._closes(text, position + 1, final=final)
                if closes is None:
                    break
                if closes:
                    self.done = True
                else:
                    if not self.odd:
                        self.odd = True
                        opened = self._opens or (text[position - 1 : position] or before[-1:]) in tuple("{[(")
                        self._balance = int(opened)
                    pieces += (text[mark:position], '\\"')
                    mark = position + 1
                position += 1
            elif character == "\\":
                if _unfinished_escape(text, position) and not final:
                    break
                is_quote = text.startswith("'", position + 1)  # JSON knows no `\'`
                pieces += (text[mark:position], "" if is_quote else "\\\\")
                mark = position = position + 1
            elif character in _BALANCE:
                self._balance = max(0, self._balance + _BALANCE[character])
                position += 1
            else:
                pieces += (text[mark:position], inside(character))
                mark = position = position + 1
        pieces.append(text[mark : position - self.done])
        return position, "".join(pieces)

    def _closes(self, text: str, end: int, *, final: bool) -> bool | None:
        """Whether the quote before `end` closes the string; None when that isn't certain yet."""
        if self.odd:
            return surely_closes(text, end, self._closers, nested=self._balance > 0, final=final)
        found = self._ends.match(text, end, end + WINDOW)
        if found is not None:
            return True if is_certain(found, text, end, final=final) else None
        more = _continues(text, end, end + WINDOW)
        if more is None:
            return False
        if not is_certain(more, text, end, final=final):
            return None
        self.continues = True
        return True

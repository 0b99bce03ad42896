"""Follows the inside of a string between double quotes, as it arrives, and hands it on as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence

from extproc.toolcalls.notations.json_following import ANYTHING, WINDOW, is_certain, surely_closes, surely_is_last
from extproc.toolcalls.notations.json_markers import ends_call
from extproc.toolcalls.notations.quoted_text import Ended, Follows, QuotedText, inside

_ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
RUN = rf'[^"\\\x00-\x1f]*+(?:{_ESCAPE}[^"\\\x00-\x1f]*+)*+'
"""The inside of a string, as far as it is JSON."""
_BRACKETS = r"{}()\[\]"
_run = re.compile(RUN).match
_odd_run = re.compile(rf'[^"\\\x00-\x1f<{_BRACKETS}]*+(?:{_ESCAPE}[^"\\\x00-\x1f<{_BRACKETS}]*+)*+').match
_unfinished_escape = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z").match
_continues = re.compile(r"""(?:\s*+\+|[ \t]*+\r?\n)\s*+(?:(\Z)|["'])""").match
_BALANCE = {"{": 1, "[": 1, "(": 1, "}": -1, "]": -1, ")": -1}


class DoubleQuoted:
    """One string, from behind its opening quote; `scan` is that of `QuotedText`.

    What is JSON stays as it is. Escapes that are none and control characters are escaped, and so are quotes that
    can't be the closing one by what follows them. Where such quotes make it uncertain which one closes the string, it
    ends at the latest with the call: brackets that nothing in it has opened, and behind them a marker that ends calls.
    """

    __slots__ = ("_balance", "_closed", "_closers", "_ends", "_first", "_opens", "done", "ended", "odd")

    def __init__(
        self, follows: Follows | re.Pattern[str] = ANYTHING, closers: Sequence[str] = (), *, opens: bool = False
    ) -> None:
        """`follows` says what may follow the closing quote, `closers` what brackets are open around the string; `opens`
        that it begins with a bracket, as a text does that holds JSON."""
        self.done = False
        self.ended = Ended.CLOSED
        self.odd = False
        """It has shown quotes that aren't escaped,"""
        self._balance = 0  # and so many brackets that are still open
        self._closed = False  # a bracket that nothing has opened was just closed
        self._ends, self._first = (follows.end, follows.first) if isinstance(follows, Follows) else (follows, None)
        self._closers = closers
        self._opens = opens

    def scan(self, text: str, start: int, before: str = "", *, final: bool = False) -> tuple[int, str]:
        """`before` ends with the character that came before the text."""
        size = len(text)
        pieces: list[str] = []
        mark = position = start
        while not self.done:
            run = (_odd_run if self.odd else _run)(text, position)
            if run is not None and (end := run.end()) > position:
                self._closed = self._closed and run.group().isspace()
                position = end
            if position == size:
                break
            character = text[position]
            if character == '"':
                closes = self._closes(text, position + 1, final=final)
                if closes is None:
                    break
                self._closed = False
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
                self._closed = False
            elif character in _BALANCE:
                self._weigh(character)
                position += 1
            elif character == "<":
                ends = self._closed and ends_call(text, position, final=final)
                if ends is None:
                    break
                if ends:
                    self.done = True
                    self.ended = Ended.CALL_BROKEN
                    return position, "".join([*pieces, text[mark:position]])
                self._closed = False
                position += 1
            else:
                self._closed = self._closed and character.isspace()
                pieces += (text[mark:position], inside(character))
                mark = position = position + 1
        pieces.append(text[mark : position - self.done])
        return position, "".join(pieces)

    def _weigh(self, bracket: str) -> None:
        weight = _BALANCE[bracket]
        self._closed = weight < 0 and (self._closed or self._balance == 0)
        self._balance = max(0, self._balance + weight)

    def _closes(self, text: str, end: int, *, final: bool) -> bool | None:
        """Whether the quote before `end` closes the string; None when that isn't certain yet."""
        if self.odd:
            return surely_closes(text, end, self._closers, nested=self._balance > 0, final=final)
        found = self._ends.match(text, end, end + WINDOW)
        if found is not None:
            return True if is_certain(found, text, end, final=final) else None
        more = _continues(text, end, end + WINDOW)
        if more is None:
            return self._first is not None and surely_is_last(
                self._first.match(text, end, end + WINDOW), text, end, final=final
            )
        if not is_certain(more, text, end, final=final):
            return None
        self.ended = Ended.CONTINUES
        return True


_TAIL = 64  # blanks between a call's last bracket and the marker behind it, at most


class OtherQuotes(QuotedText):
    """One string between quotes that JSON doesn't know. One that has shown others ends with the call, too, and so does
    one between backticks or curly quotes, which models also close in other ways."""

    __slots__ = ("_doubtful", "_start", "_tail")

    def __init__(self, quote: str, follows: Follows, *, raw: bool = False) -> None:
        super().__init__(quote, follows, raw=raw, also="<")
        self._doubtful = quote[0] not in "'\""
        self._tail = ""  # the end of what came
        self._start = 0

    def scan(self, text: str, start: int, *, final: bool = False) -> tuple[int, str]:
        self._start = start
        end, piece = super().scan(text, start, final=final)
        self._tail = self._before(text, end)
        return end, piece

    def _before(self, text: str, at: int) -> str:
        return (self._tail + text[max(self._start, at - _TAIL) : at])[-_TAIL:]

    def _other(self, text: str, at: int, *, final: bool) -> tuple[int, str] | None:
        if (self._doubtful or not self._pristine) and self._before(text, at).rstrip().endswith(("}", "]", ")")):
            ends = ends_call(text, at, final=final)
            if ends is None:
                return None
            if ends:
                self.done = True
                self.ended = Ended.CALL_BROKEN
                return at, ""
        return super()._other(text, at, final=final)

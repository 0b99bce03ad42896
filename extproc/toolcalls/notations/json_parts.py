"""Reads what in JSON has a reader of its own: strings in quotes of all kinds, and words without any."""

from __future__ import annotations

import re
from typing import TypeAlias

from extproc.toolcalls.notations import json_runs
from extproc.toolcalls.notations.json_brackets import OpenBrackets
from extproc.toolcalls.notations.json_expect import Expect
from extproc.toolcalls.notations.json_strings import DoubleQuoted, OtherQuotes
from extproc.toolcalls.notations.json_words import BareWord
from extproc.toolcalls.notations.quoted_text import Ended, QuotedText
from extproc.toolcalls.notations.repaired_text import RepairedText

_Part: TypeAlias = DoubleQuoted | QuotedText | BareWord

CURLY = {"“": "”", "‘": "’"}
"""Quotes of books, and what closes them."""
_prefix = re.compile(r"""[rRbBuUfF]{1,2}+(?:(\Z)|(['"]))""").match


class JsonParts(RepairedText):
    """The strings and words of one value."""

    __slots__ = ("_brackets", "_broken", "_cut", "_expect", "_in_string", "_part", "_then", "done", "sound")

    def __init__(self) -> None:
        super().__init__()
        self.done = False
        self.sound = True  # what it has become is JSON, as far as it came
        self._expect = Expect.VALUE
        self._in_string = False  # that is STRING, and nothing is held
        self._brackets = OpenBrackets()
        self._part: _Part = DoubleQuoted()  # a key or a value that is being read,
        self._then = Expect.NEXT  # and what comes behind it
        self._broken = False  # here something else begins,
        self._cut = False  # within a string

    def _begin_string(self, text: str, position: int) -> int:
        if text[position] == '"' and self._brackets.closers:
            if self._is_last(text, position, 2):
                return self._wait(text, position)
            if text.startswith('""', position):
                self._read(OtherQuotes('"""', self._brackets.follows()), then=Expect.NEXT)
                return self._repair("quotes", text, position, position + 2, "")
        self._part = DoubleQuoted(self._brackets.follows(), self._brackets.closers, opens=text[position] in "{[")
        self._then = Expect.NEXT
        self._expect = Expect.STRING
        return position

    def _string(self, text: str, position: int) -> int:
        run = json_runs.run(text, position)
        position = position if run is None else run.end()
        if position == len(text):
            return position
        if text[position] == '"' and self._brackets.in_object:
            found = json_runs.end_of_member(text, position)
            if found is not None:
                self._expect = Expect.NEXT if found[1] is None else Expect.VALUE
                return found.end()
        return self._in_part(text, position)

    def _open_quotes(self, text: str, position: int, *, raw: bool = False) -> int:
        quote = text[position]
        quotes = text[position : position + 3]
        if quotes == quote * len(quotes) and self._is_last(text, position, 3):
            return self._wait(text, position)
        quote = quotes if quotes == quote * 3 else quote
        self._read(OtherQuotes(quote, self._brackets.follows(), raw=raw), then=Expect.NEXT)
        return self._repair("quotes", text, position, position + len(quote), '"')

    def _open_other_quotes(self, text: str, position: int) -> int:
        """JavaScript's backticks, and the quotes of books."""
        quote = text[position]
        self._read(OtherQuotes(CURLY.get(quote, quote), self._brackets.follows()), then=Expect.NEXT)
        return self._repair("quotes", text, position, position + 1, '"')

    def _prefix(self, text: str, position: int) -> int | None:
        """Leave out what may stand before a string's quotes in Python; None if nothing of the kind does."""
        found = _prefix(text, position)
        if found is None or (found[1] is not None and self._final):
            return None
        if found[1] is not None:
            return self._wait(text, position)
        if "r" not in found.group().lower():
            return self._repair("quotes", text, position, found.start(2), "")
        # A quote of a raw string ends it as any other does, and is not preceded by an escape.
        quotes = text[found.start(2) : found.start(2) + 3]
        if quotes == found[2] * len(quotes) and len(quotes) < 3 and not self._final:
            return self._wait(text, position)
        self._repair("quotes", text, position, found.start(2), "")
        return self._open_quotes(text, found.start(2), raw=True)

    def _read(self, part: _Part, *, then: Expect) -> None:
        self._part, self._then = part, then
        self._expect = Expect.PART

    def _in_part(self, text: str, position: int) -> int:
        part = self._part
        if isinstance(part, DoubleQuoted):
            before = self._character_before(text, position)
            end, piece = part.scan(text, position, before, final=self._final)
            if self.repair is None and piece != text[position : end - part.done]:
                self.repair = "quotes" if part.odd else "escapes"
        else:
            end, piece = part.scan(text, position, final=self._final)
        self._replace(text, position, end, piece)
        if part.done:
            self._end_part(part)
            return end
        if isinstance(part, DoubleQuoted) and part.odd:
            self._expect = Expect.PART
        return self._wait(text, end) if end < len(text) else end

    def _end_part(self, part: _Part) -> None:
        if isinstance(part, BareWord):
            self._expect = self._then
            self.sound = self.sound and part.is_json
            if part.is_changed:
                self.repair = self.repair or "words"
            if self._then is Expect.COLON and not part.is_key:
                self._expect = Expect.NEXT
        elif part.ended is Ended.CONTINUES:
            self._expect = Expect.MORE
            return
        elif part.ended is Ended.CALL_BROKEN:
            self.sound = False
            self._broken = self._cut = True
            return
        else:
            self._expect = self._then
            self._out.append('"')
        self.done = not self._brackets.closers

    def _more(self, text: str, position: int) -> int:
        match text[position]:
            case '"':
                self._part = DoubleQuoted(self._brackets.follows(), self._brackets.closers)
                self._expect = Expect.STRING
            case "'":
                self._read(OtherQuotes("'", self._brackets.follows()), then=self._then)
        return self._repair("quotes", text, position, position + 1, "")

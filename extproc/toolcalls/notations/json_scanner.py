"""Scans JSON that arrives in pieces, without building values, and hands it on as valid JSON.

What is JSON is handed on to the letter. What models write instead is repaired while it passes, where it is certain what
was meant: quotes of another kind and quotes that aren't escaped, words of other languages, keys and words without
quotes, commas too many and too few, comments, brackets that were forgotten. What isn't certain stays as it is.

Each character is looked at once, and strings are crossed by a regular expression. Where what follows decides, no more
than a window of it is held back.
"""

from __future__ import annotations

import re

from extproc.toolcalls.notations import json_runs
from extproc.toolcalls.notations.json_comments import end_of_comment, end_of_comment_for_value
from extproc.toolcalls.notations.json_expect import Expect
from extproc.toolcalls.notations.json_following import (
    ANYTHING,
    SEMICOLON_IN_LIST,
    SEMICOLON_IN_OBJECT,
    WINDOW,
    after_blanks,
)
from extproc.toolcalls.notations.json_markers import is_marker
from extproc.toolcalls.notations.json_parts import CURLY, JsonParts
from extproc.toolcalls.notations.json_strings import DoubleQuoted
from extproc.toolcalls.notations.json_words import BareWord, Place
from extproc.toolcalls.notations.lazy_pattern import LazyPattern
from extproc.toolcalls.notations.quoted_text import QuotedText

_string_stop = json_runs.string_stop
_begins_key = re.compile(r"[\w$@]").match
_SEMICOLON_IN_OBJECT = LazyPattern(SEMICOLON_IN_OBJECT)
_SEMICOLON_IN_LIST = LazyPattern(SEMICOLON_IN_LIST)


class JsonValue(JsonParts):
    """One JSON value, from its first character to its last.

    `scan(text, start)` takes what belongs to the value and returns (end, piece): the value's text, as far as it is
    certain. `done` tells whether the value is complete. `text[end]`, when there is one, does not belong to the value:
    either it is complete, or a marker or a fence broke it off.
    """

    __slots__ = ("_owes_comma", "rest")

    def __init__(self) -> None:
        super().__init__()
        self.rest = ""  # what lies behind it and had to be seen to tell its end: blanks, brackets and commas
        self._owes_comma = False

    def scan(self, text: str, start: int) -> tuple[int, str]:
        if self._in_string and _string_stop(text, start) is None:
            self._before = text
            return len(text), text[start:] if start else text
        if not self._held:
            return self._scan(text, start)
        text = self._held + text[start:]
        held, self._held = len(self._held), ""
        end, piece = self._scan(text, 0)
        if end < held:
            self.rest = text[end:held]
        return start + max(0, end - held), piece

    def break_off(self) -> str:
        """What closes the value where something else begins, or nothing more comes."""
        piece = self._rest_of_held()
        self.repair = self.repair or "brackets"
        if self._expect is Expect.PART and isinstance(self._part, BareWord):
            piece += self._part.end()
            self._end_part(self._part)
        if self._cut:
            return piece  # brackets would be a part of the string that is open
        between = self._expect in (Expect.NEXT, Expect.KEY)
        self.sound = self.sound and (between or (self._expect is Expect.VALUE and self._brackets.in_list))
        return piece + self._brackets.close(len(self._brackets.closers))

    def end_of_input(self) -> str:
        """What was held back, where there is no more text."""
        piece = self._rest_of_held()
        return piece + (self._part.so_far() if self._expect is Expect.PART and isinstance(self._part, BareWord) else "")

    def _rest_of_held(self) -> str:
        self._final = True
        held, self._held = self._held, ""
        if not held:
            return ""
        end, piece = self._scan(held, 0)
        self.rest = held[end:]
        return piece

    def _scan(self, text: str, position: int) -> tuple[int, str]:
        start = position
        self._begin(position)
        self._broken = False
        size = len(text)
        while position < size and not self.done and not self._broken:
            match self._expect:
                case Expect.STRING:
                    position = self._string(text, position)
                case Expect.VALUE:
                    position = self._value(text, position)
                case Expect.NEXT:
                    position = self._next(text, position)
                case Expect.KEY:
                    position = self._key(text, position)
                case Expect.COLON:
                    position = self._colon(text, position)
                case Expect.BEGIN:
                    position = self._begin_string(text, position)
                case Expect.PART:
                    position = self._in_part(text, position)
                case Expect.MORE:
                    position = self._more(text, position)
        piece = self._end(text, start, position)
        self._in_string = self._expect is Expect.STRING and not self._held
        return position, piece

    # Between values

    def _blank(self, text: str, position: int) -> int:
        """Where the blanks at `position` end; those that JSON doesn't know become one that it does."""
        found = json_runs.blanks(text, position)
        end = position if found is None else found.end()
        if end == position and text[position].isspace():
            return self._repair("signs", text, position, position + 1, " ")
        return end

    def _leave(self, position: int) -> int:
        """What can't be understood stays as it is."""
        self.sound = False
        return position + 1

    def _leave_out(self, text: str, position: int, end: int) -> int:
        """Leave out a comment, or wait for more of it."""
        return self._repair("comments", text, position, end, "") if end > position else self._wait(text, position)

    def _otherwise(self, text: str, position: int) -> int:
        """What may stand between any two parts; what makes no sense stays."""
        character = text[position]
        if character in "<`" and (marker := self._marker(text, position)) is not None:
            return marker
        end = end_of_comment(text, position, final=self._final) if character in "/#" else None
        return self._leave(position) if end is None else self._leave_out(text, position, end)

    def _marker(self, text: str, position: int) -> int | None:
        """Where it goes on if a marker breaks the value off, or may; None if it is none."""
        found = is_marker(text, position, final=self._final)
        if found is None:
            return self._wait(text, position)
        self._broken = found
        return position if found else None

    def _next(self, text: str, position: int) -> int:
        """Behind a value."""
        after = self._blank(text, position)
        if after > position:
            return after
        in_object = self._brackets.in_object
        match character := text[position]:
            case ",":
                return self._comma(text, position)
            case "}" | "]" | ")":
                return self._close(text, position)
            case ";":
                return self._semicolon(text, position)
            case '"' | "'" | "“" | "‘":
                pass
            case "{" | "[" if in_object:
                self._open(character)
                return self._leave(position)
            case "{" | "[":
                pass
            case _ if not (in_object and _begins_key(character)):
                return self._otherwise(text, position)
        # Behind what makes no sense a comma wouldn't make any either.
        self._owes_comma = self.sound
        self.repair = self.repair or "commas"
        self._expect = Expect.KEY if in_object else Expect.VALUE
        return position

    def _semicolon(self, text: str, position: int) -> int:
        """One that stands for a comma, or behind the last value."""
        in_object = self._brackets.in_object
        found = (_SEMICOLON_IN_OBJECT if in_object else _SEMICOLON_IN_LIST).match(text, position, position + WINDOW)
        if found is None or (found.lastindex is not None and (self._final or len(text) >= position + WINDOW)):
            return self._leave(position)
        if found.lastindex is not None:
            return self._wait(text, position)
        if found.group()[-1] not in "}]":
            self._expect = Expect.KEY if in_object else Expect.VALUE
            return self._repair("commas", text, position, position + 1, ",")
        return self._repair("commas", text, position, position + 1, "")

    def _comma(self, text: str, position: int) -> int:
        """A comma is one when something follows that it may stand before; until then it is owed."""
        end = after_blanks(text, position + 1, position + WINDOW)
        if self._is_last(text, end) and end < position + WINDOW:
            return self._wait(text, position)
        self._expect = Expect.KEY if self._brackets.in_object else Expect.VALUE
        if self._owes_comma:
            self.repair = self.repair or "commas"
        if self._owes_comma or end == position + WINDOW or text[end : end + 1] in ("", *"}]),<`/#"):
            self._owes_comma = True
            return self._replace(text, position, position + 1, "")
        return position + 1

    def _pay_comma(self, text: str, position: int) -> None:
        """A key, or a value of a list, begins here."""
        if self._owes_comma:
            self._owes_comma = False
            before = self._character_before(text, position)
            self._replace(text, position, position, "," if before.isspace() else ", ")

    def _open(self, character: str) -> None:
        self._brackets.open(character)
        self._owes_comma = False
        self._expect = Expect.KEY if character == "{" else Expect.VALUE

    def _close(self, text: str, position: int) -> int:
        count = self._brackets.closed_by(text, position, final=self._final)
        if count is None:
            return self._wait(text, position)
        if count == 0:
            return self._leave(position)
        closing = self._brackets.close(count)
        if self._owes_comma:
            self._owes_comma = False
            self.repair = self.repair or "commas"
        self._expect = Expect.NEXT
        self.done = not self._brackets.closers
        return (
            position + 1
            if closing == text[position]
            else self._repair("brackets", text, position, position + 1, closing)
        )

    # Keys

    def _key(self, text: str, position: int) -> int:
        if not self._owes_comma:
            members = json_runs.members(text, position)
            if members is not None and members.end() > position:
                return members.end()
        after = self._blank(text, position)
        if after > position:
            return after
        match character := text[position]:
            case '"':
                self._pay_comma(text, position)
                self._read(DoubleQuoted(), then=Expect.COLON)
                return position + 1
            case "'":
                self._pay_comma(text, position)
                self._read(QuotedText("'", ANYTHING), then=Expect.COLON)
                return self._repair("quotes", text, position, position + 1, '"')
            case "“" | "‘":
                self._pay_comma(text, position)
                self._read(QuotedText(CURLY[character], ANYTHING), then=Expect.COLON)
                return self._repair("quotes", text, position, position + 1, '"')
            case "}" | "]" | ")":
                self.sound = self.sound and self._brackets.closers[-1] != ""
                return self._close(text, position)
            case ",":
                return self._repair("commas", text, position, position + 1, "")
            case "{" if self._character_before(text, position) == "{":
                # Templates write `{{` for a brace; who copies from one does, too.
                self._brackets.open_twice()
                return self._repair("brackets", text, position, position + 1, "")
            case "{" | "[":
                self._open(character)
                return self._leave(position)
            case _ if _begins_key(character):
                self._pay_comma(text, position)
                self._read(BareWord(Place.KEY), then=Expect.COLON)
                return position
        return self._otherwise(text, position)

    def _colon(self, text: str, position: int) -> int:
        after = self._blank(text, position)
        if after > position:
            return after
        match text[position]:
            case ":":
                self._expect = Expect.VALUE
                return position + 1
            case "=":
                if self._is_last(text, position, 2):
                    return self._wait(text, position)
                self._expect = Expect.VALUE
                return self._repair("signs", text, position, position + 1 + text.startswith("=>", position), ":")
            case '"' | "'" | "“" | "‘" | "{" | "[":
                self._expect = Expect.VALUE
                return self._repair("signs", text, position, position, ": ")
            case "}" | "]" | ",":
                self.sound = False
                self._expect = Expect.NEXT
                return position
        return self._otherwise(text, position)

    # Values

    def _value(self, text: str, position: int) -> int:
        is_inside, in_list = bool(self._brackets.closers), self._brackets.in_list
        if in_list and not self._owes_comma:
            elements = json_runs.elements(text, position)
            if elements is not None and elements.end() > position:
                return elements.end()
        after = self._blank(text, position)
        if after > position:
            return after
        match text[position]:
            case "<" | "`" if (marker := self._marker(text, position)) is not None:
                return marker
            case "}" | "]" | ")" if in_list:
                return self._close(text, position)
            case "," if in_list:
                return self._repair("commas", text, position, position + 1, "")
            case "}" | "]" | "," | ";" if is_inside:
                self.sound = False
                self._expect = Expect.NEXT
                return position
            case "/" | "#" if is_inside:
                end = end_of_comment_for_value(text, position, final=self._final)
                if end is not None:
                    return self._leave_out(text, position, end)
        return self._begin_value(text, position)

    def _begin_value(self, text: str, position: int) -> int:
        if self._brackets.in_list:
            self._pay_comma(text, position)
        is_inside = bool(self._brackets.closers)
        match character := text[position]:
            case '"':
                self._expect = Expect.BEGIN
                return position + 1
            case "'":
                return self._open_quotes(text, position)
            case "{" | "[":
                self._open(character)
                return position + 1
            case "(" if is_inside:
                self._open(character)
                return self._repair("brackets", text, position, position + 1, "[")
            case "`" | "“" | "‘" if is_inside:
                return self._open_other_quotes(text, position)
            case _ if is_inside and character in "rRbBuUfF":
                after = self._prefix(text, position)
                if after is not None:
                    return after
        word = json_runs.word(text, position) if is_inside else None
        if word is not None:
            self._expect = Expect.NEXT
            return word.end()
        self._read(BareWord(self._brackets.place()), then=Expect.NEXT)
        return position

"""What stands in JSON without quotes: numbers and constants as models spell them, and other words."""

from __future__ import annotations

import enum
import re

from extproc.toolcalls.notations.json_following import (
    IN_OBJECT,
    SEMICOLON_IN_LIST,
    SEMICOLON_IN_OBJECT,
    WINDOW,
    after_blanks,
    is_certain,
)
from extproc.toolcalls.notations.json_markers import is_marker
from extproc.toolcalls.notations.lazy_pattern import LazyPattern
from extproc.toolcalls.notations.quoted_text import json_text

NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"

_JSON = re.compile(rf"{NUMBER}|true|false|null")
# What other languages call them. Infinity is no JSON; null is what JavaScript makes of it. NaN is none either, but JSON
# parsers take it, and SGLang's tests expect it to pass.
_CONSTANTS = {
    "NaN": "NaN",
    **dict.fromkeys(("True", "TRUE"), "true"),
    **dict.fromkeys(("False", "FALSE"), "false"),
    **dict.fromkeys(("None", "NULL", "Null", "undefined"), "null"),
    **dict.fromkeys((sign + word for sign in ("", "+", "-") for word in ("Infinity", "inf")), "null"),
}
_NO_JSON = ("NaN", "...", "…")
_DIGITS = "[0-9]++(?:_[0-9]++)*+"
_DECIMAL = re.compile(rf"([+-]?)((?:{_DIGITS})?+)(\.(?:{_DIGITS})?+)?+([eE][+-]?[0-9]++)?+")
_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2}(?:,[0-9]{3})++(?:\.[0-9]++)?+")
_OTHER_BASE = re.compile(r"[+-]?0(?:[xX][0-9a-fA-F]{1,64}|[oO][0-7]{1,64}|[bB][01]{1,64})")


def word_as_json(word: str) -> str:
    """The JSON of a bare word: itself, if it is JSON, and else the number or constant that it means, or a string."""
    if _JSON.fullmatch(word):
        return word
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    if _OTHER_BASE.fullmatch(word):
        return str(int(word, 0))
    if _THOUSANDS.fullmatch(word):
        return word.replace(",", "")
    decimal = _DECIMAL.fullmatch(word)
    if decimal is None or not (decimal[2] or (decimal[3] or ".")[1:]):
        return json_text(word)
    sign, whole, fraction, exponent = (part.replace("_", "") for part in decimal.groups(""))
    fraction += "0" if fraction == "." else ""
    return f"{sign.strip('+')}{whole.lstrip('0') or '0'}{fraction}{exponent}"


class Place(enum.Enum):
    """Where a word stands."""

    ALONE = enum.auto()
    IN_OBJECT = enum.auto()
    IN_LIST = enum.auto()
    IN_TUPLE = enum.auto()
    KEY = enum.auto()


_SEMICOLON_IN_OBJECT = LazyPattern(SEMICOLON_IN_OBJECT)
_SEMICOLON_IN_LIST = LazyPattern(SEMICOLON_IN_LIST)
_STOPS = {
    **dict.fromkeys((Place.IN_OBJECT, Place.IN_LIST, Place.IN_TUPLE), re.compile(r"""[\s,;}\])"<`]""").search),
    Place.ALONE: re.compile(r"""[\s,:{}\[\]"'<`]""").search,
    Place.KEY: re.compile(r"""[\s:=,{}\[\]"'<`]""").search,
}


class BareWord:
    """A value or a key without quotes; `scan` is that of `QuotedText`, and nothing leaves before the end has come.

    Several words with blanks between them are one, and in an object it may hold commas: what ends it is a bracket, or
    the next key.
    """

    __slots__ = ("_is_string", "_parts", "_place", "_stop", "done", "is_changed", "is_json", "is_key")

    def __init__(self, place: Place) -> None:
        self.done = False
        self.is_key = False
        self.is_json = True
        """What it has become is JSON,"""
        self.is_changed = False
        """and not what was written."""
        self._place = place
        self._stop = _STOPS[place]
        self._parts: list[str] = []
        self._is_string = False  # it is neither a number nor a constant, whatever comes

    def scan(self, text: str, start: int, *, final: bool = False) -> tuple[int, str]:
        position = start
        while not self.done:
            stop = self._stop(text, position)
            at = len(text) if stop is None else stop.start()
            self._parts.append(text[position:at])
            position = at
            if at == len(text):
                break
            end = at if self._place is Place.ALONE else after_blanks(text, at, at + WINDOW)
            if end == len(text) and not final and self._place is not Place.ALONE:
                break
            ends = self._ends(text, at, end, final=final)
            if ends is None:
                break
            if ends:
                self.done = True
            else:
                self._parts.append(text[at : end + 1])
                position = end + 1
        return position, self.end() if self.done else ""

    def end(self) -> str:
        """The JSON of what came."""
        word = "".join(self._parts)
        self._parts.clear()
        if self._place is Place.KEY:
            self.is_json = self.is_changed = self.is_key
            return json_text(word) if self.is_key else word
        self.is_json = word not in _NO_JSON
        if word in ("...", "…"):
            return word  # something is left out here
        json = word_as_json(word) if word else ""
        self.is_changed = json != word
        return json

    def so_far(self) -> str:
        """What came, as it is."""
        return "".join(self._parts)

    def _ends(self, text: str, at: int, end: int, *, final: bool) -> bool | None:
        """Whether the word ends at `at`, by what stands at `end` behind blanks; None when that isn't certain yet."""
        character = text[end : end + 1]
        if self._place is Place.KEY:
            self.is_key = character in (":", "=")
            return True
        if self._place is Place.ALONE or character in ("", "}", "]", '"'):
            return True
        if character in "<`":
            return is_marker(text, end, final=final)
        in_object = self._place is Place.IN_OBJECT
        if character == ")":
            self._note_string()
            return self._place is Place.IN_TUPLE or (in_object and not self._is_string)
        if character == "," and not in_object:
            return True
        if character in ",;":
            ends = (
                IN_OBJECT.match
                if character == ","
                else (_SEMICOLON_IN_OBJECT if in_object else _SEMICOLON_IN_LIST).match
            )
            found = ends(text, end, end + WINDOW)
            if found is not None and not is_certain(found, text, end, final=final):
                return None
            return found is not None
        if character in "/#" and end > at:
            if character == "/" and end + 1 == len(text) and not final:
                return None
            return character == "#" or text[end + 1 : end + 2] in ("/", "*")
        # Numbers may stand in a list with nothing but blanks between them; else another word belongs to this one.
        self._note_string()
        # So may blanks without an end stand behind a number.
        between = self._place is not Place.IN_OBJECT or character.isspace()
        return "\n" in text[at:end] or (between and not self._is_string)

    def _note_string(self) -> None:
        """More words don't make a number of what is none by now."""
        self._is_string = self._is_string or word_as_json("".join(self._parts)).startswith('"')

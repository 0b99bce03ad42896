"""What is particular to a notation that is nearly JSON, and what tells the ends of its strings."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache

from extproc.toolcalls.notations.delimited_text import StringMarkers
from extproc.toolcalls.notations.quoted_text import PREFIX, Follows

# Words that mean a JSON value.
JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
JSON_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}


_not_blank = re.compile(r"\S").search
_key_ahead = re.compile(r"[\w.\-]{1,64}+(?:(\Z)|\s{0,8}+(?:(\Z)|[:=](?:(\Z)|[^=])))").match
_first_key = re.compile(r"\{\s{0,32}+(?:[\"']([\w.\-]{0,64}+)(?:[\"']|(\Z))|(\Z))").match


def after_blanks(text: str, position: int) -> int:
    found = _not_blank(text, position)
    return len(text) if found is None else found.start()


def is_key(text: str, position: int, *, final: bool) -> bool | None:
    """Whether a key and its separator stand here; None when that isn't certain yet."""
    found = _key_ahead(text, position)
    return False if found is None else found.lastindex is None or (False if final else None)


def first_key_in(keys: Collection[str], text: str, position: int, *, final: bool) -> bool | None:
    """Whether the first key of the object that begins here is one of `keys`; None when that isn't certain yet."""
    found = _first_key(text, position)
    if found is None or (found.lastindex != 1 and final):
        return False
    return found[1] in keys if found.lastindex == 1 else None


def is_comment(text: str, position: int, *, final: bool) -> bool | None:
    """Whether `#` begins a comment; None when that isn't certain yet. `#fff` is none."""
    behind = text[position + 1 : position + 2]
    return behind in " \t\n" if behind or final else None


class Shape(enum.Enum):
    """What brackets hold."""

    CALL = enum.auto()
    """`(key=value, ...)`; values may also stand alone."""
    KEYWORDS = enum.auto()
    """The same as a value: `dict(key=value)`."""
    OBJECT = enum.auto()
    BRACES = enum.auto()
    """Python's `{`: its first element shows whether it is an object or a list."""
    LIST = enum.auto()
    GROUP = enum.auto()
    """Python's `(`, also behind `list` and the like: a comma shows that it is a list."""


class Place(enum.Enum):
    """Where a Python call stands, which tells what may follow it."""

    LIST = enum.auto()
    """In the brackets of a list behind a marker that says "call"."""
    BARE_LIST = enum.auto()
    """In those of a list that no marker announces."""
    LINES = enum.auto()
    """On a line of its own."""
    FENCE = enum.auto()
    """On a line of its own in a code block."""
    WRAPPED = enum.auto()
    """In the brackets of another call: `print(f())`."""


# Blanks, and comments in Python. A comment with quotes in it is none: it may be part of a string.
_BLANKS = r"""(?:\s++|\#(?:(\Z)|[ \t][^\n'"]*+(?:\n|(\Z))|\n))*+"""
_LINE_END = r"""[ \t]*+(?:\#(?:[ \t][^\n'"]*+)?+)?+\r?\n"""
# What a call's next argument begins with: its key, perhaps in quotes, or stars.
_SEPARATED = r"\s*+(?:(\Z)|[=:](?:(\Z)|[^=]))"
_KEYWORD = rf"(?:[\w.\-]++{_SEPARATED}|\*|['\"](?:(\Z)|[\w.\-]{{1,64}}+(?:(\Z)|['\"]{_SEPARATED})))"
_VALUE_END = rf"[)\]}}]{_BLANKS}(?:(\Z)|[,;<)\]}}])"

_AFTER_CALL = {
    Place.LIST: rf"{_BLANKS}(?:(\Z)|[\]<]|[,;]{_BLANKS}(?:(\Z)|[\]<]|[^\W\d]))",
    Place.LINES: rf"(?:{_BLANKS}[,;]?+{_BLANKS}(?:(\Z)|[\]<])|(?:\s*+[,;]\s*+|{_LINE_END}{_BLANKS})[^\W\d])",
    Place.WRAPPED: rf"\s*+(?:(\Z)|\){_BLANKS}(?:(\Z)|[\]<`,;]|[^\W\d]))",
}
_AFTER_CALL[Place.BARE_LIST] = _AFTER_CALL[Place.LIST]
_AFTER_CALL[Place.FENCE] = rf"(?:{_BLANKS}`|{_AFTER_CALL[Place.LINES]})"

# Another string on the same line, which ends as it should, or is followed by yet another.
_STRING = rf"""{PREFIX}(?:(\Z)
    |'(?:[^'\\\n]++|\\(?:.|\Z))*+(?:'|(\Z))
    |"(?:[^"\\\n]++|\\(?:.|\Z))*+(?:"|(\Z)))"""


def _follows(end: str, *, python: bool = True, first: str | None = None) -> Follows:
    """`end` is a pattern of what may follow a string, but for blanks and the end of the text; `first` is what else may,
    as long as no quote in it has been taken for text."""
    if not python:
        return Follows(re.compile(rf"\s*+(?:(\Z)|{end})"), joins=False)
    end = rf"{_BLANKS}(?:(\Z)|{end})"
    gap = r"([ \t]++|[ \t]*+\+[ \t]*+)"
    more = rf"[ \t]++(?:\+|{PREFIX}(?:['\"]|(\Z)))|\+|[ \t]*+\\?(?:(\Z)|\r?(?:(\Z)|\n\s*+{PREFIX}(?:['\"]|(\Z))))"
    beside = re.compile(rf"{gap}(?:(\Z)|(?x:{_STRING})(?:{end}|{more}))")
    return Follows(re.compile(end), beside, first=None if first is None else re.compile(rf"{_BLANKS}(?:{first})"))


_KEY = r"[=:,)\]}]"
_IN_VALUE = {
    Shape.KEYWORDS: rf",{_BLANKS}(?:(\Z)|\)|{_KEYWORD})|{_VALUE_END}",
    Shape.OBJECT: rf",{_BLANKS}(?:(\Z)|[\w.\-'\"<)\]}}])|{_VALUE_END}",
    Shape.LIST: rf",{_BLANKS}(?:(\Z)|[^,:;=])|{_VALUE_END}",
}


# Each is made when it is first needed: all of them take 30 ms at every start of a process, and few models write what
# needs any.
@cache
def _after_key() -> Follows:
    return _follows(_KEY)


@cache
def _after_argument(place: Place) -> Follows:
    end = rf",{_BLANKS}(?:(\Z)|\)|{_KEYWORD})|[)\]]{_AFTER_CALL[place]}"
    return _follows(end, first=rf";{_BLANKS}(?:(\Z)|\)|{_KEYWORD})")


@cache
def _after_value(shape: Shape) -> Follows:
    return _follows(_IN_VALUE[shape])


@cache
def _between_markers(shape: Shape) -> Follows:
    return _follows(rf"{_IN_VALUE[shape]}|<(?:(\Z)|[|te])", python=False)


@cache
def _key_between_markers() -> Follows:
    return _follows(rf"{_KEY}|<", python=False)


@dataclass(frozen=True, slots=True)
class Notation:
    """How values are written."""

    word: Callable[[str], str]
    """The JSON of a value that is neither string nor brackets."""
    markers: StringMarkers | None = None
    """What else than quotes may stand around a string; None in Python."""
    place: Place = Place.LIST
    """Where a call in Python stands."""
    rounded: bool = False
    """A round bracket may end a word, as it always does in Python."""

    @property
    def python(self) -> bool:
        """Tuples, sets, triple quotes, prefixes of strings, comments, and calls that stand as values."""
        return self.markers is None

    def follows(self, shape: Shape, at_key: bool) -> Follows:
        """What may follow a string that stands in `shape`."""
        if self.markers is not None:
            return _key_between_markers() if at_key else _between_markers(shape)
        if at_key:
            return _after_key()
        if shape is Shape.CALL:
            return _after_argument(self.place)
        return _after_value(Shape.LIST if shape is Shape.GROUP else shape)

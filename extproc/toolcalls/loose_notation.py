"""What is particular to a notation that is nearly JSON, and what tells the ends of its strings."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from extproc.toolcalls.lexer import Lexer

# Words that mean a JSON value.
JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
JSON_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}


class Shape(enum.Enum):
    """What brackets hold."""

    CALL = enum.auto()
    """`(key=value, ...)`; values may also stand alone."""
    OBJECT = enum.auto()
    BRACES = enum.auto()
    """Python's `{`: its first element shows whether it is an object or a list."""
    LIST = enum.auto()


_KEYWORD = r"[\w.\-]++\s*+(?:(\Z)|[=:](?:(\Z)|[^=]))"


def _after_argument(next_call: str) -> re.Pattern[str]:
    """What follows a string that is a call's argument: the next one, or the call's end. Behind that comes the end of
    the list, a marker, or `next_call`."""
    end = rf"[)\]](?:\s*+[,;]?+\s*+(?:(\Z)|[\]<])|{next_call})"
    return re.compile(rf"\s*+(?:(\Z)|,\s*+(?:(\Z)|\)|{_KEYWORD})|{end})")


# What may follow a string, by what it stands in (see QuotedText). Behind the last bracket nothing but blanks, a comma
# and one character more is looked at: blanks and commas mean nothing there, so they may be consumed with the call.
_AFTER_KEY = re.compile(r"\s*+(?:(\Z)|[=:,)\]}])")
_AFTER_ARGUMENT_IN_LIST = _after_argument(r"\s*+[,;]\s*+[^\W\d]")
_AFTER_ARGUMENT_IN_LINES = _after_argument(r"(?:\s*+[,;]\s*+|[ \t]*+\r?\n\s*+)[^\W\d]")
_AFTER_VALUE = {
    Shape.OBJECT: re.compile(r"\s*+(?:(\Z)|,\s*+(?:(\Z)|[\w.\-'\"<)\]}])|[)\]}]\s*+(?:(\Z)|[,;<)\]}]))"),
    Shape.LIST: re.compile(r"\s*+(?:(\Z)|,\s*+(?:(\Z)|[^,:;=])|[)\]}]\s*+(?:(\Z)|[,:;<)\]}]))"),
}


@dataclass(frozen=True, slots=True)
class Notation:
    """How values are written."""

    word: Callable[[str], str]
    """The JSON of a value that is neither string nor brackets."""
    delimiter: str = ""
    """What else than quotes may stand around a string; nothing is escaped between it."""
    python: bool = False
    """Tuples, sets, triple quotes, prefixes of strings, and calls that stand as values."""
    lines: bool = False
    """Calls follow each other on lines of their own, not between the brackets of a list."""
    lexer: Lexer | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lexer", Lexer((self.delimiter,)) if self.delimiter else None)

    def ends(self, shape: Shape, at_key: bool) -> re.Pattern[str]:
        """What may follow a string that stands in `shape` (see QuotedText)."""
        if at_key:
            return _AFTER_KEY
        if shape is Shape.CALL:
            return _AFTER_ARGUMENT_IN_LINES if self.lines else _AFTER_ARGUMENT_IN_LIST
        return _AFTER_VALUE[shape]

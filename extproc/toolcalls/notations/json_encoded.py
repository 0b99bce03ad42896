"""Reads a JSON string for what it says, as it arrives: a name, or arguments that were encoded twice."""

from __future__ import annotations

import enum
import json
import re

from extproc.toolcalls.notations.json_following import ANYTHING, WINDOW
from extproc.toolcalls.notations.json_scanner import JsonValue
from extproc.toolcalls.notations.json_strings import DoubleQuoted
from extproc.toolcalls.notations.quoted_text import QuotedText
from extproc.toolcalls.repairs import Repair

_half_pair = re.compile(r"(?<!\\)((?:\\\\)*+)(\\u[dD][89abAB][0-9a-fA-F]{2})\Z").search
_BEHIND_ARGUMENTS = re.compile(r"\s*+(?:(\Z)|[,}\]<`])")
_BLANK = r"(?:\s|\\[nrt])*+"
_LEAD = re.compile(rf"{_BLANK}(?:(\\?\Z)|\{{{_BLANK}(?:(\\?\Z)|(.))|[^{{])", re.DOTALL)


class DecodedString:
    """One string, from behind its opening quote; `scan` returns (end, decoded piece)."""

    __slots__ = ("_half", "_held", "_string", "done", "is_python")

    def __init__(self, quote: str, ends: re.Pattern[str] = ANYTHING) -> None:
        self.done = False
        self.is_python = quote != '"'
        """Its escapes are Python's."""
        self._held = ""
        self._half = ""  # of a surrogate pair
        self._string = DoubleQuoted() if quote == '"' else QuotedText(quote, ends)

    def scan(self, text: str, start: int, *, final: bool = False) -> tuple[int, str]:
        held, self._held = self._held, ""
        whole = held + text[start:] if held else text
        position = 0 if held else start
        end, piece = self._string.scan(whole, position, final=final)
        self.done = self._string.done
        if not self.done and end < len(whole):
            self._held = whole[end:]
            end = len(whole)
        piece = self._half + piece
        self._half = ""
        if not self.done and (half := _half_pair(piece)):
            self._half = half[2]
            piece = piece[: half.start(2)]
        return start + max(0, end - position - len(held)), unescape(piece)


def unescape(text: str) -> str:
    """The text that the inside of a JSON string stands for."""
    return _escape.sub(_character, text) if "\\" in text else text


_escape = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)


def _character(escape: re.Match[str]) -> str:
    try:
        character: str = json.loads(f'"{escape.group()}"')
    except ValueError:
        return escape.group()
    # Half a surrogate pair is no character and can't be encoded any more.
    return "\ufffd" if "\ud800" <= character <= "\udfff" else character


class _Kind(enum.Enum):
    UNKNOWN = enum.auto()
    ENCODED = enum.auto()
    """A string that holds an object."""
    ENDED = enum.auto()
    """Such a string, behind the object."""
    BARE = enum.auto()
    """An object between quotes, in which nothing is escaped."""
    CLOSING = enum.auto()
    """Behind such an object, before the closing quote."""
    PLAIN = enum.auto()
    """A string that holds no object."""


class QuotedArguments:
    """A string in an object's place, from behind its opening quote; `scan` returns (end, piece of the object)."""

    __slots__ = ("_kind", "_lead", "_plain", "_quote", "_string", "_value", "done", "rest")

    def __init__(self, quote: str) -> None:
        self.done = False
        self.rest = ""  # what had to be seen to tell that something else begins
        self._plain: list[str] = []
        self._quote = quote
        self._kind = _Kind.UNKNOWN
        self._lead = ""  # what came before the kind was known
        self._value = JsonValue()  # the object, or the plain string
        self._string = DecodedString(quote, _BEHIND_ARGUMENTS)

    @property
    def is_object(self) -> bool | None:
        """None while it isn't certain."""
        return None if self._kind is _Kind.UNKNOWN else self._kind is not _Kind.PLAIN

    @property
    def sound(self) -> bool:
        """What came of the object is JSON."""
        return self._value.sound

    @property
    def repair(self) -> Repair | None:
        """What had to be repaired first: that it is a string at all."""
        return "encoded" if self.is_object else None

    @property
    def plain(self) -> str:
        """The JSON of a string that holds no object."""
        return "".join(self._plain)

    def scan(self, text: str, start: int) -> tuple[int, str]:
        if self._kind is not _Kind.UNKNOWN:
            return self._scan(text, start)
        lead = len(self._lead)
        whole = self._lead + text[start:]
        found = _LEAD.match(whole, 0, WINDOW)
        assert found is not None  # anything may stand behind blanks
        if found.lastindex in (1, 2) and len(whole) < WINDOW:
            self._lead = whole
            return len(text), ""
        if found.lastindex in (None, 1):  # no brace
            self._kind = _Kind.PLAIN
            whole, lead = self._quote + whole, lead + 1
        else:
            self._kind = _Kind.BARE if found[3] == self._quote else _Kind.ENCODED
        end, piece = self._scan(whole, 0)
        return start + max(0, end - lead), piece

    def end_of_input(self) -> str:
        """What had been held back."""
        if self._kind is _Kind.ENCODED:
            _, piece = self._string.scan("", 0, final=True)
            _, piece = self._value.scan(piece, 0) if piece else (0, "")
            return piece + self._value.end_of_input()
        return self._value.end_of_input() if self._kind is _Kind.BARE else ""

    def _scan(self, text: str, position: int) -> tuple[int, str]:
        out: list[str] = []
        while position < len(text) and not self.done:
            match self._kind:
                case _Kind.ENCODED | _Kind.ENDED:
                    position, piece = self._string.scan(text, position)
                    out.append(self._of_object(piece))
                    self.done = self._string.done
                case _Kind.BARE:
                    position, piece = self._value.scan(text, position)
                    out.append(piece)
                    if not self._value.done and position < len(text):
                        out.append(self._value.break_off())
                        self.rest = self._value.rest
                        self.done = True
                    if self._value.done:
                        self._kind = _Kind.CLOSING
                case _Kind.CLOSING:
                    character = text[position]
                    self.done = not character.isspace()
                    position += character.isspace() or character == self._quote
                case _:
                    position, piece = self._value.scan(text, position)
                    self._plain.append(piece)
                    self.done = self._value.done
        return position, "".join(out)

    def _of_object(self, decoded: str) -> str:
        """What a piece of the string adds to the object that it holds."""
        if self._kind is _Kind.ENDED:
            return ""
        end, piece = self._value.scan(decoded, 0) if decoded else (0, "")
        if self._value.done:
            self._kind = _Kind.ENDED
        elif end < len(decoded):
            self._kind = _Kind.ENDED
            piece += self._value.break_off()
        elif self._string.done:
            piece += self._value.break_off()
        return piece

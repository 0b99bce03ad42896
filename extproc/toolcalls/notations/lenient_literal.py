"""Reads a complete value that is nearly JSON: one in Python's or JavaScript's spelling, or with a slip in it.

Numbers keep their spelling where JSON has it. What JSON hasn't is spelled anew: `+5`, `1_000`, `.5`, `0x1F`, `None`,
single quotes, line breaks in a string, a comma behind the last value. Where more than the spelling is wrong (keys
without quotes, a bracket or a comma that is missing), something was guessed: such a value isn't `exact`.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from json.encoder import encode_basestring as quoted

from extproc.toolcalls.notations.quoted_text import QuotedText

JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][+-]?[0-9]+)?")

_CONSTANTS = {"true": "true", "True": "true", "false": "false", "False": "false", "null": "null", "None": "null"}
_CLOSING = {"{": "}", "[": "]", "(": ")"}
_OPENING = {closing: opening for opening, closing in _CLOSING.items()}

_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_NUMBER = re.compile(
    rf"(?P<sign>[+\-−]?)(?P<whole>{_DIGITS})?(?P<fraction>\.(?:{_DIGITS})?)?(?P<exponent>[eE][+-]?[0-9]+)?"
)
_OTHER_BASE = re.compile(r"[+-]?0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_LONGEST_OTHER_BASE = 1000  # Python refuses to spell out much larger integers

_TOKEN = re.compile(r"\s*+(?:(?P<mark>[\[\]{}(),:])|(?P<quote>[\"'])|(?P<word>[^\s\[\]{}(),:\"']++))")
_STRING = {
    quote: re.compile(rf"{quote}[^{quote}\\]*+(?:\\.[^{quote}\\]*+)*+{quote}", re.DOTALL) for quote in ("'", '"')
}
_AFTER_STRING = re.compile(r"\s*+(?:[,:\]})]|\Z)")
_QUOTE = re.compile(r"\s*+[\"']")
_ANYTHING = re.compile("")
_COLON = re.compile(r"\s*+:")
_BARE_KEY = re.compile(r"[\w$@][\w.$@\-]*")
_BARE = re.compile(r"[^\W\d][\w.\-]*")
_DEEPEST = 200  # levels; what reads JSON has such a limit too
_NO_STRINGS = frozenset(("nan", "inf", "infinity", "undefined"))


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as JSON."""

    json: str
    exact: bool
    """Nothing had to be guessed."""


def number(text: str) -> str | None:
    """The JSON number that `text` stands for, None when it is none."""
    if JSON_NUMBER.fullmatch(text):
        return text
    if len(text) <= _LONGEST_OTHER_BASE and _OTHER_BASE.fullmatch(text):
        return str(int(text, 0))
    found = _NUMBER.fullmatch(text)
    if found is None or not (found["whole"] or (found["fraction"] or ".") != "."):
        return None
    whole, fraction = ((found[part] or "").replace("_", "") for part in ("whole", "fraction"))
    sign = "-" if found["sign"] in ("-", "−") else ""
    return sign + (whole.lstrip("0") or "0") + (".0" if fraction == "." else fraction) + (found["exponent"] or "")


def literal(text: str) -> Literal | None:
    """The value that all of `text` stands for, if it is a string in quotes, a list or an object."""
    if text[:1] not in ("[", "{", "(", '"', "'"):
        return None
    reading = _Reading(text)
    while token := _TOKEN.match(text, reading.position):
        reading.position = token.end()
        if not reading.takes(token):
            return None
    return reading.end()


class _Last(enum.Enum):
    """What stands before the next token."""

    NOTHING = enum.auto()
    """A value may begin."""
    STRING = enum.auto()
    CONSTANT = enum.auto()
    WORD = enum.auto()
    """A string without quotes."""
    BRACKETS = enum.auto()


class _Reading:
    """One value, read token by token."""

    __slots__ = ("_counts", "_exact", "_key", "_last", "_open", "_out", "_text", "position")

    def __init__(self, text: str) -> None:
        self.position = 0
        self._text = text
        self._exact = True
        self._out: list[str] = []
        self._open: list[str] = []  # the brackets that are open
        self._counts: list[int] = []  # ... and how many values stand in each
        self._key = False  # a key and its colon came: a value has to follow
        self._last = _Last.NOTHING

    def takes(self, token: re.Match[str]) -> bool:
        """Read one token; False when it can't stand here."""
        mark = token["mark"]
        if mark == ",":
            separates = self._last is not _Last.NOTHING and bool(self._open)
            self._last = _Last.NOTHING
            return separates
        if mark in _OPENING:
            return self._close(mark)
        if mark == ":" or (self._last is not _Last.NOTHING and not self._open):
            return False
        if token["quote"]:
            return self._string(token.start("quote"))
        if self._last is not _Last.NOTHING:
            self._exact = False  # a comma is missing
            if self._last is _Last.WORD or token["word"]:
                return False  # or quotes are
        if not self._key and self._in_object():
            return mark is None and self._bare_key(token["word"])
        return self._begin_brackets(mark) if mark else self._word(token["word"])

    def end(self) -> Literal | None:
        if self._key or not self._out or self._text[self.position :].strip():
            return None
        while self._open:
            self._exact = False  # it isn't closed
            self._close(_CLOSING[self._open[-1]])
        return Literal("".join(self._out), self._exact)

    def _in_object(self) -> bool:
        return bool(self._open) and self._open[-1] == "{"

    def _begin_brackets(self, opening: str) -> bool:
        if len(self._open) == _DEEPEST:
            return False
        self._begin_value()
        self._out.append("{" if opening == "{" else "[")
        self._open.append(opening)
        self._counts.append(0)
        self._last = _Last.NOTHING
        return True

    def _close(self, closing: str) -> bool:
        if self._key:
            return False
        if not self._open:
            self._exact = False  # one too many
            return self._last is not _Last.NOTHING
        if self._open[-1] != _OPENING[closing]:
            self._exact = False  # one of the inner ones is missing
            if _OPENING[closing] not in self._open:
                return False
            while self._open[-1] != _OPENING[closing]:
                self._close(_CLOSING[self._open[-1]])
        self._open.pop()
        if self._counts.pop() == 1 and closing == ")":
            self._exact = False  # in Python that is the value itself
        self._out.append("}" if closing == "}" else "]")
        self._last = _Last.BRACKETS
        return True

    def _begin_value(self) -> None:
        if self._counts and not self._key:
            if self._counts[-1]:
                self._out.append(", ")
            self._counts[-1] += 1
        self._key = False

    def _string(self, start: int) -> bool:
        text = self._text
        whole = _STRING[text[start]].match(text, start)
        if whole is None:
            return False
        plain = _AFTER_STRING.match(text, whole.end()) or _QUOTE.match(text, whole.end())
        string = QuotedText(text[start], _ANYTHING if plain else _AFTER_STRING)
        self.position, inside = string.scan(text, start + 1, final=True)
        if not string.done:
            return False
        if not plain:
            self._exact = False  # quotes in it should have been escaped
        colon = _COLON.match(text, self.position) if self._in_object() and not self._key else None
        if self._last is _Last.STRING and colon is None:
            self._out[-1:] = [inside, '"']  # strings in a row are one string in Python
            return True
        if self._last is not _Last.NOTHING:
            self._exact = False  # a comma is missing
            if self._last is _Last.WORD:
                return False  # or quotes are
        if self._in_object() and not self._key:
            return colon is not None and self._begin_member(inside, colon.end())
        self._begin_value()
        self._out += ['"' + inside, '"']
        self._last = _Last.STRING
        return True

    def _bare_key(self, word: str) -> bool:
        colon = _COLON.match(self._text, self.position)
        if colon is None or not (_BARE_KEY.fullmatch(word) or number(word)):
            return False
        if number(word) is None and word not in _CONSTANTS:
            self._exact = False
        return self._begin_member(_CONSTANTS.get(word, word), colon.end())

    def _begin_member(self, key: str, position: int) -> bool:
        self._begin_value()
        self._out.append(f'"{key}": ')
        self._key = True
        self._last = _Last.NOTHING
        self.position = position
        return True

    def _word(self, word: str) -> bool:
        spelled = _CONSTANTS.get(word) or number(word)
        kind = _Last.CONSTANT
        if spelled is None:
            kind = _Last.WORD
            if not _BARE.fullmatch(word) or word.lower() in _NO_STRINGS:
                return False
            self._exact = False
            spelled = quoted(word)
        self._begin_value()
        self._out.append(spelled)
        self._last = kind
        return True

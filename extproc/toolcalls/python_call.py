"""Reads one call in Python's syntax, `name(key=value, ...)`, as it arrives, and hands its arguments on as JSON.

Values are Python's literals, and what models write for them: `true` and `null`, words without quotes, quotes that
should have been escaped. Integers of any size and `1.0` keep their spelling. An expression that is no literal is
handed on as the text it is; nothing is ever evaluated.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extproc.toolcalls.loose_notation import JSON_NUMBER, JSON_WORDS, Notation, Shape
from extproc.toolcalls.loose_scanner import LooseScanner
from extproc.toolcalls.quoted_text import json_text
from extproc.toolcalls.table import Body, Reader, Verdict
from extproc.toolcalls.values import parameter_schemas

_LONGEST_NAME = 256
_name_part = re.compile(r"[\w.\-]+").match
_lead = re.compile(r"[\s\[]*").match

_DIGITS = r"[0-9](?:_?[0-9])*"
_DECIMAL = re.compile(rf"([+-]?)((?:{_DIGITS})?)(\.(?:{_DIGITS})?)?([eE][+-]?{_DIGITS})?")
_OTHER_BASE = re.compile(r"[+-]?0(?:[xX](?:_?[0-9a-fA-F])+|[oO](?:_?[0-7])+|[bB](?:_?[01])+)")
_LONGEST_OTHER_BASE = 1000  # Python refuses to spell out much larger integers


def python_word(word: str) -> str:
    """The JSON of what is neither string nor brackets: a number or a constant, else its text."""
    if word in JSON_WORDS:
        return JSON_WORDS[word]
    if JSON_NUMBER.fullmatch(word):
        return word
    if len(word) <= _LONGEST_OTHER_BASE and _OTHER_BASE.fullmatch(word):
        return str(int(word, 0))
    number = _DECIMAL.fullmatch(word)
    if number is None or not any(character.isdigit() for character in (number[2] + (number[3] or ""))[:2]):
        return json_text(word)
    sign, whole, fraction, exponent = (part.replace("_", "") for part in number.groups(""))
    if fraction == ".":
        fraction = ".0"
    digits = whole.lstrip("0") or "0"
    if digits != whole and whole.strip("0") and not fraction and not exponent:
        return json_text(word)  # `007` is no number in Python
    return ("-" if sign == "-" else "") + digits + fraction + exponent


_IN_LIST = Notation(python_word, python=True)
_IN_LINES = Notation(python_word, python=True, lines=True)


@dataclass(frozen=True, slots=True)
class PythonCall(Body):
    """A call such as `f(a='x', b=[1])`, and the `[` that opens a list of them."""

    offered_only: bool = False
    """Without a marker that says "call", only an offered tool's name, with arguments that are named or literals, or
    with none, is one."""
    lines: bool = False
    """Calls stand on lines of their own, not in a list."""

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        return PythonCallReader(self, tools)


class _Expect(enum.Enum):
    LEAD = enum.auto()
    NAME = enum.auto()
    BRACKET = enum.auto()


class PythonCallReader:
    """One call, from its name, or the `[` before it, to the bracket behind its arguments."""

    __slots__ = (
        "_arguments",
        "_expect",
        "_in_arguments",
        "_name",
        "_notation",
        "_offered_only",
        "_tools",
        "done",
        "verdict",
        "whole",
    )

    def __init__(self, table: PythonCall, tools: Mapping[str, Any]) -> None:
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self._tools = tools
        self._offered_only = table.offered_only
        self._notation = _IN_LINES if table.lines else _IN_LIST
        self._expect = _Expect.LEAD
        self._in_arguments = False
        self._name = ""
        self._arguments = LooseScanner(self._notation, Shape.CALL)

    @property
    def name(self) -> str | None:
        """The tool's name; only a bracket tells where it ends."""
        return self._name if self._in_arguments else None

    def take(self) -> str:
        """The arguments that became ready since the last time."""
        return self._arguments.take()

    def scan(self, text: str, position: int) -> int:
        """Consume what belongs to the call from `position`; returns the end."""
        if not self._in_arguments:
            position = self._head(text, position)
            if not self._in_arguments:
                return position
        arguments = self._arguments
        position = arguments.scan(text, position)
        if self.verdict is Verdict.UNDECIDED:
            if arguments.begun or arguments.whole or (arguments.done and not self._offered_only):
                self.verdict = Verdict.CALL
            elif arguments.done:
                self.verdict = Verdict.NOT_A_CALL
        self.done, self.whole = arguments.done, arguments.whole
        return position

    def end_of_input(self) -> None:
        """The output ends here. A call whose arguments have begun stands, with what came of them."""
        if self._in_arguments:
            self._arguments.end_of_input()
            if self._arguments.begun:
                self.verdict = Verdict.CALL
        self.done, self.whole = True, self._arguments.whole

    def _head(self, text: str, position: int) -> int:
        """What stands before the arguments: the name and a bracket."""
        size = len(text)
        if self._expect is _Expect.LEAD:
            lead = _lead(text, position)
            position = position if lead is None else lead.end()
            if position < size:
                self._expect = _Expect.NAME
        if self._expect is _Expect.NAME and position < size:
            part = _name_part(text, position, position + _LONGEST_NAME + 1 - len(self._name))
            if part is not None:
                self._name += part.group()
                position = part.end()
            if len(self._name) > _LONGEST_NAME:
                return self._reject(position)
            if position < size:
                self._expect = _Expect.BRACKET
                if not self._name or (self._offered_only and self._name not in self._tools):
                    return self._reject(position)
        if self._expect is _Expect.BRACKET:
            while position < size and text[position] in " \t":
                position += 1
            if position < size:
                if text[position] != "(":
                    return self._reject(position)
                self._begin_arguments()
                position += 1
        return position

    def _begin_arguments(self) -> None:
        self._in_arguments = True
        _, properties = parameter_schemas(self._tools.get(self._name, {}))
        self._arguments = LooseScanner(self._notation, Shape.CALL, tuple(properties), strict=self._offered_only)

    def _reject(self, position: int) -> int:
        self.verdict = Verdict.NOT_A_CALL
        self.done = True
        return position

"""Reads a JSON object that holds a call, in the usual shape or in another.

The usual one is the business of `JsonCallReader`, which hands on arguments as they come. Where that says that an object
is no call, its first keys tell whether it may be one in another shape (`other_shapes.py`). Then it is kept until it is
complete, a few kilobytes at most, and judged as a whole. What is no call after all is text, and isn't looked at again.
"""

from __future__ import annotations

import enum
import json
import re
from typing import TYPE_CHECKING

from extproc.toolcalls.announcing import announced_tool, is_example
from extproc.toolcalls.notations.json_call_reader import JsonCallReader
from extproc.toolcalls.notations.other_shapes import (
    ARGUMENTS_KEYS,
    NAME_KEYS,
    WRAPPERS,
    FoundCall,
    Tools,
    found_call,
)
from extproc.toolcalls.notations.values import parameter_schemas
from extproc.toolcalls.repairs import Repair
from extproc.toolcalls.table import Reader, Verdict, left_by

if TYPE_CHECKING:
    from extproc.toolcalls.notations.json_call import JsonCall

LONGEST = 16_384
"""Characters of an object that is kept."""
_MOST_BEHIND = 64
"""Characters behind an object with which an announcement may end: a fence, a stop."""

_DEEPEST = 64
_LONGEST_NAME = 512

_STRING = r'"(?:[^"\\\n]|\\.)*+"'
_head = re.compile(
    rf"\s*+\[?\s*+\{{\s*+(?:\}}|(?P<first>{_STRING})(?:\s*+:\s*+(?P<value>{_STRING})\s*+,\s*+(?P<second>{_STRING}))?+)"
).fullmatch
_plain = re.compile(r"[\s,:\d.+\-eEtrufalsn]*+").match
_in_string = re.compile(r'[^"\\\n]*+').match
_behind = re.compile(r"[\s.`*)\"'”]*+").match
_CLOSERS = {"{": "}", "[": "]"}


class _Phase(enum.Enum):
    USUAL = enum.auto()
    """It may be a call in the usual shape."""
    WRAPPER = enum.auto()
    """Behind a key that says that calls follow."""
    WRAPPED = enum.auto()
    VALUE = enum.auto()
    """Behind a key whose value shows whether the object may be a call."""
    OBJECT = enum.auto()
    """It may be one in another, and is kept."""
    BEHIND = enum.auto()
    """Behind an object that was announced: it is a call if nothing follows."""


class OtherCallReader:
    """One object; `said` is the text before it. See `table.Reader`."""

    __slots__ = (
        "_ahead",
        "_announced",
        "_closers",
        "_escaped",
        "_found",
        "_in_string",
        "_opener",
        "_phase",
        "_pieces",
        "_said",
        "_size",
        "_table",
        "_tools",
        "_value",
        "done",
        "left",
        "slip",
        "usual",
        "verdict",
        "whole",
    )

    def __init__(self, table: JsonCall, tools: Tools, said: str) -> None:
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self.left = ""
        self.slip: Repair | None = table.slip
        """See `table.repair_of`."""
        self.usual = JsonCallReader(table, tools)
        """That reader."""
        self.usual.slip = table.slip
        self._table = table
        self._tools = tools
        self._said = said
        self._announced: str | None = None
        self._phase = _Phase.USUAL
        self._pieces: list[str] = []
        self._size = 0
        self._ahead = ":"
        self._opener = ""
        self._value: str | None = None
        self._closers: list[str] = []
        self._in_string = self._escaped = False
        self._found: FoundCall | None = None

    @property
    def name(self) -> str | None:
        return self._found.name if self._found is not None else self.usual.name

    @property
    def repair(self) -> Repair | None:
        """See `table.repair_of`."""
        return self.usual.repair if self._found is None else None

    @property
    def settled(self) -> Reader:
        """What reads all further text of a call."""
        return self.usual if self._found is None else self

    @property
    def awaits_end(self) -> bool:
        """Only the output's own end makes a call of it."""
        return self._phase is _Phase.BEHIND

    def take(self) -> str:
        return self._found.arguments if self._found is not None else self.usual.take()

    def scan(self, text: str, position: int) -> int:
        while position < len(text) and not self.done:
            match self._phase:
                case _Phase.USUAL | _Phase.WRAPPED:
                    end = self.usual.scan(text, position)
                    if self.usual.verdict is Verdict.CALL:
                        self.verdict = Verdict.CALL
                        self._follow_usual()
                        return end
                    self._keep(text[position:end])
                    if not self.usual.done:
                        return end
                    position = end
                    self._judge_usual()
                case _Phase.WRAPPER:
                    position = self._scan_to_call(text, position)
                case _Phase.VALUE:
                    position = self._scan_value(text, position)
                case _Phase.OBJECT:
                    end = self._scan_object(text, position, self._stop(text, position))
                    self._keep(text[position:end])
                    position = end
                    if not self._closers and not self.done:
                        self._judge_object()
                case _Phase.BEHIND:
                    position = self._scan_behind(text, position)
        return position

    def end_of_input(self) -> None:
        """The output ends here."""
        if self._phase is _Phase.BEHIND:
            self.verdict, self.whole, self.left = Verdict.CALL, True, ""
        elif self._phase in (_Phase.USUAL, _Phase.WRAPPED):
            self.usual.end_of_input()
            self.verdict = self.usual.verdict
            self._follow_usual()
        else:
            self.verdict = Verdict.NOT_A_CALL
        self.done = True

    def _follow_usual(self) -> None:
        self.done, self.whole, self.left = self.usual.done, self.usual.whole, left_by(self.usual)

    def _keep(self, piece: str) -> None:
        self._size += len(piece)
        if self._size < LONGEST:
            self._pieces.append(piece)
        elif self._phase not in (_Phase.USUAL, _Phase.WRAPPED):
            self._reject()

    def _stop(self, text: str, position: int) -> int:
        """How far may be read, so that no more is kept than may be: the same in every cut."""
        return min(len(text), position + LONGEST - self._size)

    def _reject(self) -> None:
        self.verdict, self.done = Verdict.NOT_A_CALL, True

    # What the reader of the usual shape has to say

    def _judge_usual(self) -> None:
        """It has ended, and there is no call."""
        self.left = left_by(self.usual)
        if self.usual.verdict is Verdict.MARKUP:
            self.verdict, self.done = Verdict.MARKUP, True
            return
        text = "".join(self._pieces)
        if self._phase is _Phase.WRAPPED or self.left or self._size >= LONGEST:
            self._reject()
        elif not self._table.offered_only:
            self._begin_object(text)
            if self._closers:
                self._reject()
            elif not self.done:
                self._judge_object()
        elif (head := _head(text)) is None:
            self._reject()
        else:
            self._judge_head(text, head)

    def _judge_head(self, text: str, head: re.Match[str]) -> None:
        """Whether the first keys of an object are such as a call in another shape has."""
        self._announced = announced_tool(self._said, self._tools)
        first, second = (_text_of(head[group]) for group in ("first", "second"))
        if first in WRAPPERS and second is None and not is_example(self._said):
            self._phase = _Phase.WRAPPER
            return
        if self._may_be_announced(first) or (second is not None and self._may_go_on(_text_of(head["value"]), second)):
            self._begin_object(text)
        elif second is None and (first in NAME_KEYS or first in self._tools):
            self._phase, self._opener = _Phase.VALUE, '"' if first in NAME_KEYS else "{"
        else:
            self._reject()

    def _may_go_on(self, name: str | None, second: str) -> bool:
        """Whether such a key may follow the name."""
        if name is None or name not in self._tools:
            return False
        return second in ARGUMENTS_KEYS or second in parameter_schemas(self._tools[name])[1]

    def _may_be_announced(self, first: str | None) -> bool:
        return self._announced is not None and first in parameter_schemas(self._tools[self._announced])[1]

    # Calls within an object or a list

    def _scan_to_call(self, text: str, position: int) -> int:
        """From behind the wrapper's key to the bracket of the first call in it."""
        start, stop = position, self._stop(text, position)
        while position < stop:
            character = text[position]
            if character == "{" and self._ahead != ":":
                self._phase, self.usual = _Phase.WRAPPED, JsonCallReader(self._table, self._tools)
                self.slip = self.usual.slip = "keys"
                break
            if character in self._ahead:
                self._ahead = "[{" if character == ":" else "{"
            elif not character.isspace():
                self._reject()
                break
            position += 1
        self._keep(text[start:position])
        return position

    # The value of the first key

    def _scan_value(self, text: str, position: int) -> int:
        """From behind the key to where the value shows whether there may be a call: the name of a tool, or an object
        behind such a name."""
        start, stop = position, self._stop(text, position)
        shown = False
        while position < stop and not shown and not self.done:
            character = text[position]
            if self._value is not None:
                position, shown = self._scan_name(self._value, text, position, stop)
                continue
            if character == self._ahead == "{":
                shown = True
                break
            if character == self._ahead == '"':
                self._value = ""
            elif character == self._ahead:
                self._ahead = self._opener
            elif not character.isspace():
                self._reject()
                break
            position += 1
        self._keep(text[start:position])
        if shown and not self.done:
            self._begin_object("".join(self._pieces))
        return position

    def _scan_name(self, begun: str, text: str, position: int, stop: int) -> tuple[int, bool]:
        """More of a tool's name, of which `begun` is known; returns where it ends, and whether there is such a tool."""
        stop = min(stop, position + _LONGEST_NAME - len(begun))
        found = _in_string(text, position, stop)
        end = found.end() if found is not None else position
        self._value = begun + text[position:end]
        if end < stop and text[end] == '"' and self._value in self._tools:
            return end + 1, True
        if end < stop or len(self._value) == _LONGEST_NAME:
            self._reject()
        return end, False

    # Objects that are kept

    def _begin_object(self, text: str) -> None:
        """The keys that the other reader has read; where its text isn't even that, it stays text."""
        self._phase = _Phase.OBJECT
        start = text.find("{")
        self._closers.append("}")
        if self._scan_object(text, start + 1, len(text)) < len(text):
            self._reject()

    def _scan_object(self, text: str, position: int, stop: int) -> int:
        """Follow its brackets; returns its end, or `stop`, or the place at which it is no JSON."""
        while position < stop and self._closers:
            if self._escaped:
                self._escaped = False
                position += 1
                continue
            found = (_in_string if self._in_string else _plain)(text, position, stop)
            position = found.end() if found is not None else position
            if position == stop:
                break
            character = text[position]
            if self._in_string and character == "\\":
                self._escaped = True
            elif character == '"':
                self._in_string = not self._in_string
            elif not self._in_string and character in _CLOSERS and len(self._closers) < _DEEPEST:
                self._closers.append(_CLOSERS[character])
            elif not self._in_string and character == self._closers[-1]:
                self._closers.pop()
            else:
                self._reject()
                return position
            position += 1
        return position

    def _judge_object(self) -> None:
        text = "".join(self._pieces)
        found = found_call(text[text.find("{") :], self._tools, self._announced)
        if found is None or (found.slip != "prose" and self._table.offered_only and is_example(self._said)):
            self._reject()
            return
        self._found, self.slip = found, found.slip
        if found.slip == "prose":
            self._phase = _Phase.BEHIND
        else:
            self.verdict, self.done, self.whole = Verdict.CALL, True, True

    def _scan_behind(self, text: str, position: int) -> int:
        found = _behind(text, position, position + _MOST_BEHIND - len(self.left))
        end = found.end() if found is not None else position
        self.left += text[position:end]
        if end < len(text) or len(self.left) == _MOST_BEHIND:
            self._found = None
            self._reject()
        return end


def _text_of(literal: str | None) -> str | None:
    """What a JSON string says."""
    try:
        return None if literal is None else str(json.loads(literal))
    except ValueError:
        return None

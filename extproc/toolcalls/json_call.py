"""Reads a JSON object that holds a call, as it arrives.

The keys come in any order, and the arguments are handed on verbatim while they are being written. Until the
object has shown that it is a call nothing of it may leave, so the reader has two faces: `verdict` is UNDECIDED,
then CALL or NOT_A_CALL for good; `take()` returns what has become ready since the last time.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from extproc.toolcalls.json_scanner import JsonString, JsonValue
from extproc.toolcalls.table import Body, Reader, Verdict


@dataclass(frozen=True, slots=True)
class JsonCall(Body):
    """An object such as `{"name": "f", "arguments": {...}}`, keys in any order."""

    offered_only: bool = False
    """Without a marker that says "call", only an object with arguments that names an offered tool is one."""
    name_keys: frozenset[str] = frozenset({"name", "function"})
    arguments_keys: frozenset[str] = frozenset({"arguments", "parameters"})
    other_keys: frozenset[str] = frozenset({"id", "type"})
    """What else a call may hold. Any other key shows that an object without a marker is no call."""

    name_is_key: bool = False
    """The object is `{"NAME": {...}}`."""

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        return JsonCallReader(self, tools.keys())


class _Expect(enum.Enum):
    OBJECT = enum.auto()
    KEY = enum.auto()
    IN_KEY = enum.auto()
    COLON = enum.auto()
    VALUE = enum.auto()
    IN_NAME = enum.auto()
    IN_ARGUMENTS = enum.auto()
    IN_ENCODED_ARGUMENTS = enum.auto()
    IN_WORD_ARGUMENTS = enum.auto()
    IN_OTHER = enum.auto()


class JsonCallReader:
    """One object. `scan` consumes text; `done` tells that the object ended (or broke off) at the returned end."""

    __slots__ = (
        "_arguments",
        "_depth",
        "_expect",
        "_has_arguments",
        "_keeps_other",
        "_key",
        "_name",
        "_named_by_key",
        "_offered",
        "_other",
        "_pieces",
        "_scanner",
        "_string",
        "_table",
        "done",
        "verdict",
        "whole",
    )

    def __init__(self, table: JsonCall, offered: AbstractSet[str]) -> None:
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self._table = table
        self._offered = offered
        self._expect = _Expect.OBJECT
        self._key = ""
        self._name: str | None = None
        self._has_arguments = False
        self._pieces: list[str] = []  # of the key or name being read
        self._arguments: list[str] = []  # ready to be handed on
        self._other: list[str] = []  # an object under a key that means nothing
        self._keeps_other = False
        self._depth = 0  # of wrapping objects
        self._named_by_key = False
        self._scanner = JsonValue()
        self._string = JsonString()

    @property
    def name(self) -> str | None:
        """The tool's name, when it has been read. A key may be any other one until an object follows it."""
        undecided = self.verdict is Verdict.UNDECIDED
        tentative = undecided and self._named_by_key and not self._has_arguments and self._name not in self._offered
        return None if tentative else self._name

    def take(self) -> str:
        """The arguments that became ready since the last time."""
        taken = "".join(self._arguments)
        self._arguments.clear()
        return taken

    def scan(self, text: str, position: int) -> int:
        """Consume what belongs to the object from `position`; returns the end."""
        size = len(text)
        while position < size and not self.done:
            match self._expect:
                case _Expect.IN_ARGUMENTS:
                    position, piece = self._scanner.scan(text, position)
                    self._arguments.append(piece)
                    self._after_value(broken=position < size)
                case _Expect.IN_WORD_ARGUMENTS:
                    position, piece = self._scanner.scan(text, position)
                    self._pieces.append(piece)
                    self._after_value(broken=position < size)
                case _Expect.IN_ENCODED_ARGUMENTS:
                    position, piece = self._string.scan(text, position)
                    self._arguments.append(piece)
                    if self._string.done:
                        self._expect = _Expect.KEY
                case _Expect.IN_KEY | _Expect.IN_NAME:
                    position, piece = self._string.scan(text, position)
                    self._pieces.append(piece)
                    if self._string.done:
                        self._end_of_string("".join(self._pieces))
                case _Expect.IN_OTHER:
                    position, piece = self._scanner.scan(text, position)
                    if self._keeps_other:
                        self._other.append(piece)
                    self._after_value(broken=position < size)
                case _:
                    position = self._structure(text, position)
        return position

    def end_of_input(self) -> None:
        """The output ends here. A call whose arguments have begun stands, with what came of them."""
        if self.done:
            return
        self.done = True
        if self._expect is _Expect.IN_WORD_ARGUMENTS and not "null".startswith(word := "".join(self._pieces)):
            self._arguments.append(word)
        self.whole = self._has_arguments and self._expect is _Expect.KEY
        if self.verdict is Verdict.UNDECIDED:
            self._arguments += self._other

    def _structure(self, text: str, position: int) -> int:
        """One character outside of keys and values."""
        character = text[position]
        if character.isspace():
            return position + 1
        match self._expect, character:
            case _Expect.OBJECT, "{":
                self._expect = _Expect.KEY
            case _Expect.OBJECT, "[":
                pass
            case _Expect.KEY, '"':
                self._begin_string(_Expect.IN_KEY)
            case _Expect.KEY, ",":
                pass
            case _Expect.KEY, "}" if self._depth:
                self._depth -= 1
            case _Expect.KEY, "}":
                self.done = self.whole = True
                self._decide_at_end()
            case _Expect.COLON, ":":
                self._expect = _Expect.VALUE
            case _Expect.VALUE, _:
                return self._begin_value(character, position)
            case _:
                self._break_off(character)
                return position
        return position + 1

    def _after_value(self, *, broken: bool) -> None:
        if self._scanner.done:
            if self._expect is _Expect.IN_WORD_ARGUMENTS and (word := "".join(self._pieces)) != "null":
                self._arguments.append(word)
            self._expect = _Expect.KEY
        elif broken:
            self._break_off("<")

    def _begin_string(self, expect: _Expect) -> None:
        self._expect = expect
        self._string = JsonString()
        self._pieces.clear()

    def _end_of_string(self, string: str) -> None:
        if self._expect is _Expect.IN_KEY:
            self._expect = _Expect.COLON
            if self._table.name_is_key and self._name is None:
                self._name = string
                self._named_by_key = True
                self._key = next(iter(self._table.arguments_keys))
                return
            self._key = string
            if self._table.offered_only and self.verdict is Verdict.UNDECIDED and not self._is_known(string):
                self._reject()
        else:
            self._expect = _Expect.KEY
            self._name = string
            if self._table.offered_only and string not in self._offered:
                self._reject()
            elif self._has_arguments:
                self.verdict = Verdict.CALL

    def _is_known(self, key: str) -> bool:
        table = self._table
        return key in table.name_keys or key in table.arguments_keys or key in table.other_keys

    def _begin_value(self, character: str, position: int) -> int:
        """The value's first character; returns where the value's own scanner goes on."""
        if self._key == "function" and character == "{":
            self._expect = _Expect.KEY  # `{"type": "function", "function": {...}}`
            self._depth += 1
            return position + 1
        if self._named_by_key and character != "{":
            # Not `{"NAME": {...}}` after all.
            self._named_by_key = False
            self._key, self._name = self._name or "", None
        if self._key in self._table.name_keys and self._name is None:
            if character != '"':
                self._break_off(character)
                return position
            self._begin_string(_Expect.IN_NAME)
            return position + 1
        if self._key in self._table.arguments_keys and not self._has_arguments:
            # A list is no arguments either, but an offered tool's name and this key beside it are meant as a call. The
            # client tells the model what is wrong with it; of mere text an agent makes nothing, and asks for ever.
            begins = '{"n[' if self._key == "arguments" else '{"n'
            if self._table.offered_only and character not in begins:
                self._reject()
                return position
            self._has_arguments = True
            if self._name is not None:
                self.verdict = Verdict.CALL
            if character == '"':
                self._begin_string(_Expect.IN_ENCODED_ARGUMENTS)
                return position + 1
            self._expect = _Expect.IN_ARGUMENTS if character in "{[" else _Expect.IN_WORD_ARGUMENTS
            self._pieces.clear()
        else:
            self._expect = _Expect.IN_OTHER
            # Models misspell the key. Behind a marker an object under an unknown one is better than no arguments.
            known = self._is_known(self._key)
            self._keeps_other = not (known or self._table.offered_only or self._other) and character == "{"
        self._scanner = JsonValue()
        return position

    def _break_off(self, character: str) -> None:
        """`character` can't stand here. A call that has begun ends; a `<`, which opens a marker, ends one that
        has at least a name; anything else shows that this is no call."""
        self.done = True
        if self.verdict is Verdict.CALL:
            self.whole = self._expect is _Expect.KEY
            if self._expect is _Expect.IN_ARGUMENTS:
                self._arguments.append(self._scanner.closers())
        elif character == "<":
            self._decide_at_end()
        else:
            self._reject()

    def _decide_at_end(self) -> None:
        if self.verdict is not Verdict.UNDECIDED:
            return
        if self._name is None or (self._table.offered_only and not self._has_arguments):
            self._reject()
        else:
            self.verdict = Verdict.CALL
            if not self._has_arguments:
                self._arguments += self._other

    def _reject(self) -> None:
        self.verdict = Verdict.NOT_A_CALL
        self.done = True

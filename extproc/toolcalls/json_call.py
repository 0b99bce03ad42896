"""Reads a JSON object that holds a call, as it arrives.

The keys come in any order, and the arguments are handed on while they are being written. Until the object has shown
that it is a call nothing of it may leave, so the reader has two faces: `verdict` is UNDECIDED, then CALL or NOT_A_CALL
for good; `take()` returns what has become ready since the last time.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extproc.toolcalls.json_arguments import NO_ARGUMENTS
from extproc.toolcalls.json_encoded import DecodedString, QuotedArguments
from extproc.toolcalls.json_members import Member, arguments_of
from extproc.toolcalls.json_scanner import JsonValue
from extproc.toolcalls.table import Body, Reader, Verdict
from extproc.toolcalls.values import parameter_schemas


@dataclass(frozen=True, slots=True)
class JsonCall(Body):
    """An object such as `{"name": "f", "arguments": {...}}`, keys in any order."""

    offered_only: bool = False
    """Without a marker that says "call", only an object with arguments that names an offered tool is one."""
    name_keys: frozenset[str] = frozenset({"name", "function"})
    arguments_keys: frozenset[str] = frozenset({"arguments", "parameters"})
    other_keys: frozenset[str] = frozenset({"id", "type"})
    """What else a call may hold. Any other key shows that an object without a marker is no call. Behind a marker the
    others are the arguments, if no key of `arguments_keys` comes."""

    name_is_key: bool = False
    """The object is `{"NAME": {...}}`. Each further member is a call of its own, read from its key on."""

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        return JsonCallReader(self, tools)


class _Expect(enum.Enum):
    OBJECT = enum.auto()
    KEY = enum.auto()
    IN_KEY = enum.auto()
    COLON = enum.auto()
    VALUE = enum.auto()
    IN_NAME = enum.auto()
    IN_ARGUMENTS = enum.auto()
    IN_QUOTED_ARGUMENTS = enum.auto()
    IN_WORD_ARGUMENTS = enum.auto()
    IN_OTHER = enum.auto()
    COMMENT = enum.auto()
    """Behind its first slash."""
    IN_COMMENT = enum.auto()


_bare = re.compile(r"[\w$.\-]*+").match
_bare_begin = re.compile(r"[^\W\d]").match
_end_of_comment = re.compile(r"[\n<]").search
_LONGEST_STRING = 512  # no key and no name is longer


class JsonCallReader:
    """One object. `scan` consumes text; `done` tells that the object ended (or broke off) at the returned end."""

    __slots__ = (
        "_depth",
        "_expect",
        "_has_arguments",
        "_has_key",
        "_is_in_object",
        "_key",
        "_length",
        "_members",
        "_name",
        "_named_by_key",
        "_pieces",
        "_quoted",
        "_ready",
        "_sound",
        "_string",
        "_table",
        "_tools",
        "_value",
        "done",
        "verdict",
        "whole",
    )

    def __init__(self, table: JsonCall, tools: Mapping[str, Any]) -> None:
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self._table = table
        self._tools = tools
        self._expect = _Expect.OBJECT
        self._is_in_object = False  # behind another call of the same object: what is no call here is no text either
        self._has_key = False
        self._key = ""
        self._name: str | None = None
        self._has_arguments = False
        self._length = 0  # of the key or name being read
        self._sound = True  # what came of the arguments is JSON
        self._pieces: list[str] = []  # of the key, name or word being read
        self._ready: list[str] = []  # of the arguments, to be handed on
        self._members: list[Member] = []  # that may be the arguments, if none come
        self._depth = 0  # of wrapping objects
        self._named_by_key = False
        self._value = JsonValue()
        self._string: DecodedString | None = None  # None for a word without quotes
        self._quoted = QuotedArguments('"')

    @property
    def name(self) -> str | None:
        """The tool's name, when it has been read. A key may be any other one until an object follows it."""
        undecided = self.verdict is Verdict.UNDECIDED
        tentative = undecided and self._named_by_key and not self._has_arguments and self._name not in self._tools
        return None if tentative else self._name

    def take(self) -> str:
        """The arguments that became ready since the last time."""
        taken = "".join(self._ready)
        self._ready.clear()
        return taken

    def scan(self, text: str, position: int) -> int:
        """Consume what belongs to the object from `position`; returns the end."""
        size = len(text)
        while position < size and not self.done:
            match self._expect:
                case _Expect.IN_ARGUMENTS:
                    position, piece = self._value.scan(text, position)
                    self._ready.append(piece)
                    if position < size or self._value.done:
                        self._end_value(self._ready)
                case _Expect.IN_OTHER:
                    position, piece = self._value.scan(text, position)
                    pieces = self._members[-1].pieces
                    pieces.append(piece)
                    if position < size or self._value.done:
                        self._end_value(pieces)
                case _Expect.IN_WORD_ARGUMENTS:
                    position, piece = self._value.scan(text, position)
                    self._pieces.append(piece)
                    if position < size or self._value.done:
                        self._end_plain_arguments("".join(self._pieces))
                        self._end_value(self._ready)
                case _Expect.IN_QUOTED_ARGUMENTS:
                    position, piece = self._quoted.scan(text, position)
                    self._ready.append(piece)
                    if self._quoted.done:
                        self._end_plain_arguments(self._quoted.plain)
                        self._sound = self._quoted.sound
                        self._end_arguments()
                case _Expect.IN_KEY | _Expect.IN_NAME:
                    position = self._in_string(text, position)
                case _Expect.IN_COMMENT:
                    stop = _end_of_comment(text, position)
                    position = size if stop is None else stop.start()
                    self._expect = _Expect.IN_COMMENT if stop is None else _Expect.KEY
                case _:
                    position = self._structure(text, position)
        return position

    def end_of_input(self) -> None:
        """The output ends here. A call whose arguments have begun stands, with what came of them."""
        if self.done:
            return
        self.done = True
        match self._expect:
            case _Expect.IN_ARGUMENTS:
                self._ready.append(self._value.end_of_input())
                if self._value.done:
                    self._note_soundness()
                    self._expect = _Expect.KEY
            case _Expect.IN_QUOTED_ARGUMENTS:
                self._ready.append(self._quoted.end_of_input())
            case _Expect.IN_WORD_ARGUMENTS:
                self._pieces.append(self._value.end_of_input())
                if not "null".startswith(word := "".join(self._pieces)):
                    self._ready.append(word)
            case _Expect.IN_OTHER:
                self._members[-1].pieces.append(self._value.end_of_input())
        self.whole = self._has_arguments and self._sound and self._expect is _Expect.KEY
        if self.verdict is Verdict.UNDECIDED and not self._has_arguments:
            self._ready.append(self._arguments_of_members(closing=""))

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
            case _Expect.OBJECT, '"' | "'" if self._table.name_is_key:
                self._is_in_object = True
                self._begin_string(_Expect.IN_KEY, character)
            case _Expect.KEY, '"' | "'":
                self._begin_string(_Expect.IN_KEY, character)
            case _Expect.KEY, ",":
                pass
            case _Expect.KEY, "{" if not self._has_key:
                self._depth += 1  # who copies from a template may write `{{`
            case _Expect.KEY, "}" if self._depth:
                self._depth -= 1
            case _Expect.KEY, "}":
                self.done, self.whole = True, self._sound
                self._decide_at_end()
            case (_Expect.COMMENT, "/") | (_Expect.KEY, "#") if not self._table.offered_only:
                self._expect = _Expect.IN_COMMENT
            case _Expect.KEY, "/":
                self._expect = _Expect.COMMENT
            case _Expect.KEY, _ if _bare_begin(character):
                self._begin_string(_Expect.IN_KEY, None)
                return position
            case _Expect.COLON, ":":
                self._expect = _Expect.VALUE
            case _Expect.VALUE, _:
                return self._begin_value(character, position)
            case _:
                self._break_off(character)
                return position
        return position + 1

    # Keys and names

    def _begin_string(self, expect: _Expect, quote: str | None) -> None:
        self._expect = expect
        self._string = None if quote is None else DecodedString(quote)
        self._pieces.clear()
        self._length = 0

    def _in_string(self, text: str, position: int) -> int:
        limit = position + _LONGEST_STRING - self._length
        chunk = text[position:limit]
        string = self._string
        if string is None:
            found = _bare(chunk)
            end = 0 if found is None else found.end()
            piece, done = chunk[:end], end < len(chunk)
        else:
            end, piece = string.scan(chunk, 0)
            done = string.done
            # JSON's escapes are spelled out where text from outside is shown, Python's aren't.
            guarded = self._table.offered_only and self.verdict is Verdict.UNDECIDED
            escape = chunk.find("\\", 0, end) if string.is_python and guarded else -1
            if escape >= 0:
                self._reject()
                return position + escape
        self._pieces.append(piece)
        self._length += end
        if done:
            self._end_string("".join(self._pieces))
        elif self._length == _LONGEST_STRING:
            self._break_off("")
        return position + end

    def _end_string(self, string: str) -> None:
        if self._expect is _Expect.IN_KEY:
            self._expect = _Expect.COLON
            self._has_key = True
            if self._table.name_is_key and self._name is None and string:
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
            if not string or (self._table.offered_only and string not in self._tools):
                self._reject()
            elif self._has_arguments:
                self.verdict = Verdict.CALL

    def _is_known(self, key: str) -> bool:
        table = self._table
        return key in table.name_keys or key in table.arguments_keys or key in table.other_keys

    # Values

    def _begin_value(self, character: str, position: int) -> int:
        """The value's first character; returns where the value's own scanner goes on."""
        if self._key == "function" and character == "{":
            self._expect = _Expect.KEY  # `{"type": "function", "function": {...}}`
            self._depth += 1
            return position + 1
        if self._named_by_key and character != "{" and not (character in "\"'nN" and self._name in self._tools):
            # Not `{"NAME": {...}}` after all.
            self._named_by_key = False
            self._key, self._name = self._name or "", None
        if self._key in self._table.name_keys and self._name is None:
            if character in "\"'":
                self._begin_string(_Expect.IN_NAME, character)
                return position + 1
            if not _bare_begin(character):
                self._break_off(character)
                return position
            self._begin_string(_Expect.IN_NAME, None)
            return position
        self._value = JsonValue()
        if self._key in self._table.arguments_keys and not self._has_arguments:
            return self._begin_arguments(character, position)
        self._expect = _Expect.IN_OTHER
        self._members.append(Member(self._key, is_object=character == "{"))
        return position

    def _begin_arguments(self, character: str, position: int) -> int:
        # A list is no arguments either, but an offered tool's name and this key beside it are meant as a call. The
        # client tells the model what is wrong with it; of mere text an agent makes nothing, and asks for ever.
        begins = "{\"'nN[" if self._key == "arguments" else "{\"'nN"
        if self._table.offered_only and character not in begins:
            self._reject()
            return position
        self._has_arguments = True
        if self._name is not None:
            self.verdict = Verdict.CALL
        if character in "\"'":
            self._expect = _Expect.IN_QUOTED_ARGUMENTS
            self._quoted = QuotedArguments(character)
            return position + 1
        self._expect = _Expect.IN_ARGUMENTS if character in "{[" else _Expect.IN_WORD_ARGUMENTS
        self._pieces.clear()
        return position

    def _end_value(self, pieces: list[str]) -> None:
        """The value is complete, or broken off."""
        value = self._value
        if not value.done:
            pieces.append(value.break_off())
            self._note_soundness()
            self._break_off("<")
            return
        self._note_soundness()
        if self._expect is _Expect.IN_OTHER:
            self._expect = _Expect.KEY
        else:
            self._end_arguments()
        self.scan(value.rest, 0)

    def _note_soundness(self) -> None:
        """Where there are arguments, what else there is doesn't count."""
        if self._expect is not _Expect.IN_OTHER:
            self._sound = self._value.sound
        elif not self._has_arguments:
            self._sound = self._sound and self._value.sound and any(self._members[-1].pieces)

    def _end_plain_arguments(self, json: str) -> None:
        if json and json not in NO_ARGUMENTS:
            self._ready.append(json)

    def _end_arguments(self) -> None:
        self._expect = _Expect.KEY
        if self._named_by_key:
            self.done, self.whole = True, self._sound

    # What it is

    def _arguments_of_members(self, closing: str = "}") -> str:
        """The arguments, where no key says that they are."""
        members = [member for member in self._members if not self._is_known(member.key)]
        _, properties = parameter_schemas(self._tools.get(self._name or "", {}))
        return arguments_of(members, properties, closing=closing)

    def _break_off(self, character: str) -> None:
        """`character` can't stand here. A call that has begun ends; what opens a marker or closes the list around it
        ends one that has at least a name; anything else shows that this is no call."""
        self.done = True
        if self.verdict is Verdict.CALL:
            self.whole = self._sound and self._expect is _Expect.KEY
        elif character in "<`]":
            self._decide_at_end()
        else:
            self._reject()

    def _decide_at_end(self) -> None:
        if self.verdict is not Verdict.UNDECIDED:
            return
        if self._name is None and self._is_in_object:
            self.verdict = Verdict.MARKUP
        elif self._name is None or (self._table.offered_only and not self._has_arguments):
            self._reject()
        else:
            self.verdict = Verdict.CALL
            if not self._has_arguments:
                self._ready.append(self._arguments_of_members())

    def _reject(self) -> None:
        self.verdict = Verdict.NOT_A_CALL
        self.done = True

"""Reads a JSON object that holds a call, as it arrives.

The keys come in any order, and the arguments are handed on while they are being written. Until the object has shown
that it is a call nothing of it may leave, so the reader has two faces: `verdict` is UNDECIDED, then CALL or NOT_A_CALL
for good; `take()` returns what has become ready since the last time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from extproc.toolcalls.notations.json_arguments import NO_ARGUMENTS
from extproc.toolcalls.notations.json_encoded import QuotedArguments
from extproc.toolcalls.notations.json_head import HeadString
from extproc.toolcalls.notations.json_members import Member, arguments_of
from extproc.toolcalls.notations.json_scanner import JsonValue
from extproc.toolcalls.notations.json_stage import Stage
from extproc.toolcalls.notations.other_shapes import other_call
from extproc.toolcalls.notations.values import parameter_schemas
from extproc.toolcalls.repairs import Repair
from extproc.toolcalls.table import Verdict

if TYPE_CHECKING:
    from extproc.toolcalls.notations.json_call import JsonCall

_bare_begin = re.compile(r"[^\W\d]").match
_end_of_stray = re.compile(r"[\n<`,;}\]]").search
_end_of_comment = re.compile(r"[\n<]").search


class JsonCallReader:
    """One object. `scan` consumes text; `done` tells that the object ended (or broke off) at the returned end."""

    __slots__ = (
        "_depth",
        "_has_arguments",
        "_has_key",
        "_is_in_object",
        "_key",
        "_members",
        "_name",
        "_named_by_key",
        "_pieces",
        "_plain",
        "_quoted",
        "_ready",
        "_sound",
        "_stage",
        "_string",
        "_table",
        "_tools",
        "_value",
        "done",
        "left",
        "repair",
        "slip",
        "verdict",
        "whole",
    )

    def __init__(self, table: JsonCall, tools: Mapping[str, Any]) -> None:
        self.verdict = Verdict.UNDECIDED
        self.done = False
        self.whole = False
        self.left = ""
        self.repair: Repair | None = None
        """See `table.repair_of`."""
        self.slip = table.slip
        self._table = table
        self._tools = tools
        self._stage = Stage.OBJECT
        self._is_in_object = False  # behind another call of the same object: what is no call here is no text either
        self._has_key = False
        self._key = ""
        self._name: str | None = None
        self._has_arguments = False
        self._sound = True  # what came of the arguments is JSON
        self._pieces: list[str] = []  # of the word being read
        self._plain = ""  # a word or a string in the arguments' place, as JSON
        self._ready: list[str] = []  # of the arguments, to be handed on
        self._members: list[Member] = []  # that may be the arguments, if none come
        self._depth = 0  # of wrapping objects
        self._named_by_key = False
        self._value = JsonValue()
        self._string = HeadString(None)
        self._quoted = QuotedArguments('"')

    @property
    def name(self) -> str | None:
        """The tool's name, when it has been read. A key may be any other one until an object follows it."""
        undecided = self.verdict is Verdict.UNDECIDED
        tentative = undecided and self._named_by_key and not self._has_arguments and self._name not in self._tools
        return None if tentative else self._name

    def take(self) -> str:
        """The arguments that became ready since the last time."""
        ready = self._ready
        if len(ready) == 1:
            return ready.pop()
        taken = "".join(ready)
        ready.clear()
        return taken

    def scan(self, text: str, position: int) -> int:
        """Consume what belongs to the object from `position`; returns the end."""
        size = len(text)
        while position < size and not self.done:
            if self._stage is Stage.IN_ARGUMENTS:  # which is where most of a call's text is
                value = self._value
                position, piece = value.scan(text, position)
                self._ready.append(piece)
                if position < size or value.done:
                    self._end_value(self._ready)
                continue
            match self._stage:
                case Stage.IN_OTHER:
                    position, piece = self._value.scan(text, position)
                    pieces = self._members[-1].pieces
                    pieces.append(piece)
                    if position < size or self._value.done:
                        self._end_value(pieces)
                case Stage.IN_WORD_ARGUMENTS:
                    position, piece = self._value.scan(text, position)
                    self._pieces.append(piece)
                    if position < size or self._value.done:
                        self._plain = "".join(self._pieces)
                        self._value.sound = self._value.sound and self._plain != ""
                        self._end_value(self._ready)
                case Stage.IN_QUOTED_ARGUMENTS:
                    position, piece = self._quoted.scan(text, position)
                    self._ready.append(piece)
                    if self._quoted.done:
                        self._plain = self._quoted.plain
                        self._sound = self._quoted.sound
                        self.repair = self.repair or self._quoted.repair
                        self._end_arguments()
                        self.left = self._quoted.rest[self.scan(self._quoted.rest, 0) :]
                case Stage.IN_KEY | Stage.IN_NAME:
                    position = self._in_string(text, position)
                case Stage.IN_COMMENT | Stage.IN_STRAY:
                    position = self._skip(text, position)
                case Stage.BEHIND_PLAIN:
                    if text[position].isspace():
                        position += 1
                    else:
                        self._behind_plain(text[position])
                case _:
                    position = self._structure(text, position)
        return position

    def end_of_input(self) -> None:
        """The output ends here. A call whose arguments have begun stands, with what came of them."""
        if self.done:
            return
        match self._stage:
            case Stage.IN_ARGUMENTS:
                self._ready.append(self._value.end_of_input())
                if self._value.done:
                    self._end_value(self._ready)
            case Stage.IN_QUOTED_ARGUMENTS:
                self._ready.append(self._quoted.end_of_input())
            case Stage.IN_WORD_ARGUMENTS:
                self._pieces.append(self._value.end_of_input())
                if not "null".startswith(word := "".join(self._pieces)):
                    self._ready.append(word)
            case Stage.IN_OTHER:
                self._members[-1].pieces.append(self._value.end_of_input())
        self.done = True
        if self._stage is Stage.BEHIND_PLAIN and self._plain in NO_ARGUMENTS:
            self._stage = Stage.KEY
        self._end_plain_arguments()
        self.whole = self._has_arguments and self._sound and self._stage is Stage.KEY
        if self.verdict is Verdict.UNDECIDED and not self._has_arguments:
            self._ready.append(self._arguments_of_members(closing=""))

    def _structure(self, text: str, position: int) -> int:
        """One character outside of keys and values."""
        character = text[position]
        if character.isspace():
            return position + 1
        match self._stage, character:
            case Stage.OBJECT, "{":
                self._stage = Stage.KEY
            case Stage.OBJECT, '"' | "'" if self._table.name_is_key:
                self._is_in_object = True
                self._begin_string(Stage.IN_KEY, character)
            case Stage.KEY, '"' | "'":
                self._begin_string(Stage.IN_KEY, character)
            case (Stage.OBJECT, "[") | (Stage.KEY, "," | ";"):
                pass
            case Stage.KEY, "{" if not self._has_key:
                self._depth += 1  # who copies from a template may write `{{`
                self.repair = self.repair or "brackets"
            case Stage.KEY, "}" if self._depth:
                self._depth -= 1
            case Stage.KEY, "}":
                self._end_object()
            case (Stage.COMMENT, "/") | (Stage.KEY, "#") if not self._table.offered_only:
                self._stage = Stage.IN_COMMENT
                self.repair = self.repair or "comments"
            case Stage.KEY, "/":
                self._stage = Stage.COMMENT
            case Stage.KEY, _ if _bare_begin(character):
                self._begin_string(Stage.IN_KEY, None)
                return position
            case Stage.COLON, ":":
                self._stage = Stage.VALUE
            case Stage.VALUE, _:
                return self._begin_value(character, position)
            case _:
                self._break_off(character)
                return position
        return position + 1

    def _skip(self, text: str, position: int) -> int:
        """A comment, or what makes no sense and stays."""
        is_stray = self._stage is Stage.IN_STRAY
        stop = (_end_of_stray if is_stray else _end_of_comment)(text, position)
        end = len(text) if stop is None else stop.start()
        if is_stray:
            self._ready.append(text[position:end])
        if stop is not None:
            self._stage = Stage.KEY
        return end

    # Keys and names

    def _begin_string(self, stage: Stage, quote: str | None) -> None:
        self._stage = stage
        self._string = HeadString(quote)
        if quote != '"':
            self.repair = self.repair or ("quotes" if quote else "words")

    def _in_string(self, text: str, position: int) -> int:
        string = self._string
        end = string.scan(text, position)
        # JSON's escapes are spelled out where text from outside is shown, Python's aren't.
        guarded = self._table.offered_only and self.verdict is Verdict.UNDECIDED
        escape = text.find("\\", position, end) if string.is_python and guarded else -1
        if escape >= 0:
            self._reject()
            return escape
        if string.done:
            self._end_string(string.text)
        elif string.is_too_long:
            self._break_off("")
        return end

    def _end_string(self, string: str) -> None:
        if self._stage is Stage.IN_KEY:
            self._stage = Stage.COLON
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
            self._stage = Stage.KEY
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
            self._stage = Stage.KEY  # `{"type": "function", "function": {...}}`
            self._depth += 1
            return position + 1
        if self._named_by_key and character != "{" and not (character in "\"'nN" and self._name in self._tools):
            # Not `{"NAME": {...}}` after all.
            self._named_by_key = False
            self._key, self._name = self._name or "", None
        if self._key in self._table.name_keys and self._name is None:
            if character in "\"'":
                self._begin_string(Stage.IN_NAME, character)
                return position + 1
            if not _bare_begin(character):
                self._break_off(character)
                return position
            self._begin_string(Stage.IN_NAME, None)
            return position
        self._value = JsonValue()
        if self._key in self._table.arguments_keys and not self._has_arguments:
            return self._begin_arguments(character, position)
        self._stage = Stage.IN_OTHER
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
            self._stage = Stage.IN_QUOTED_ARGUMENTS
            self._quoted = QuotedArguments(character)
            return position + 1
        self._stage = Stage.IN_ARGUMENTS if character in "{[" else Stage.IN_WORD_ARGUMENTS
        self._pieces.clear()
        return position

    def _end_value(self, pieces: list[str]) -> None:
        """The value is complete, or broken off."""
        value = self._value
        if not value.done:
            pieces.append(value.break_off())
        self._note_soundness()
        if not value.done:
            self._end_plain_arguments()
            self._break_off("<")
        elif self._stage is Stage.IN_OTHER:
            self._stage = Stage.KEY
        else:
            self._end_arguments()
        self.left = value.rest[self.scan(value.rest, 0) :]

    def _note_soundness(self) -> None:
        """Where there are arguments, what else there is doesn't count."""
        if self._stage is not Stage.IN_OTHER:
            self._sound = self._value.sound
            self.repair = self.repair or self._value.repair
        elif not self._has_arguments:
            self._sound = self._sound and self._value.sound and any(self._members[-1].pieces)

    def _end_plain_arguments(self) -> None:
        plain, self._plain = self._plain, ""
        if plain and plain not in NO_ARGUMENTS:
            self._ready.append(plain)

    def _behind_plain(self, character: str) -> None:
        """What follows tells whether it was all."""
        self._value = JsonValue()
        self._stage = Stage.IN_ARGUMENTS
        if character == ":":  # it is the first key, and the brace before it is missing
            plain, self._plain = self._plain, ""
            self.repair = self.repair or "brackets"
            self._ready.append(self._value.scan("{" + plain, 0)[1])
            return
        self._end_plain_arguments()
        if character == "{":
            self._value.sound = False
        elif character in "\n<`,;}]":
            self._stage = Stage.KEY
        else:
            self._stage = Stage.IN_STRAY
            self._sound = False

    def _end_arguments(self) -> None:
        self._stage = Stage.BEHIND_PLAIN if self._plain else Stage.KEY
        if self._named_by_key:
            self._end_plain_arguments()
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
        self.repair = self.repair or "brackets"
        if self.verdict is Verdict.CALL:
            self.whole = self._sound and self._stage is Stage.KEY and character in "<`]"
        elif character in "<`]":
            self._decide_at_end()
        else:
            self._reject()

    def _end_object(self) -> None:
        self.done, self.whole = True, self._sound
        if not self._is_in_another_shape():
            self._decide_at_end()

    def _is_in_another_shape(self) -> bool:
        """Whether the object, which is complete and has no name, is a call all the same."""
        if not self._table.slips or self._name is not None or not self._sound:
            return False
        arguments = "".join(self._ready) if self._has_arguments else None
        found = other_call(self._members, arguments, self._tools)
        if found is None:
            return False
        self.verdict, self._name, self.slip = Verdict.CALL, found.name, found.slip
        self._ready = [found.arguments]
        return True

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

"""The call that is being read: what is known of it, and what of it has left.

It is a candidate until it has shown what it is. From then on its arguments leave as they become ready.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from extproc.toolcalls.candidate import Candidate
from extproc.toolcalls.headers import route
from extproc.toolcalls.names import decoded, offered_name
from extproc.toolcalls.notations.repeated_call import RepeatedCall
from extproc.toolcalls.notations.tagged import ArgumentsWriter
from extproc.toolcalls.output import Output
from extproc.toolcalls.table import (
    Behind,
    Body,
    Gap,
    Header,
    Key,
    Marker,
    Name,
    Reader,
    Rules,
    Transition,
    Value,
    repair_of,
)

LONGEST_WORD = 512
"""No tool and no argument has a longer name; what is longer is text."""


class PendingCall:
    """One after the other, the calls of an output."""

    __slots__ = (
        "_awaits_value",
        "_key",
        "_key_types",
        "_output",
        "_parts",
        "_tools",
        "candidate",
        "name",
        "reader",
        "skipped",
        "writer",
    )

    def __init__(self, tools: Mapping[str, Mapping[str, Any]], output: Output) -> None:
        self.candidate = Candidate()
        self.name: str | None = None
        """The tool's, as soon as it is known."""
        self.writer: ArgumentsWriter | None = None
        """Of a call whose arguments stand between tags; made with the name."""
        self.reader: Reader | None = None
        """Of a call in a notation of its own; made on entering its state."""
        self.skipped: list[str] = []
        """What lies behind a value, and may turn out to belong to it."""
        self._tools = tools
        self._output = output
        self._parts: list[str] = []  # of the name, header or key being read
        self._key = ""
        self._key_types: frozenset[str] | None = None
        self._awaits_value = False  # a key has begun, but not its value

    # Words

    @property
    def word(self) -> str:
        """The name, header or key that is being read, as far as it came."""
        return "".join(self._parts)

    def begin_word(self, state: Name | Header | Key) -> None:
        self._parts.clear()
        self._awaits_value = isinstance(state, Key)

    def add_to_word(self, piece: str) -> None:
        self._parts.append(piece)
        if not self._output.in_call and piece:
            self.candidate.add(piece)

    def add_to_header(self, piece: str) -> None:
        """The same; how much of it is markup is known at its end."""
        self._parts.append(piece)

    def take_header(self, name: str | None, *, hidden: bool) -> None:
        """What was read is a header. One that is hidden ends the text before it; without a tool's name it is markup."""
        if name is not None:
            self.set_name(name)
        elif hidden:
            self.candidate.clear()
        if hidden:
            self.candidate.origin = None

    def length_of_word(self, state: Name | Key, piece: str) -> int:
        """How much of `piece`, behind what came of the word, may be part of it."""
        before = self.word
        length = LONGEST_WORD
        if isinstance(state, Name):
            possible = state.possible.match(before + piece)
            length = min(possible.end() if possible else 0, length)
        return min(max(length - len(before), 0), len(piece))

    def read_word(self, state: Name | Key) -> bool:
        """The word is complete; returns whether it is what it should be."""
        if isinstance(state, Key):
            self._read_key(state)
            return True
        named = state.pattern.fullmatch(self.word)
        if named is None:
            return False
        name = decoded(named["name"]) if state.entities else named["name"]
        if state.offered_only and self._tools and offered_name(name, self._tools) not in self._tools:
            return False
        self.set_name(name)
        return True

    def set_name(self, name: str) -> None:
        self.name = offered_name(name, self._tools)
        self.writer = ArgumentsWriter(self._tools.get(self.name))

    def _read_key(self, state: Key) -> None:
        word = self.word
        keyed = state.pattern.fullmatch(word)
        if keyed is None or "key" in state.pattern.groupindex:
            key = keyed["key"] if keyed else word
            self._key = decoded(key) if state.entities else key
            self._key_types = None
        if keyed is not None and "type" in state.pattern.groupindex:
            self._key_types = state.types.get(keyed["type"] or "")

    # Arguments

    def begin_value(self, state: Value) -> None:
        self._awaits_value = False
        if self.name is not None and self.writer is not None:
            self.begin(self.name)
            packed = self._key in state.packed_keys
            self.writer.begin_value(self._key, state.trim, self._key_types, packed=packed)

    def give_to_value(self) -> None:
        """What was skipped is part of the value."""
        if self.writer is not None:
            self.writer.write("".join(self.skipped))
        self.skipped.clear()

    def end_value(self, next_key: re.Pattern[str] | None = None) -> None:
        """The value ended before what was skipped, in which the next argument's name may stand."""
        if next_key is not None and (keyed := next_key.search("".join(self.skipped))):
            self._key, self._key_types, self._awaits_value = keyed["key"], None, True
        self.skipped.clear()
        if self.writer is not None:
            self.writer.end_value()
            self._output.arguments(self.writer.take())

    def read_again(self, state: Gap) -> Transition | None:
        """What reads the next call, which began in what was skipped behind a value, where the output ends."""
        begun = state.skipped is not None and state.skipped.search("".join(self.skipped)) and self._output.in_call
        return next((to for to in state.transitions.values() if to.marker is Marker.AGAIN), None) if begun else None

    def begin_body(self, state: Body) -> None:
        self.reader = state.reader(self._tools, self.name)
        if state.may_repeat:
            self.candidate.marked = False
            self.reader = RepeatedCall(self.reader, self._output.made, self._tools)

    # The whole

    def begin(self, name: str) -> None:
        """It is a call of this tool."""
        self._output.begin_call(name)
        self.candidate.clear()

    def finish(self) -> None:
        """A marker shows that a call between tags is complete."""
        if self.name is None or self.writer is None:
            return
        self.begin(self.name)
        self.writer.end()
        self._output.arguments(self.writer.take())
        self.end(whole=True)

    def take_back(self, *, markers: bool) -> str:
        """Its text: it is no call. One that has begun is broken off, and its last word is text."""
        if self._output.in_call:
            text = self.word
            self._output.break_off_call()
            self.candidate.origin = None
        else:
            text = self.candidate.text(markers=markers)
            self.candidate.clear()
        self.forget()
        return text

    def end(self, *, whole: bool) -> None:
        self._output.end_call(whole=whole, repair=repair_of(self.reader))
        self.forget()
        self.candidate.origin = None

    def forget(self) -> None:
        self.name = self.writer = self.reader = None

    def end_with_output(self, state: Rules, held: str, *, cut_off: bool) -> None:
        """The output ends between the markers of a call that has begun: it stands. Unless one more argument has begun,
        or the output is `cut_off`, its end is the call's."""
        writer = self.writer
        if writer is None:
            self._output.break_off_call()
            return
        quotes = isinstance(state, Gap) and state.behind is Behind.QUOTE
        if self.skipped and not quotes:
            writer.end_value()
        elif writer.in_value:
            writer.write("".join([*self.skipped, held]))
            writer.cut_off()
        next_key = isinstance(state, Gap) and state.key is not None
        whole = not (writer.in_value or self._awaits_value or next_key or cut_off)
        if whole:
            writer.end()
        self._output.arguments(writer.take())
        self.end_as_it_is(whole=whole)

    def end_as_it_is(self, *, whole: bool) -> None:
        if whole:
            self.end(whole=True)
        else:
            self._output.break_off_call()

    def may_be_name(self, state: Rules) -> bool:
        """Whether what came of a name at the output's end can be that. Behind a tag that is no token, a blank or a stop
        and one word may well be prose, if no offered tool begins so."""
        begins = self.candidate.text(markers=False)[:1]
        if not isinstance(state, Name) or not self._tools or begins.isalnum() or self.candidate.has_token:
            return True
        name = self.word.strip().strip("\"'")
        return any(tool.startswith(name) for tool in self._tools)

    def name_at_end(self, state: Rules, held: str) -> str | None:
        """The name of the tool whose call is cut off here, if it is whole."""
        word = self.word
        match state:
            case Name():
                found = state.pattern.fullmatch(word)
                name, end = (found["name"], found.end("name")) if found else (None, 0)
            case Header():
                leads = route(state.routes, word, self._tools)
                name, end = (leads.name, leads.name_end) if leads else (None, 0)
            case Gap() | Key():
                return self.name
            case _:
                return None
        # No marker has ended it yet: it is whole if something else has, and if there is such a tool.
        if name is None or (end == len(word) and not held):
            return None
        name = offered_name(name, self._tools)
        return name if name in self._tools else None

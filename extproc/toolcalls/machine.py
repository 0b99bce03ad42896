"""The machine that runs a format's table over a model's output, piece by piece.

It knows no format, nothing of SSE and nothing of OpenAI. Text goes in as it arrives and events come out as soon
as they are certain. Three promises hold for every format:

- however the text is cut, the joined events are the same;
- the work per character is constant: nothing that was seen is scanned again;
- every character ends up in content, in reasoning, in a call, or belongs to the markup around calls. Where the output
  ends behind a marker that announces a call, what may still have become the call's head is markup as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from extproc.toolcalls.events import Event, Parsed, collect
from extproc.toolcalls.formats import get_format
from extproc.toolcalls.hiding import hiding
from extproc.toolcalls.names import decoded, offered_name
from extproc.toolcalls.output import Output, at_line_start
from extproc.toolcalls.states import StateName
from extproc.toolcalls.table import (
    Behind,
    Body,
    Format,
    Gap,
    Header,
    Key,
    Marker,
    Name,
    Prose,
    Reader,
    Rules,
    Sink,
    Transition,
    Transitions,
    Value,
    Verdict,
)
from extproc.toolcalls.tagged import ArgumentsWriter

_LONGEST_HEAD, _MOST_WORDS = 200, 4
"""Of a call that is cut off before its first argument, without its markers: a name, a key, and what pads them."""

_LONGEST_NAME = 512  # no tool has a longer name; what is longer is text
_NAME_WINDOW = 2 * _LONGEST_NAME
# The beginning of a marker that nobody writes for another reason: `<|t`, `<tool_`; but not `<`, `<tool` or `fun`.
_UNMISTAKABLE = re.compile(r"[^\w\s]{2,}\w|[^\w\s][^\W_]+[^\sa-zA-Z0-9]")


class Parser:
    """Takes one model output apart: `feed` its text in pieces of any size, then `close`.

    `format` is how the model writes calls, or its name (UnknownFormatError lists near names); `tools` are the request's
    OpenAI tool definitions; `reasoning="open"` says that the output begins inside thinking, None lets the
    format's own thinking tags decide; `hidden` are tokens that are no text wherever they stand in it.
    """

    __slots__ = (
        "_candidate",
        "_format",
        "_held",
        "_key",
        "_key_types",
        "_marked",
        "_name",
        "_origin",
        "_output",
        "_parts",
        "_reader",
        "_skipped",
        "_state",
        "_tools",
        "_writer",
    )

    def __init__(
        self,
        *,
        format: Format | str,  # noqa: A002 - the public name; nothing here formats a string
        tools: Sequence[Mapping[str, Any]] | None = None,
        reasoning: Literal["open"] | None = None,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        table = get_format(format) if isinstance(format, str) else format
        self._format: Format = hiding(table, hidden) if hidden else table
        self._tools: dict[str, Mapping[str, Any]] = {tool["function"]["name"]: tool for tool in tools or ()}
        self._output = Output()
        self._held = ""  # the beginning of what may become a marker
        # The call being read. Its text so far, as (text, whether it is a marker), until it has begun:
        self._candidate: list[tuple[str, bool]] = []
        self._origin: Prose | None = None  # the text that it stands in
        self._marked = False  # a marker since then announces it
        self._parts: list[str] = []  # of the name, header or key being read
        self._name: str | None = None
        self._key = ""
        self._key_types: frozenset[str] | None = None
        self._writer: ArgumentsWriter | None = None
        self._reader: Reader | None = None
        self._skipped: list[str] = []  # in a gap that may turn out to belong to a value
        thinking = self._format.thinking if reasoning == "open" else None
        self._state: Rules = self._format.states[thinking or self._format.start]

    def feed(self, text: str) -> list[Event]:
        """The next piece of the output; returns what it made certain."""
        if self._held:
            text = self._held + text
            self._held = ""
        position, size = 0, len(text)
        while position < size:
            match self._state:
                case Prose() as state:
                    position = self._prose(state, text, position)
                case Body() as state:
                    position = self._body(state, text, position)
                case Value() as state:
                    position = self._value(state, text, position)
                case Gap() as state:
                    position = self._gap(state, text, position)
                case Name() | Header() | Key() as state:
                    position = self._word(state, text, position)
        return self._output.take()

    def close(self, *, cut_off: bool = False) -> list[Event]:
        """The output has ended; returns what was still held.

        `cut_off`: it is known that the model would have gone on. Else the output's end may be that of a call.
        """
        held, self._held = self._held, ""
        match self._state:
            case Prose() as state:
                if not self._is_markup(held, state.transitions):
                    self._output.text(state.sink, held)
            case Body():
                self._close_body()
            case Name(ends_with_output=True) if (
                not cut_off and "".join(self._parts).strip() in self._tools and not held
            ):
                self._set_name("".join(self._parts).strip())
                self._finish_call()
            case Gap(ends_with_output=True) if not cut_off and self._name is not None and not held:
                self._finish_call()
            case _ if self._output.in_call:
                self._close_call(held)
            case _:
                self._close_candidate(held)
        self._output.end()
        return self._output.take()

    # Prose

    def _is_markup(self, held: str, transitions: Transitions) -> bool:
        """Whether `held`, with which the output ends, is a marker that was to be a longer one, or surely the beginning
        of one that announces a call."""
        unmistakable = _UNMISTAKABLE.match(held) is not None
        for marker, transition in transitions.items():
            target = self._format.states[transition.to]
            if isinstance(target, Prose):
                if held.startswith(marker) and transition.marker is not Marker.SHOWN:
                    return True
            elif unmistakable and marker.startswith(held) and _announces(transition, target):
                return True
        return False

    def _prose(self, state: Prose, text: str, position: int) -> int:
        start = looked = position
        line_start = self._output.line_start
        while True:
            found = state.lexer.find(text, position)
            if found is None:
                self._output.text(state.sink, text[start:])
                return len(text)
            at, marker = found
            if marker is None:
                self._output.text(state.sink, text[start:at])
                self._held = text[at:]
                return len(text)
            transition = state.transitions[marker]
            if transition.line_start:
                line_start = at_line_start(text[looked:at], line_start)
                looked = at
                if not line_start:
                    position = at + len(marker)
                    continue
            self._output.text(state.sink, text[start:at])
            return self._follow(transition, marker, at)

    def _follow(self, transition: Transition, marker: str, at: int) -> int:
        """Go where a marker leads; returns where the next state reads on."""
        if transition.ends_call:
            self._finish_call()
        target = self._format.states[transition.to]
        if isinstance(target, Prose):
            given_back = bool(self._candidate)
            if given_back:
                self._give_back(transition.to)
            self._state = target
            self._output.line_start = True  # a marker that is not shown stands for a break
            if (transition.marker is Marker.SHOWN or given_back) and transition.marker is not Marker.KEPT:
                self._output.text(target.sink, marker)
        else:
            if isinstance(self._state, Prose):
                self._origin = self._state
                self._marked = False
                self._name = None  # there may be one that was only repeated, and led to no call
            trailing = isinstance(target, Gap) and target.behind is Behind.CALL
            if transition.marker is not Marker.KEPT and not self._output.in_call and not trailing:
                self._candidate.append((marker, True))
                self._marked = self._marked or _announces(transition, self._state, target)
            self._enter(target)
        return at if transition.marker is Marker.KEPT else at + len(marker)

    def _enter(self, state: Rules) -> None:
        self._state = state
        match state:
            case Body():
                self._reader = state.reader(self._tools, self._name)
            case Value():
                self._begin_call(self._name)
                assert self._writer is not None  # made with the name
                packed = self._key in state.packed_keys
                self._writer.begin_value(self._key, state.trim, self._key_types, packed=packed)
            case Name() | Header() | Key():
                self._parts.clear()

    # Names, headers and keys: words up to a marker

    def _word(self, state: Name | Header | Key, text: str, position: int) -> int:
        # No name is longer than the limit, so nothing behind it needs to be looked at now.
        end = min(len(text), position + _NAME_WINDOW) if isinstance(state, Name) else len(text)
        found = state.lexer.find(text, position, end)
        at, marker = (end, None) if found is None else found
        stop = self._end_of_name(state, text, position, at) if isinstance(state, Name) else at
        piece = text[position:stop]
        self._parts.append(piece)
        if not self._output.in_call and piece:
            self._candidate.append((piece, isinstance(state, Header)))
        if stop < at:
            assert isinstance(state, Name)  # nothing else stops early
            self._give_back(state.otherwise, markers=not state.hides_markers)
            return stop
        if marker is None:
            self._held = text[at:]
            return len(text)
        word = "".join(self._parts)
        transition = state.transitions[marker]
        match state:
            case Name():
                named = state.pattern.fullmatch(word)
                if named is None:
                    self._give_back(state.otherwise, markers=not state.hides_markers)
                    return at
                self._set_name(decoded(named["name"]) if state.entities else named["name"])
            case Header() if transition.marker is not Marker.SHOWN:
                transition = self._route(state, transition, word)
            case Key():
                self._read_key(state, word)
        return self._follow(transition, marker, at)

    def _route(self, state: Header, transition: Transition, word: str) -> Transition:
        for pattern, to in state.routes:
            if routed := pattern.fullmatch(word):
                if "name" in pattern.groupindex:
                    self._set_name(routed["name"])
                elif state.hidden and not self._output.in_call:
                    self._candidate.clear()  # a header that introduces prose is markup
                return Transition(to, transition.marker)
        return transition

    def _read_key(self, state: Key, word: str) -> None:
        keyed = state.pattern.fullmatch(word)
        if keyed is None or "key" in state.pattern.groupindex:
            key = keyed["key"] if keyed else word
            self._key = decoded(key) if state.entities else key
            self._key_types = None
        if keyed is not None and "type" in state.pattern.groupindex:
            self._key_types = state.types.get(keyed["type"] or "")

    def _end_of_name(self, state: Name, text: str, position: int, at: int) -> int:
        """How far `text[position:at]` may be part of a name."""
        before = "".join(self._parts)
        word = before + text[position:at]
        possible = state.possible.match(word)
        length = min(possible.end() if possible else 0, _LONGEST_NAME)
        return at - max(len(word) - length, 0)

    def _set_name(self, name: str) -> None:
        self._name = offered_name(name, self._tools)
        self._writer = ArgumentsWriter(self._tools.get(self._name))

    # Values between tags

    def _value(self, state: Value, text: str, position: int) -> int:
        writer = self._writer
        assert writer is not None  # made with the name
        found = state.lexer.find(text, position)
        at, marker = (len(text), None) if found is None else found
        writer.write(text[position:at])
        if marker is None:
            self._output.arguments(writer.take())
            self._held = text[at:]
            return len(text)
        transition = state.transitions[marker]
        target = self._format.states[transition.to]
        if isinstance(target, Gap) and target.behind is Behind.VALUE:
            self._skipped.append(marker)
            self._state = target
            return at + len(marker)
        self._end_value(writer)
        return self._follow(transition, marker, at)

    def _end_value(self, writer: ArgumentsWriter) -> None:
        writer.end_value()
        self._output.arguments(writer.take())

    # Gaps

    def _gap(self, state: Gap, text: str, position: int) -> int:
        junk = state.junk.match(text, position)
        if junk is not None and junk.end() > position:
            self._skip(state, junk.group())
            position = junk.end()
        if position == len(text):
            return position
        found = state.lexer.at(text, position)
        if found is not None:
            marker = found[1]
            if marker is None:
                self._held = text[position:]
                return len(text)
            if state.behind is Behind.VALUE and self._writer is not None:
                self._skipped.clear()
                self._end_value(self._writer)
            return self._follow(state.transitions[marker], marker, position)
        if state.behind is Behind.VALUE and self._writer is not None:
            self._writer.write("".join(self._skipped))
            self._skipped.clear()
            self._state = self._format.states[state.otherwise]
        else:
            self._fall_through(state)
        return position

    def _skip(self, state: Gap, junk: str) -> None:
        if state.behind is Behind.VALUE:
            self._skipped.append(junk)
        elif self._candidate:
            self._candidate.append((junk, False))

    def _fall_through(self, state: Gap) -> None:
        """Something stands here that is neither junk nor a marker."""
        target = self._format.states[state.otherwise]
        if not isinstance(target, Prose):
            self._enter(target)
        elif self._candidate:
            self._give_back(state.otherwise)
        else:
            if self._output.in_call:
                self._finish_call()
            self._state = target

    # Calls

    def _body(self, state: Body, text: str, position: int) -> int:
        reader = self._reader
        assert reader is not None  # made on entering the state
        end = reader.scan(text, position)
        if reader.verdict is Verdict.CALL:
            self._begin_call(reader.name)
            self._output.arguments(reader.take())
        else:
            self._candidate.append((text[position:end], False))
            if reader.verdict is Verdict.NOT_A_CALL:
                self._give_back(state.otherwise, markers=not state.hides_markers)
                return end
        if reader.done:
            self._end_call(whole=reader.whole)
            self._state = self._format.states[state.then]
        return end

    def _close_body(self) -> None:
        reader = self._reader
        assert reader is not None  # made on entering the state
        reader.end_of_input()
        if reader.verdict is Verdict.CALL or (self._marked and reader.name is not None):
            self._begin_call(reader.name)
            self._output.arguments(reader.take())
            self._close_begun(whole=reader.whole)
        else:
            self._close_candidate("")

    def _close_call(self, held: str) -> None:
        """The output ends between the markers of a call that has begun: it stands."""
        writer = self._writer
        assert writer is not None  # made with the name
        if self._skipped:
            writer.end_value()
        elif writer.in_value:
            writer.write(held)
            writer.cut_off()
        whole = not writer.in_value
        writer.end()
        self._output.arguments(writer.take())
        self._close_begun(whole=whole)

    def _close_candidate(self, held: str) -> None:
        """The output ends before it is clear whether this is a call. Behind a marker that says so, it was to be one."""
        name = self._name_at_end(held)
        match self._state:
            case Header() as state:
                # A recipient says it as well as any marker.
                marked = name is not None or self._marked
                marked = marked and state.possible.fullmatch("".join(self._parts)) is not None
            case Gap() as state if not self._candidate:
                marked = state.behind is Behind.CALL or self._is_markup(held, state.transitions)
            case Body():
                marked = self._marked  # its own reader has judged the text
            case _:
                marked = self._marked and self._may_be_head(held)
        if not marked:
            self._give_back_at_end(held)
        elif name is not None:
            self._begin_call(name)
            self._close_begun(whole=False)

    def _may_be_head(self, held: str) -> bool:
        """Whether what stands behind the marker is as short as a name and a key: prose can speak of markers."""
        text = "".join(piece for piece, is_marker in self._candidate if not is_marker) + held
        return len(text) <= _LONGEST_HEAD and len(text.split()) <= _MOST_WORDS

    def _name_at_end(self, held: str) -> str | None:
        """The name of the tool whose call is cut off, if it is whole."""
        word = "".join(self._parts)
        match self._state:
            case Name() as state:
                found = state.pattern.fullmatch(word)
            case Header() as state:
                routed = (pattern.fullmatch(word) for pattern, _ in state.routes if "name" in pattern.groupindex)
                found = next(filter(None, routed), None)
            case Gap() | Key():
                return self._name
            case _:
                return None
        # No marker has ended it yet: it is whole if something else has, and if there is such a tool.
        if found is None or (found.end("name") == len(word) and not held):
            return None
        name = offered_name(found["name"], self._tools)
        return name if name in self._tools else None

    def _finish_call(self) -> None:
        """A marker shows that the call between tags is complete."""
        if self._name is None or self._writer is None:
            return
        self._begin_call(self._name)
        self._writer.end()
        self._output.arguments(self._writer.take())
        self._end_call(whole=True)

    def _begin_call(self, name: str | None) -> None:
        assert name is not None  # what is a call has one
        self._output.begin_call(name)
        self._candidate.clear()

    def _end_call(self, *, whole: bool) -> None:
        self._output.end_call(whole=whole)
        self._name = self._writer = self._reader = self._origin = None

    def _close_begun(self, *, whole: bool) -> None:
        if whole:
            self._end_call(whole=True)
        else:
            self._output.break_off_call()

    def _give_back(self, to: StateName, *, markers: bool = True) -> None:
        """The candidate was no call: its text is what it looks like."""
        text = "".join(piece for piece, is_marker in self._candidate if markers or not is_marker)
        self._candidate.clear()
        self._name = self._writer = self._reader = None
        self._state = self._format.states[to]
        if self._thinking():
            self._state = self._origin or self._state  # what only looked like a call doesn't end the thinking
        self._output.text(Sink.REASONING if self._thinking() else Sink.CONTENT, text)

    def _thinking(self) -> bool:
        """Whether the candidate stands in what the model thinks."""
        return self._origin is not None and self._origin.sink is Sink.REASONING

    def _give_back_at_end(self, held: str) -> None:
        """Cut off before it was a call: what came of it is text, but no marker shows beside other calls."""
        pieces = [*self._candidate, (held, True)]
        shown = [piece for piece, is_marker in pieces if not (is_marker and self._output.calls)]
        self._output.text(Sink.REASONING if self._thinking() else Sink.CONTENT, "".join(shown))
        self._candidate.clear()


def _announces(transition: Transition, *between: Rules) -> bool:
    """Whether a marker says that a call comes. A bracket that belongs to the call doesn't, nor does a fence."""
    return transition.marker is not Marker.KEPT and not any(
        isinstance(state, Header) and not state.hidden for state in between
    )


def parse(
    text: str,
    *,
    format: Format | str,  # noqa: A002 - the public name; nothing here formats a string
    tools: Sequence[Mapping[str, Any]] | None = None,
    reasoning: Literal["open"] | None = None,
) -> Parsed:
    """Take a whole output apart: the streaming parser, fed once."""
    parser = Parser(format=format, tools=tools, reasoning=reasoning)
    return collect([*parser.feed(text), *parser.close()])

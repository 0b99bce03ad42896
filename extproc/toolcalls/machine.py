"""The machine that runs a format's table over a model's output, piece by piece.

It knows no format, nothing of SSE and nothing of OpenAI. Text goes in as it arrives and events come out as soon
as they are certain. Three promises hold for every format:

- however the text is cut, the joined events are the same;
- the work per character is constant: nothing that was seen is scanned again;
- every character ends up in content, in reasoning, in a call, or belongs to the markup around calls.

White space between content and a call belongs to the markup, unless more content follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from extproc.toolcalls.events import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Event,
    Parsed,
    Reasoning,
    Text,
    collect,
)
from extproc.toolcalls.formats import get_format
from extproc.toolcalls.json_call import JsonCallReader, Verdict
from extproc.toolcalls.table import Format, Gap, JsonCall, Prose, Rule, Sink


class Parser:
    """Takes one model output apart: `feed` its text in pieces of any size, then `close`.

    `format` names how the model writes calls (UnknownFormatError lists near names); `tools` are the request's
    OpenAI tool definitions; `reasoning="open"` says that the output begins inside thinking, None lets the
    format's own thinking tags decide.
    """

    __slots__ = (
        "_begun",
        "_calls",
        "_candidate",
        "_events",
        "_format",
        "_held",
        "_line_start",
        "_names",
        "_reader",
        "_sent",
        "_space",
        "_state",
        "_thought",
    )

    def __init__(
        self,
        *,
        format: str,  # noqa: A002 - the public name; nothing here formats a string
        tools: Sequence[Mapping[str, Any]] | None = None,
        reasoning: Literal["open"] | None = None,
    ) -> None:
        self._format: Format = get_format(format)
        self._names = frozenset(tool["function"]["name"] for tool in tools or ())
        start = self._format.start
        if reasoning == "open" and self._format.thinking is not None:
            start = self._format.thinking
        self._events: list[Event] = []
        self._calls = 0
        self._held = ""  # the beginning of what may become a marker
        self._candidate: list[str] = []  # the text of what may become a call
        self._reader: JsonCallReader | None = None
        self._begun = False  # the call being read has been announced
        self._sent = False  # ... and some of its arguments with it
        self._space: list[str] = []  # white space that is content only if more content follows
        self._line_start = True
        self._thought = False  # nothing but white space came since the last reasoning
        self._state = self._format.states[start]
        self._enter(start)

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
                case JsonCall() as state:
                    position = self._json_call(state, text, position)
                case Gap() as state:
                    position = self._gap(state, text, position)
        return self._take_events()

    def close(self) -> list[Event]:
        """The output has ended, finished or cut off; returns what was still held."""
        held, self._held = self._held, ""
        match self._state:
            case Prose(sink=sink):
                self._emit(sink, held)
            case JsonCall() as state:
                self._close_json_call(state)
            case Gap():
                pass  # the beginning of a closing marker
        if self._space and not self._calls:
            self._events.append(Text("".join(self._space)))
        self._space.clear()
        return self._take_events()

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _enter(self, name: str) -> None:
        self._state = self._format.states[name]
        if isinstance(self._state, JsonCall):
            self._reader = JsonCallReader(self._state, self._names)

    # Prose

    def _prose(self, state: Prose, text: str, position: int) -> int:
        start = position
        while True:
            found = state.lexer.find(text, position)
            if found is None:
                self._emit(state.sink, text[start:])
                return len(text)
            at, marker = found
            if marker is None:
                self._emit(state.sink, text[start:at])
                self._held = text[at:]
                return len(text)
            rule = state.rules[marker]
            if rule.line_start and not self._at_line_start(text, start, at):
                position = at + len(marker)
                continue
            self._emit(state.sink, text[start:at])
            return self._follow(rule, marker, at)

    def _at_line_start(self, text: str, start: int, at: int) -> bool:
        """Whether only white space stands between the last line break and `at`."""
        newline = text.rfind("\n", start, at)
        if newline >= 0:
            return not text[newline + 1 : at].strip()
        return self._line_start and not text[start:at].strip()

    def _follow(self, rule: Rule, marker: str, at: int) -> int:
        """Go where a marker leads; returns where the next state reads on."""
        target = self._format.states[rule.to]
        if isinstance(target, JsonCall):
            if not rule.keep:
                self._candidate.append(marker)
        elif rule.shown:
            assert isinstance(target, Prose)  # noqa: S101 - tables are checked when they are made
            self._emit(target.sink, marker)
        self._enter(rule.to)
        return at if rule.keep else at + len(marker)

    def _emit(self, sink: Sink, text: str) -> None:
        if not text:
            return
        newline = text.rfind("\n")
        if newline >= 0:
            self._line_start = not text[newline:].strip()
        elif self._line_start:
            self._line_start = not text.strip()
        if sink is Sink.REASONING:
            self._events.append(Reasoning(text))
            self._thought = True
            return
        if self._thought:
            # The line breaks between a closing thinking tag and the answer belong to the tag.
            text = text.lstrip()
            self._thought = not text
        solid = text.rstrip()
        if solid:
            self._events.append(Text("".join([*self._space, solid])))
            self._space.clear()
        if len(solid) < len(text):
            self._space.append(text[len(solid) :])

    # Calls

    def _json_call(self, state: JsonCall, text: str, position: int) -> int:
        reader = self._reader
        assert reader is not None  # noqa: S101 - made on entering the state
        end = reader.scan(text, position)
        if reader.verdict is Verdict.CALL:
            self._advance_call(reader)
        else:
            self._candidate.append(text[position:end])
            if reader.verdict is Verdict.NOT_A_CALL:
                self._give_back(state)
                return end
        if reader.done:
            self._end_call(reader)
            self._enter(state.then)
        return end

    def _advance_call(self, reader: JsonCallReader) -> None:
        if not self._begun:
            self._begun = True
            self._candidate.clear()
            self._events.append(CallStart(self._calls, reader.name))
        if piece := reader.take():
            self._sent = True
            self._events.append(ArgumentsDelta(self._calls, piece))

    def _end_call(self, reader: JsonCallReader) -> None:
        if not self._sent:
            self._events.append(ArgumentsDelta(self._calls, "{}"))
        self._events.append(CallEnd(self._calls, reader.whole))
        self._calls += 1
        self._begun = self._sent = False

    def _give_back(self, state: JsonCall) -> None:
        """The candidate was no call: its text is what it looks like."""
        text = "".join(self._candidate)
        self._candidate.clear()
        self._enter(state.otherwise)
        self._emit(Sink.CONTENT, text)

    def _close_json_call(self, state: JsonCall) -> None:
        reader = self._reader
        assert reader is not None  # noqa: S101 - made on entering the state
        reader.end_of_input()
        if reader.verdict is Verdict.CALL:
            self._advance_call(reader)
            self._end_call(reader)
        else:
            if self._calls and not state.offered_only:
                # Cut off before its name: what came of it is text, but no marker shows beside calls.
                del self._candidate[0]
            self._give_back(state)

    # Gaps

    def _gap(self, state: Gap, text: str, position: int) -> int:
        junk = state.junk.match(text, position)
        if junk is not None:
            position = junk.end()
        if position == len(text):
            return position
        found = state.lexer.find(text, position)
        if found is not None and found[0] == position:
            marker = found[1]
            if marker is None:
                self._held = text[position:]
                return len(text)
            return self._follow(state.rules[marker], marker, position)
        self._enter(state.otherwise)
        return position


def parse(
    text: str,
    *,
    format: str,  # noqa: A002 - the public name; nothing here formats a string
    tools: Sequence[Mapping[str, Any]] | None = None,
    reasoning: Literal["open"] | None = None,
) -> Parsed:
    """Take a whole output apart: the streaming parser, fed once."""
    parser = Parser(format=format, tools=tools, reasoning=reasoning)
    return collect([*parser.feed(text), *parser.close()])

"""The machine that runs a format's table over a model's output, piece by piece.

It knows no format, nothing of SSE and nothing of OpenAI. Text goes in as it arrives and events come out as soon
as they are certain. Three promises hold for every format:

- however the text is cut, the joined events are the same;
- the work per character is constant: nothing that was seen is scanned again;
- every character ends up in content, in reasoning, in a call, or belongs to the markup around calls. Where the output
  ends behind a marker that announces a call, what may still have become the call's head is markup as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from extproc.toolcalls.candidate import announces, is_behind_call
from extproc.toolcalls.events import Event
from extproc.toolcalls.headers import LONGEST_HEADER, Route, reach, route
from extproc.toolcalls.line import QUOTES, Line
from extproc.toolcalls.output import Output
from extproc.toolcalls.pending_call import LONGEST_WORD, PendingCall
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.table import (
    BLANKS,
    WHITE_SPACE,
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
    Value,
    Verdict,
    left_by,
)


class Machine:
    """Runs `format_` over the text that `feed` is given. What an output's end means is told in `parser.py`."""

    __slots__ = ("_call", "_format", "_held", "_output", "_state", "_step", "_tools")

    def __init__(self, format_: Format, tools: Mapping[str, Mapping[str, Any]], start: StateName) -> None:
        self._format = format_
        self._tools = tools
        self._output = Output(remembers=format_.repeats)
        self._call = PendingCall(tools, self._output)
        self._held = ""  # the beginning of what may become a marker
        self._go(format_.states[start])

    def feed(self, text: str) -> list[Event]:
        """The next piece of the output; returns what it made certain."""
        if self._held:
            text = self._held + text
            self._held = ""
        position, size = 0, len(text)
        while position < size:
            position = self._step(self, self._state, text, position)
        return self._output.take()

    def _go(self, state: Rules) -> None:
        self._state = state
        self._step = _STEPS.get(type(state), Machine._body)

    def _hold(self, text: str, at: int) -> int:
        self._held = text[at:]
        return len(text)

    # Prose

    def _prose(self, state: Prose, text: str, position: int) -> int:
        start = looked = position
        line = self._output.line
        while True:
            found = state.lexer.find(text, position)
            if found is None:
                self._output.text(state.sink, text[start:])
                return len(text)
            at, marker = found
            if marker is None:
                self._output.text(state.sink, text[start:at])
                return self._hold(text, at)
            transition = state.transitions[marker]
            end = at + len(marker)
            if transition.line_start or (text[at - 1] if at > start else line.last) in QUOTES:
                line = line.copy() if line is self._output.line else line
                line.read(text[looked:at])
                looked = at
                said = (transition.line_start and not line.blank) or self._is_quoted(
                    transition, line, text[end : end + 1]
                )
                if said:
                    position = end
                    continue
                if said is None:
                    self._output.text(state.sink, text[start:at])
                    return self._hold(text, at)
            self._output.text(state.sink, text[start:at])
            return self._follow(transition, marker, at)

    def _is_quoted(self, transition: Transition, line: Line, follows: str) -> bool | None:
        """Whether the text speaks of a marker, behind what stands on the `line`. None while nothing follows it."""
        if not line.opens_quote or transition.marker is Marker.SHOWN:
            return False
        target = self._format.states[transition.to]
        calls = not isinstance(target, Prose | Header) and not is_behind_call(target)
        if calls and line.opens_code:
            return True
        return follows == line.last if follows else None

    def _follow(self, transition: Transition, marker: str, at: int) -> int:
        """Go where a marker leads; returns where the next state reads on."""
        call, candidate = self._call, self._call.candidate
        if transition.ends_call:
            call.finish()
        target = self._format.states[transition.to]
        kept = transition.marker is Marker.KEPT
        if isinstance(target, Prose):
            given_back = bool(candidate)
            if given_back:
                self._give_back(transition.to)
            self._go(target)
            self._output.line.clear()
            if (transition.marker is Marker.SHOWN or given_back) and not kept:
                self._output.text(target.sink, marker)
        else:
            if isinstance(self._state, Prose) or is_behind_call(self._state):
                origin = self._state if isinstance(self._state, Prose) and not is_behind_call(target) else None
                candidate.begin(origin, self._output.line, behind_call=is_behind_call(self._state))
                call.name = None  # there may be one that was only repeated, and led to no call
            if is_behind_call(target):
                candidate.clear()
            elif not kept and not self._output.in_call:
                candidate.add_marker(marker)
                candidate.marked = candidate.marked or announces(transition, self._state, target)
            self._enter(target)
        return at if kept else at + len(marker)

    def _enter(self, state: Rules) -> None:
        self._go(state)
        match state:
            case Body():
                self._call.begin_body(state)
            case Value():
                self._call.begin_value(state)
            case Name() | Header() | Key():
                self._call.begin_word(state)

    # Names, headers and keys: words up to a marker

    def _word(self, state: Name | Key, text: str, position: int) -> int:
        call = self._call
        # No word is longer than the limit, so nothing behind it needs to be looked at now.
        end = min(len(text), position + 2 * LONGEST_WORD)
        at, marker = state.lexer.find(text, position, end) or (end, None)
        stop = position + call.length_of_word(state, text[position:at])
        call.add_to_word(text[position:stop])
        if stop < at or (marker is not None and not call.read_word(state)):
            self._give_back_from(state)
            return stop
        if marker is None:
            return self._hold(text, at)
        return self._follow(state.transitions[marker], marker, at)

    def _header(self, state: Header, text: str, position: int) -> int:
        call = self._call
        end = len(text) if state.possible is None else min(len(text), position + 2 * LONGEST_HEADER)
        at, marker = state.lexer.find(text, position, end) or (end, None)
        transition = state.transitions.get(marker or "")
        if state.possible is not None:
            header = call.word + text[position:at]
            said, possible = reach(state.possible, header, len(header) - (at - position))
            if possible < len(header) or (transition is not None and transition.marker is Marker.KEPT):
                self._leave_unfinished(state, header[:said], header[said:possible])
                return at - (len(header) - possible)
        call.add_to_header(text[position:at])
        if marker is None or transition is None:
            return self._hold(text, at)
        call.candidate.add_marker(call.word)
        if transition.marker is not Marker.SHOWN:
            leads = route(state.routes, call.word, self._tools) or Route(transition.to)
            call.take_header(leads.name, hidden=state.hidden)
            transition = Transition(leads.to, transition.marker)
        return self._follow(transition, marker, at)

    def _leave_unfinished(self, state: Header, said: str, text: str) -> None:
        """The header never gets its end: `text`, and what follows it, is what it introduces."""
        call, leads = self._call, route(state.unfinished, said, self._tools)
        call.candidate.add_marker(said)
        if leads is None:
            call.candidate.add(text)
            self._give_back(state.otherwise)
        else:
            call.take_header(leads.name, hidden=True)
            self._enter(self._format.states[leads.to])
            if isinstance(self._state, Prose):
                self._output.text(self._state.sink, text)
            elif text:
                call.candidate.add(text)

    # Values between tags

    def _value(self, state: Value, text: str, position: int) -> int:
        call = self._call
        writer = call.writer
        assert writer is not None  # the call's name made it
        at, marker = state.lexer.find(text, position) or (len(text), None)
        writer.write(text[position:at])
        if marker is None:
            self._output.arguments(writer.take())
            return self._hold(text, at)
        transition = state.transitions[marker]
        if self._leaves_value_open(transition, marker):
            return at + len(marker)
        call.end_value()
        return self._follow(transition, marker, at)

    def _leaves_value_open(self, transition: Transition, marker: str) -> bool:
        """Whether a marker is part of the value, or may be; goes where it leads if so."""
        target = self._format.states[transition.to]
        undecided = isinstance(target, Gap) and target.in_value
        if not undecided and transition.marker is not Marker.SHOWN:
            return False
        self._call.skipped.append(marker)
        if not undecided:
            self._call.give_to_value()
        self._go(target)
        return True

    # Gaps

    def _gap(self, state: Gap, text: str, position: int) -> int:
        junk = state.junk.match(text, position)
        if junk is not None and junk.end() > position:
            self._skip(state, junk.group())
            position = junk.end()
        if position == len(text):
            return position
        call = self._call
        behind_value = state.in_value and call.writer is not None
        found = state.lexer.at(text, position)
        if found is not None:
            marker = found[1]
            if marker is None:
                return self._hold(text, position)
            transition = state.transitions[marker]
            if behind_value:
                if self._leaves_value_open(transition, marker):
                    return position + len(marker)
                if transition.marker is Marker.AGAIN:
                    return self._next_call(state, transition, text, position)
                call.end_value(state.key)
            elif state.behind is Behind.TEXT:
                call.candidate.clear()
            return self._follow(transition, marker, position)
        if behind_value:
            call.give_to_value()
            self._go(self._format.states[state.otherwise])
        else:
            self._fall_through(state)
        return position

    def _next_call(self, state: Gap, transition: Transition, text: str, position: int) -> int:
        """Behind a value that was never closed another call begins, in what was skipped; or so it seems."""
        call = self._call
        skipped = "".join(call.skipped)
        if state.skipped is not None and not state.skipped.search(skipped):
            call.give_to_value()
            self._go(self._format.states[state.otherwise])
            return position
        call.end_value()
        call.finish()
        self._go(self._format.states[transition.to])
        return self._read_again(skipped, text, position)

    def _skip(self, state: Gap, junk: str) -> None:
        if state.in_value:
            self._call.skipped.append(junk)
        elif self._call.candidate:
            # Where junk may be more than white space it is a part of markup.
            is_space = state.junk in (WHITE_SPACE, BLANKS)
            (self._call.candidate.add if is_space else self._call.candidate.add_marker)(junk)

    def _fall_through(self, state: Gap) -> None:
        """Something stands here that is neither junk nor a marker."""
        target = self._format.states[state.otherwise]
        if not isinstance(target, Prose):
            self._enter(target)
        elif self._call.candidate:
            self._give_back_from(state)
        else:
            if self._output.in_call:
                self._call.finish()
            self._go(target)
            self._output.line.clear()

    # Calls in a notation of their own

    def _body(self, state: Body, text: str, position: int) -> int:
        call, reader = self._call, self._call.reader
        assert reader is not None  # made on entering the state
        end = reader.scan(text, position)
        if reader.verdict is Verdict.CALL and reader.name is not None:
            call.begin(reader.name)
            self._step = Machine._begun_body
            return self._hand_on(reader, state, text, end)
        call.candidate.add(text[position:end])
        if reader.verdict is Verdict.MARKUP:
            call.candidate.clear()
            call.forget()
            self._go(self._format.states[state.then])
            return self._read_again(left_by(reader), text, end)
        if reader.done:
            call.candidate.cut(len(left_by(reader)))
            self._give_back(state.otherwise, markers=not state.hides_markers)
            return self._read_again(left_by(reader), text, end)
        self._held = text[end:]
        return len(text)

    def _begun_body(self, state: Body, text: str, position: int) -> int:
        reader = self._call.reader
        assert reader is not None  # made on entering the state
        end = reader.scan(text, position)
        if reader.done or end < len(text):
            return self._hand_on(reader, state, text, end)
        if piece := reader.take():
            self._output.arguments(piece)
        return end

    def _hand_on(self, reader: Reader, state: Body, text: str, end: int) -> int:
        self._output.arguments(reader.take())
        if reader.done:
            self._call.end(whole=reader.whole)
            self._go(self._format.states[state.then])
            return self._read_again(left_by(reader), text, end)
        self._held = text[end:]
        return len(text)

    def _read_again(self, left: str, text: str, end: int) -> int:
        """What a reader has left comes before the rest of the text; returns where the next state reads on."""
        if len(left) <= end:
            return end - len(left)
        # Its beginning came in pieces before this one.
        position, rest = 0, left + text[end:]
        while position < len(rest):
            position = self._step(self, self._state, rest, position)
        return len(text)

    # What was no call

    def _give_back_from(self, state: Gap | Name | Key) -> None:
        """With its markers, unless they can't be text; those that a sentence speaks of are."""
        candidate = self._call.candidate
        if state.hides_markers and candidate.is_spoken_of and candidate.origin is not None:
            self._give_back(state.otherwise)
            self._go(candidate.origin)
        else:
            self._give_back(state.otherwise, markers=not state.hides_markers)

    def _give_back(self, to: StateName, *, markers: bool = True) -> None:
        """The candidate was no call: its text is what it looks like."""
        candidate = self._call.candidate
        text = self._call.take_back(markers=markers)
        target, origin = self._format.states[to], candidate.origin
        # What only looked like a call doesn't end the thinking, and the text still has said what it said before.
        goes_on = origin is not None and (origin.sink is Sink.REASONING or (to is State.PROSE and _is_shown(target)))
        self._go(origin if goes_on and origin else target)
        self._output.text(self._state.sink if isinstance(self._state, Prose) else candidate.sink, text)


def _is_shown(state: Rules) -> bool:
    return isinstance(state, Prose) and state.sink is Sink.CONTENT


_Step: TypeAlias = Callable[[Machine, Any, str, int], int]
_STEPS: Mapping[type[Rules], _Step] = {
    Prose: Machine._prose,
    Value: Machine._value,
    Gap: Machine._gap,
    Name: Machine._word,
    Header: Machine._header,
    Key: Machine._word,
}
"""How each kind of state reads on: from a position in a text to where the next state does. All others are bodies."""

"""Where the calls of a choice come from: the model's text, or the backend's own `tool_calls`.

A reader takes the parts of a message that may hold calls, whole or as the deltas of a stream, and says what they mean
as events of one output: numbered calls without gaps that never overlap. What it took is not passed on besides.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import orjson

from extproc.contract.errors import backend_garbage
from extproc.contract.json_array import tools_by_name
from extproc.contract.json_body import is_json
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Parser, Text
from extproc.turn.spec import ResponseSpec

Json = dict[str, Any]


class Reader(Protocol):
    """Reads one choice."""

    @property
    def takes(self) -> frozenset[str]:
        """The fields that it reads."""

    def feed(self, message: Json) -> list[Event]:
        """What a message, or the next delta of one, holds. Raises ApiError (502) for what can't be read."""

    def close(self, *, cut_off: bool = False) -> list[Event]:
        """What was still held: the output has ended, or the backend `cut_off` what the model had yet to say."""

    @property
    def held(self) -> int:
        """How many characters it keeps and has given no event for; at most."""


def reader_for(spec: ResponseSpec) -> Reader:
    """The reader of one choice."""
    return NativeReader(spec) if spec.native else TextReader(spec)


class TextReader:
    """Reads calls from what the model wrote."""

    takes = frozenset({"content"})

    def __init__(self, spec: ResponseSpec) -> None:
        tools = tools_by_name(spec.tools)
        self._parser = Parser(format=spec.format, tools=tools, reasoning=spec.thinking, hidden=spec.hidden)
        self.held = 0
        """How much came since the parser last said something: markup that says nothing is in it too."""
        self._closed = False

    def feed(self, message: Json) -> list[Event]:
        content = _text(message)
        if not content:
            return []
        if self._closed:
            return [Text(content)]  # a backend that goes on behind its finish_reason: no call can come of it
        events = self._parser.feed(content)
        self.held = 0 if events else self.held + len(content)
        return events

    def close(self, *, cut_off: bool = False) -> list[Event]:
        self.held = 0
        self._closed = True
        return self._parser.close(cut_off=cut_off)


@dataclass(slots=True)
class _NativeCall:
    """One of the backend's calls, as far as it has come."""

    number: object
    """By which the backend knows it: its index, or in a whole message its place."""
    id: str | None = None
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    told: int = 0
    """How many pieces of the arguments were given on."""
    _judged: tuple[int, bool] = (0, False)
    """Of how many pieces it was found out whether they are whole."""

    @property
    def whole(self) -> bool:
        """Its arguments are all there, by the look of them."""
        if self._judged[0] != len(self.arguments):
            self._judged = len(self.arguments), is_json("".join(self.arguments))
        return self._judged[1]


class NativeReader:
    """Reads the calls that the backend's own parser found, and repairs what is known to go wrong there.

    Measured with vLLM 0.32 and 0.33: arguments that never come, calls numbered from 1, ids and types missing, a whole
    call in one delta, arguments as an object. With `repair` the text is read too, because calls that the backend's
    parser didn't recognise are left in it.

    One call at a time is given on as it comes. What comes behind it, another call or text, waits until its arguments
    are whole, or until the output ends.
    """

    takes = frozenset({"content", "tool_calls"})

    def __init__(self, spec: ResponseSpec) -> None:
        self._text = _RenumberedText(spec) if spec.repair else None
        self._calls = 0
        self._ids = {""}
        # The call that is being given on, if it is one, and what waits behind it:
        self._waiting = deque[_NativeCall | str]()
        self._waits = 0  # how many characters of that have not been given on

    @property
    def held(self) -> int:
        return self._waits + (self._text.held if self._text is not None else 0)

    def feed(self, message: Json) -> list[Event]:
        events: list[Event] = []
        if content := _text(message):
            self._waiting.append(content)
            self._waits += len(content)
            events += self._proceed()
        if calls := message.get("tool_calls"):
            if not isinstance(calls, list):
                raise backend_garbage("tool_calls that aren't an array.")
            for place, call in enumerate(calls):
                if not isinstance(call, dict) or not isinstance(call.get("function") or {}, dict):
                    raise backend_garbage("a tool call that isn't an object.")
                new = self._put(call, place)
                events += self._proceed() if new else self._give()
        return events

    def close(self, *, cut_off: bool = False) -> list[Event]:
        events: list[Event] = []
        while self._waiting:
            events += self._give()
            # What was cut off is the last that the model wrote; a call with something behind it was complete.
            events += self._end(cut_off=cut_off and len(self._waiting) == 1)
        if self._text is not None:
            events += self._counted(self._text.close(cut_off=cut_off))
        return events

    def _put(self, piece: Json, place: int) -> bool:
        """Add a piece to its call; whether it began a new one."""
        number, call_id = piece.get("index", place), piece.get("id")
        function = piece.get("function") or {}
        name, arguments = function.get("name"), function.get("arguments")
        of_number = (one for one in reversed(self._waiting) if isinstance(one, _NativeCall) and one.number == number)
        call = next(of_number, None)
        # Some servers number all their calls 0: then the id tells them apart.
        new = call is None or (bool(name) and bool(call_id) and call.id not in (None, call_id))
        if call is None or new:
            call = _NativeCall(number)
            self._waiting.append(call)
        if call.id is None and isinstance(call_id, str) and call_id not in self._ids:
            call.id = call_id
            self._ids.add(call_id)
        if not call.name and isinstance(name, str):
            call.name = name
        if arguments is not None and not isinstance(arguments, str):
            arguments = orjson.dumps(arguments).decode()
        if arguments:
            call.arguments.append(arguments)
            self._waits += len(arguments)
        return new

    def _proceed(self) -> list[Event]:
        """Something new came: what is before it is over, if it can be."""
        events = self._give()
        while len(self._waiting) > 1:
            first = self._waiting[0]
            if isinstance(first, _NativeCall) and not first.whole:
                break
            events += self._end()
            events += self._give()
        return events

    def _give(self) -> list[Event]:
        """What is first, as far as it has come: text wholly, and the call behind it."""
        events: list[Event] = []
        while self._waiting and isinstance(text := self._waiting[0], str):
            self._waiting.popleft()
            self._waits -= len(text)
            events += [Text(text)] if self._text is None else self._counted(self._text.feed(text))
        if not self._waiting:
            return events
        call = self._waiting[0]
        assert isinstance(call, _NativeCall)
        if self._text is not None:
            events += self._counted(self._text.close())
        if call.name:
            if call.told == 0:
                events.append(CallStart(self._calls, call.name, call.id))
                call.told = 1
            new = "".join(call.arguments[call.told - 1 :])
            call.told = len(call.arguments) + 1
            if new:
                self._waits -= len(new)
                events.append(ArgumentsDelta(self._calls, new))
        return events

    def _end(self, *, cut_off: bool = False) -> list[Event]:
        """The call that is first is over, or `cut_off`: then it stays as it is."""
        if not self._waiting:
            return []
        call = self._waiting.popleft()
        assert isinstance(call, _NativeCall)  # text never stays first
        if not call.name:
            if call.arguments:
                raise backend_garbage("a tool call without a name.")
            return []
        events: list[Event] = []
        if not call.arguments and not cut_off:
            events.append(ArgumentsDelta(self._calls, "{}"))
        events.append(CallEnd(self._calls, whole=not cut_off or call.whole))
        self._calls += 1
        return events

    def _counted(self, events: list[Event]) -> list[Event]:
        """The events of the text, whose calls are numbered on from here."""
        for event in events:
            if isinstance(event, CallStart | ArgumentsDelta | CallEnd):
                event.index = self._calls
            if isinstance(event, CallEnd):
                self._calls += 1
        return events


class _RenumberedText:
    """The text between the backend's calls: each stretch of it is an output of its own."""

    def __init__(self, spec: ResponseSpec) -> None:
        self._spec = spec
        self._reader: TextReader | None = None

    @property
    def held(self) -> int:
        return self._reader.held if self._reader is not None else 0

    def feed(self, content: str) -> list[Event]:
        if self._reader is None:
            self._reader = TextReader(self._spec)
            self._spec = replace(self._spec, thinking=None)  # only the first stretch begins inside the thinking
        return self._reader.feed({"content": content})

    def close(self, *, cut_off: bool = False) -> list[Event]:
        reader, self._reader = self._reader, None
        return reader.close(cut_off=cut_off) if reader is not None else []


def _text(message: Json) -> str:
    content = message.get("content")
    if not isinstance(content, str | None):
        raise backend_garbage("content that isn't a string.")
    return content or ""

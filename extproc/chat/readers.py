"""Where the calls of a choice come from: the model's text, or the backend's own `tool_calls`.

A reader takes the parts of a message that may hold calls, whole or as the deltas of a stream, and says what they mean
as events of one output: numbered calls without gaps that never overlap. What it took is not passed on besides.
"""

from __future__ import annotations

from typing import Any, Protocol

import orjson

from extproc.chat.plan import AnswerPlan
from extproc.openai.errors import backend_garbage
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Parser, Text

Json = dict[str, Any]


class Reader(Protocol):
    """Reads one choice."""

    @property
    def takes(self) -> frozenset[str]:
        """The fields that it reads."""

    def feed(self, message: Json) -> list[Event]:
        """What a message, or the next delta of one, holds. Raises ApiError (502) for what can't be read."""

    def close(self) -> list[Event]:
        """What was still held: the output has ended."""


def reader_for(plan: AnswerPlan) -> Reader:
    """The reader of one choice."""
    return NativeReader(plan) if plan.native else TextReader(plan)


class TextReader:
    """Reads calls from what the model wrote."""

    takes = frozenset({"content"})

    def __init__(self, plan: AnswerPlan) -> None:
        self._parser = Parser(format=plan.format, tools=plan.tools, reasoning=plan.thinking, hidden=plan.hidden)

    def feed(self, message: Json) -> list[Event]:
        content = _text(message)
        return self._parser.feed(content) if content else []

    def close(self) -> list[Event]:
        return self._parser.close()


class NativeReader:
    """Reads the calls that the backend's own parser found, and mends what is known to go wrong there.

    Measured with vLLM 0.32 and 0.33: arguments that never come, calls numbered from 1, ids and types missing, a whole
    call in one delta, arguments as an object. With `repair` the text is read too, because calls that the
    backend's parser didn't recognise are left in it.
    """

    takes = frozenset({"content", "tool_calls"})

    def __init__(self, plan: AnswerPlan) -> None:
        self._text = _RenumberedText(plan) if plan.repair else None
        self._calls = 0
        self._number: Any = None  # the backend's, of the call that is open
        self._open = False
        self._pending = ""  # arguments that came before the name
        self._id: str | None = None  # a new one is made where it is missing or used twice
        self._ids = {""}
        self._argued = False

    def feed(self, message: Json) -> list[Event]:
        events: list[Event] = []
        if content := _text(message):
            events += self._end()
            if self._text is None:
                events.append(Text(content))
            else:
                events += self._counted(self._text.feed(content))
        calls = message.get("tool_calls")
        if calls:
            if not isinstance(calls, list):
                raise backend_garbage("tool calls that are no array.")
            if self._text is not None:
                events += self._counted(self._text.close())
            for place, call in enumerate(calls):
                if not isinstance(call, dict) or not isinstance(call.get("function") or {}, dict):
                    raise backend_garbage("a tool call that is no object.")
                events += self._piece(call, place)
        return events

    def close(self) -> list[Event]:
        events = self._end()
        if self._text is not None:
            events += self._counted(self._text.close())
        return events

    def _piece(self, call: Json, place: int) -> list[Event]:
        events: list[Event] = []
        # In a stream a call is known by its index; in a whole message by its place alone.
        number = call.get("index", place)
        if number != self._number:
            events += self._end()
            self._number = number
        call_id = call.get("id")
        if self._id is None and isinstance(call_id, str) and call_id not in self._ids:
            self._id = call_id
        function = call.get("function") or {}
        name, arguments = function.get("name"), function.get("arguments")
        if not self._open and isinstance(name, str) and name:
            self._open = True
            self._ids.add(self._id or "")
            events.append(CallStart(self._calls, name, self._id))
        if arguments is not None and not isinstance(arguments, str):
            arguments = orjson.dumps(arguments).decode()
        if arguments:
            self._pending += arguments
        if self._open and self._pending:
            self._argued = True
            events.append(ArgumentsDelta(self._calls, self._pending))
            self._pending = ""
        return events

    def _end(self) -> list[Event]:
        events: list[Event] = []
        if self._open:
            if not self._argued:
                events.append(ArgumentsDelta(self._calls, "{}"))
            events.append(CallEnd(self._calls))
            self._calls += 1
        elif self._pending:
            raise backend_garbage("a tool call without a name.")
        self._number = self._id = None
        self._open = self._argued = False
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

    def __init__(self, plan: AnswerPlan) -> None:
        self._plan = plan
        self._reader: TextReader | None = None

    def feed(self, content: str) -> list[Event]:
        if self._reader is None:
            self._reader = TextReader(self._plan)
        return self._reader.feed({"content": content})

    def close(self) -> list[Event]:
        reader, self._reader = self._reader, None
        return reader.close() if reader is not None else []


def _text(message: Json) -> str:
    content = message.get("content")
    if not isinstance(content, str | None):
        raise backend_garbage("content that is no text.")
    return content or ""

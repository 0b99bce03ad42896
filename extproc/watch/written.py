"""What a model wrote, of what its backend sent: each choice's text, with the time of every piece, and its spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from extproc.contract.arguments import ArgumentChecker
from extproc.contract.errors import MISSING_CALL
from extproc.contract.sse import DONE, Data, SseDecoder
from extproc.exchange.content_coding import Decoder, UnreadableCodingError
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Parser, get_format
from extproc.turn.output import CUT_OFF
from extproc.turn.spec import ResponseSpec
from extproc.turn.unescaping import UnescapedEvents
from extproc.watch.repairs import Repair, notation_of, repairs
from extproc.watch.spans import Span, SpanReader

Json: TypeAlias = dict[str, Any]
Piece: TypeAlias = tuple[float, bytes]
"""When it came, in milliseconds, and its bytes."""

_PART = 64 * 1024


@dataclass(frozen=True, slots=True)
class CallMade:
    """A call, as the client's policy gets to see it."""

    name: str
    arguments: str
    whole: bool
    violation: str | None = None
    """What is wrong with it, in a sentence."""


@dataclass(slots=True)
class Written:
    """One choice."""

    index: int
    spans: list[Span] = field(default_factory=list)
    pieces: list[tuple[int, float]] = field(default_factory=list)
    """How many characters had come, and when."""
    calls: list[CallMade] = field(default_factory=list)
    repairs: list[Repair] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    finish_reason: str | None = None

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


def written(
    pieces: Sequence[Piece], spec: ResponseSpec, *, events: bool, coding: str = "", ended: bool
) -> list[Written]:
    """The choices of an answer, as far as it has come. `events`: it is a stream of server-sent events."""
    readers: dict[int, _Reader] = {}
    for at, chunk in _chunks(pieces, events=events, coding=coding):
        for place, choice in enumerate(choices if isinstance(choices := chunk.get("choices"), list) else ()):
            if not isinstance(choice, dict):
                continue
            index = number if isinstance(number := choice.get("index"), int) else place
            reader = readers.get(index)
            if reader is None:
                reader = readers[index] = _Reader(index, spec)
            reader.take(at, choice)
    return [readers[index].result(ended=ended) for index in sorted(readers)]


def _chunks(pieces: Iterable[Piece], *, events: bool, coding: str) -> Iterator[tuple[float, Json]]:
    decoded = _decoded(pieces, coding)
    if not events:
        parts = list(decoded)
        if parts and isinstance(found := _json(b"".join(part for _, part in parts)), dict):
            yield parts[-1][0], found
        return
    decoder, at = SseDecoder(), 0.0
    for at, part in decoded:
        for event in decoder.feed(part):
            if isinstance(event, Data) and event.data.strip() != DONE and isinstance(found := _json(event.data), dict):
                yield at, found
    for event in decoder.close():
        if isinstance(event, Data) and event.data.strip() != DONE and isinstance(found := _json(event.data), dict):
            yield at, found


def _decoded(pieces: Iterable[Piece], coding: str) -> Iterator[Piece]:
    """Without a content coding, as far as it can be read."""
    try:
        decoder = Decoder(coding)
        for at, data in pieces:
            for part in decoder.steps(data, _PART):
                yield at, part
    except UnreadableCodingError:
        return


def _json(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


class _Reader:
    """Reads one choice."""

    def __init__(self, index: int, spec: ResponseSpec) -> None:
        self._spec = spec
        self._written = Written(index)
        self._format = get_format(spec.format)
        self._length = 0
        self._backends: list[Span] = []
        """What the backend itself took for something."""
        self._native: dict[object, CallMade] = {}
        self._text: SpanReader | None = None
        self._spans: list[Span] = []
        self._events: list[Event] = []

    def take(self, at: float, choice: Json) -> None:
        message = choice.get("delta") or choice.get("message")
        if isinstance(message, dict):
            thinking = message.get("reasoning") or message.get("reasoning_content")
            if isinstance(thinking, str) and thinking:
                self._backend(Span("reasoning", thinking, events={"by the backend": 1}))
            if isinstance(content := message.get("content"), str) and content:
                self._content(content)
            calls = message.get("tool_calls")
            for place, call in enumerate(calls if isinstance(calls, list) else ()):
                if isinstance(call, dict):
                    self._native_call(place, call)
        if self._length and (not self._written.pieces or self._written.pieces[-1][0] != self._length):
            self._written.pieces.append((self._length, at))
        if isinstance(reason := choice.get("finish_reason"), str):
            self._written.finish_reason = reason

    def _content(self, content: str) -> None:
        self._length += len(content)
        if self._spec.native and not self._spec.repair:
            self._end_text(cut_off=False)
            self._join(Span("content", content, events={"by the backend": 1}))
            return
        if self._text is None:
            spec, first = self._spec, not self._spans
            tools = spec.callable_tools
            parser = Parser(
                format=self._format, tools=tools, reasoning=spec.thinking if first else None, hidden=spec.hidden
            )
            self._text = SpanReader(parser, notation_of(self._format))
        self._text.feed(content)

    def _backend(self, span: Span) -> None:
        self._length += len(span.text)
        self._end_text(cut_off=False)
        self._join(span)

    def _native_call(self, place: int, call: Json) -> None:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        number = call.get("index", place)
        made = self._native.get(number)
        name, arguments = function.get("name"), function.get("arguments")
        if made is None:
            made = CallMade(name if isinstance(name, str) else "", "", whole=False)
        if arguments is not None and not isinstance(arguments, str):
            arguments = orjson.dumps(arguments).decode()
        index = list(self._native).index(number) if number in self._native else len(self._native)
        if isinstance(name, str) and name:
            self._backend(Span("name", name, None, index, {"by the backend": 1}))
        if arguments:
            self._backend(Span("arguments", arguments, None, index, {"by the backend": 1}))
        self._native[number] = CallMade(made.name or name or "", made.arguments + (arguments or ""), whole=True)

    def _join(self, span: Span) -> None:
        last = self._spans[-1] if self._spans else None
        if last is not None and (last.kind, last.call, last.events.keys()) == (
            span.kind,
            span.call,
            span.events.keys(),
        ):
            last.text += span.text
            last.events = {name: number + last.events[name] for name, number in span.events.items()}
        else:
            self._spans.append(span)

    def _end_text(self, *, cut_off: bool, goes_on: bool = False) -> None:
        if self._text is None:
            return
        if not goes_on:
            self._text.close(cut_off=cut_off)
        self._spans += self._text.so_far()
        self._events += self._text.events
        self._text = None

    def result(self, *, ended: bool) -> Written:
        done, spec = self._written, self._spec
        over = ended or done.finish_reason is not None
        cut_off = done.finish_reason in CUT_OFF
        self._end_text(cut_off=cut_off, goes_on=not over)
        done.spans = self._spans
        done.repairs = repairs(done.spans) if not spec.native or spec.repair else []
        events = UnescapedEvents(spec.openers).take(self._events) if spec.openers else self._events
        done.calls = [*_made(events), *self._native.values()]
        checker = ArgumentChecker(spec.callable_tools)
        for place, call in enumerate(done.calls):
            open_still = place == len(done.calls) - 1 and (cut_off or done.finish_reason is None)
            found = None if open_still else checker.violation(call.name, call.arguments)
            if found is not None:
                done.calls[place] = CallMade(call.name, call.arguments, call.whole, found.message)
                done.violations.append(found.message)
        if over and spec.required_tool is not None and not done.calls and not cut_off:
            done.violations.append(f"The request demands a call, and the model made none ({MISSING_CALL}).")
        return done


def _made(events: Iterable[Event]) -> list[CallMade]:
    made: list[CallMade] = []
    for event in events:
        match event:
            case CallStart(_, name):
                made.append(CallMade(name, "", whole=False))
            case ArgumentsDelta(_, json):
                made[-1] = CallMade(made[-1].name, made[-1].arguments + json, whole=False)
            case CallEnd(_, whole):
                made[-1] = CallMade(made[-1].name, made[-1].arguments, whole=whole)
    return made

"""What each character of a model's output became: the parser's events, laid under the text that they came of.

The parser says what an output means and not where it stood. But what it says is the same in any cut, so it is fed one
character at a time here, and what it says then came of the characters since it last said something. Where what it said
stands among them, that is its place; what stands before is markup. So all spans together are the whole output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Parser, Reasoning, Text

SpanKind: TypeAlias = Literal["marker", "content", "reasoning", "name", "arguments"]

Notation: TypeAlias = Literal["json", "other", "either"]
"""How a format's arguments are written; where it is either, the first of a call's arguments tells."""

FINE = 64 * 1024
"""Characters of an output that are looked at one by one; of what is longer the rest in pieces,"""
_COARSE = 16
"""of so many, with as many characters' doubt about where a marker ends."""


@dataclass(slots=True)
class Span:
    """A stretch of the output that became one thing."""

    kind: SpanKind
    text: str
    out: str | None = None
    """What it became, where that isn't its text."""
    call: int | None = None
    """The number of the call that it is part of."""
    events: dict[str, int] = field(default_factory=dict)
    """What the parser said of it, by the name of the event: how often."""


class SpanReader:
    """Reads one output: `feed` its text in pieces, then `close`."""

    def __init__(self, parser: Parser, notation: Notation = "json") -> None:
        self._parser = parser
        self._notation = notation
        self._between: SpanKind = "arguments"
        """What that is which stands between the values of arguments: markup, unless they are JSON."""
        self._pending = ""
        self._read = 0
        self._call: int | None = None
        self._in_arguments = False
        self.spans: list[Span] = []
        self.events: list[Event] = []
        """All that the parser has said."""

    def feed(self, text: str) -> None:
        fine = max(FINE - self._read, 0)
        self._read += len(text)
        for character in text[:fine]:
            self._pending += character
            self._take(self._parser.feed(character))
        for at in range(fine, len(text), _COARSE):
            piece = text[at : at + _COARSE]
            self._pending += piece
            self._take(self._parser.feed(piece))

    def close(self, *, cut_off: bool = False) -> None:
        """The output has ended."""
        self._take(self._parser.close(cut_off=cut_off))
        self._rest()

    def so_far(self) -> list[Span]:
        """The spans of an output that goes on; what isn't decided yet is the last one, if there is any."""
        undecided = [Span("marker", self._pending)] if self._pending else []
        return [*self.spans, *undecided]

    def _take(self, events: list[Event]) -> None:
        self.events += events
        for event in events:
            match event:
                case Text(text):
                    self._found(event, "content", text)
                case Reasoning(text):
                    self._found(event, "reasoning", text)
                case CallStart(index, name):
                    self._call, self._in_arguments = index, False
                    self._named(event, name)
                case ArgumentsDelta(_, json):
                    self._arguments(event, json)
                case CallEnd():
                    self._said(event)
                    self._call, self._in_arguments = None, False

    def _found(self, event: Event, kind: SpanKind, text: str) -> None:
        at = self._pending.find(text)
        if at < 0:  # it was changed on the way, as where control tokens are taken out of it
            self._span(kind, self._pending, text, event)
            self._pending = ""
            return
        self._marker(at)
        self._span(kind, text, None, event)
        self._pending = self._pending[len(text) :]

    def _named(self, event: Event, name: str) -> None:
        places = list(re.finditer(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", self._pending)) if name else []
        at = places[-1].start() if places else self._pending.rfind(name)
        if at < 0 or not name:
            self._marker(len(self._pending))
            self._said(event)
            return
        self._marker(at)
        self._span("name", name, None, event)
        self._pending = self._pending[len(name) :]

    def _arguments(self, event: Event, json: str) -> None:
        if not self._in_arguments and self._stood_before_name(json):
            self._in_arguments = True
            return
        at = self._pending.find(json)
        common = len(json) if at >= 0 else _common_end(self._pending, json)
        if not self._in_arguments:
            is_json = self._notation == "json" or (self._notation == "either" and at >= 0)
            self._between = "arguments" if is_json else "marker"
        if at < 0:
            at = len(self._pending) - common
        if not self._in_arguments and common == len(json):
            self._marker(at)
        elif at or common < len(json):
            self._span(self._between, self._pending[:at], json[: len(json) - common], event)
            self._pending = self._pending[at:]
            event = ArgumentsDelta(event.index, "") if isinstance(event, ArgumentsDelta) else event
        if common:
            self._span("arguments", json[len(json) - common :], None, event)
            self._pending = self._pending[common:]
        self._in_arguments = True

    def _stood_before_name(self, json: str) -> bool:
        """Whether these arguments came before the name of their tool, where they were taken for markup."""
        if len(self.spans) < 2 or json in self._pending or len(json) < 2:
            return False
        before, name = self.spans[-2:]
        if before.kind != "marker" or name.kind != "name" or (at := before.text.find(json)) < 0:
            return False
        behind = before.text[at + len(json) :]
        before.text = before.text[:at]
        self.spans[-1:] = [
            Span("arguments", json, None, self._call, {_NAMES[ArgumentsDelta]: 1}),
            *([Span("marker", behind, None, self._call)] if behind else []),
            name,
        ]
        return True

    def _marker(self, length: int) -> None:
        """So much of what is pending means nothing by itself."""
        if length:
            self._span("marker", self._pending[:length], None, None)
            self._pending = self._pending[length:]

    def _rest(self) -> None:
        self._marker(len(self._pending))

    def _span(self, kind: SpanKind, text: str, out: str | None, event: Event | None) -> None:
        call = self._call if kind != "content" and kind != "reasoning" else None
        last = self.spans[-1] if self.spans else None
        if last is None or (last.kind, last.call) != (kind, call) or last.out is not None or out is not None:
            self.spans.append(last := Span(kind, "", out, call))
        last.text += text
        if event is not None:
            _count(last, event)

    def _said(self, event: Event) -> None:
        """An event that no text stands for belongs to the last that was read."""
        if self.spans:
            _count(self.spans[-1], event)


_NAMES = {
    Text: "text",
    Reasoning: "reasoning",
    CallStart: "call start",
    ArgumentsDelta: "arguments",
    CallEnd: "call end",
}


def _count(span: Span, event: Event) -> None:
    name = _NAMES[type(event)]
    if isinstance(event, CallEnd) and not event.whole:
        name = "call end, unfinished"
    if isinstance(event, ArgumentsDelta) and not event.json:
        return  # it was counted with its other half
    span.events[name] = span.events.get(name, 0) + 1


def _common_end(one: str, other: str) -> int:
    """How many characters both end with."""
    length = 0
    while length < min(len(one), len(other)) and one[-1 - length] == other[-1 - length]:
        length += 1
    return length

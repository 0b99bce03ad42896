"""The parser of this package as the judge takes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from extproc.corpus.judging import Delta, Given
from extproc.toolcalls import ArgumentsDelta, CallStart, Event, Parser, Reasoning, Text


def extproc_parser(given: Given) -> Iterator[Delta]:
    """The parser of this package."""
    parser = Parser(format=given.format, tools=given.tools, reasoning="open" if given.prompt_opens_thinking else None)
    for piece in given.pieces:
        yield from _deltas(parser.feed(piece))
    yield from _deltas(parser.close())


def _deltas(events: Iterable[Event]) -> Iterator[Delta]:
    for event in events:
        match event:
            case Text(text):
                yield {"content": text}
            case Reasoning(text):
                yield {"reasoning": text}
            case CallStart(index, name):
                yield _call_delta(index, {"name": name})
            case ArgumentsDelta(index, json):
                yield _call_delta(index, {"arguments": json})


def _call_delta(index: int, function: dict[str, Any]) -> Delta:
    return {"tool_calls": [{"index": index, "function": function}]}

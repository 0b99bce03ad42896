"""Parsers as the judge takes them: ours, and whichever a name says."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

from extproc.corpus.judging import Delta, Given, ParserUnderTest
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


def named_parser(name: str) -> ParserUnderTest:
    """The parser that `extproc`, or `MODULE:FUNCTION`, names. ValueError when there is none."""
    if name == "extproc":
        return extproc_parser
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise ValueError(f"{name!r} is no MODULE:FUNCTION")
    try:
        found: ParserUnderTest = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"no parser {name}: {error}") from error
    if not callable(found):
        raise ValueError(f"{name} can't be called")
    return found

"""Which formats a call in a text may be written in: those whose parser reads it.

Formats are tolerant of one another, so a call of one is often read by several. What tells them apart is the whole set
of readers: a text is written in the format whose own example the same formats read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeAlias

from extproc.toolcalls import NAMED, Call, entry, get_format, parse
from extproc.toolcalls.table import Prose

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Name of the city"}},
            "required": ["city"],
        },
    },
}
"""The tool of the formats' examples, which is also the one that servers are offered."""

Tools: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Definitions, by name."""

_OF_EXAMPLES: Tools = {"get_weather": WEATHER}
_WITHOUT_MARKUP = "json"
"""The format that reads blocks of code and bare objects, and nothing else."""
_COMMON = ("hermes", "qwen3_coder", "glm45", "llama3_json", "deepseek_v31", "mistral")
"""What is assumed first where formats look the same."""


CITY = "Paris"
"""What the formats' examples call it with."""


def readers(text: str, tools: Tools = _OF_EXAMPLES, *, exactly: bool = False) -> frozenset[str]:
    """The formats that read calls of these tools in the text; `exactly` also wants them to say the city as it is.

    Of those, the ones that read most calls, and leave the least of it as text: one that takes markup for text has only
    seen through it.
    """
    scores = {one.name: _score(one.name, text, tools, exactly) for one in NAMED}
    best = max((score for score in scores.values() if score is not None), default=None)
    return frozenset(name for name, score in scores.items() if score is not None and score == best)


def written_in(
    text: str, tools: Tools = _OF_EXAMPLES, *, expected: str | None = None, exactly: bool = False
) -> str | None:
    """The format that a call in the text is written in, `expected` if that can be; None when there is no call."""
    found = readers(text, tools, exactly=exactly)
    alike = sorted(name for name in found if _readers_of_example(name, exactly) == found) or sorted(found)
    for name in (expected, *_COMMON, *alike):
        if name in alike:
            return name
    return None


def has_markup(text: str) -> bool:
    """Whether a call in the text stands in some format's markup, and not bare or in a block of code."""
    found = readers(text)
    return bool(found) and (_WITHOUT_MARKUP not in found or any(tag in text for tag in _tags()))


@cache
def _tags() -> frozenset[str]:
    """Those that the format without markup takes off a call: its models slip."""
    rules = get_format(_WITHOUT_MARKUP).states.values()
    return frozenset(
        marker for state in rules if isinstance(state, Prose) for marker in state.transitions if marker.startswith("<")
    )


def needs_markup(format_: str) -> bool:
    """Whether calls in this format are more than a bare object."""
    return has_markup(entry(format_).example)


@cache
def _readers_of_example(name: str, exactly: bool) -> frozenset[str]:
    return readers(entry(name).example, exactly=exactly)


def _score(format_: str, text: str, tools: Tools, exactly: bool) -> tuple[int, int] | None:
    """How many calls a format reads, and minus how many characters aren't part of them, blanks apart; None when it
    reads none, or one that can't be meant."""
    parsed = parse(text, format=format_, tools=tools)
    if not parsed.calls or not all(_can_be_meant(call, tools, exactly) for call in parsed.calls):
        return None
    return len(parsed.calls), -len("".join(f"{parsed.content or ''}{parsed.reasoning or ''}".split()))


def _can_be_meant(call: Call, tools: Tools, exactly: bool) -> bool:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        return False
    said = isinstance(arguments, dict) and (not exactly or arguments.get("city") == CITY)
    return said and call.name in tools

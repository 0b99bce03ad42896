"""Which formats a call in a text may be written in: those whose parser reads it.

Formats are tolerant of one another, so a call of one is often read by several. What tells them apart is the whole set
of readers: a text is written in the format whose own example the same formats read.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from extproc.toolcalls import NAMED, entry, get_format, parse
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

_WITHOUT_MARKUP = "json"
"""The format that reads blocks of code and bare objects, and nothing else."""
_COMMON = ("hermes", "qwen3_coder", "glm45", "llama3_json", "deepseek_v31", "mistral")
"""What is assumed first where formats look the same."""


CITY = "Paris"
"""What the formats' examples call it with."""


def readers(text: str, *, exactly: bool = False) -> frozenset[str]:
    """The formats that read one call of the tool in the text; `exactly` also wants it to say the city as it is.

    Of those, the ones that leave the least of it as text: one that takes markup for text has only seen through it.
    """
    left = {one.name: _left(one.name, text, exactly) for one in NAMED}
    least = min((length for length in left.values() if length is not None), default=None)
    return frozenset(name for name, length in left.items() if length is not None and length == least)


def written_in(text: str, *, expected: str | None = None, exactly: bool = False) -> str | None:
    """The format that a call in the text is written in, `expected` if that can be; None when there is no call."""
    found = readers(text, exactly=exactly)
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


def _left(format_: str, text: str, exactly: bool) -> int | None:
    """How many characters aren't part of the call, blanks apart; None when the format reads no such call in it."""
    parsed = parse(text, format=format_, tools=[WEATHER])
    if len(parsed.calls) != 1 or parsed.calls[0].name != WEATHER["function"]["name"]:
        return None
    try:
        arguments = json.loads(parsed.calls[0].arguments)
    except ValueError:
        return None
    if not isinstance(arguments, dict) or (exactly and arguments.get("city") != CITY):
        return None
    return len("".join(f"{parsed.content or ''}{parsed.reasoning or ''}".split()))

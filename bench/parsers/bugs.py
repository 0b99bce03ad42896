"""Bugs that judging found, each as the least text that shows it: bugs.json, and what came of it when it was last run.

`python -m bench.parsers NAME --bugs` runs those of one project again, `--bug ID` a single one. `version` is the
project's when it was last run. What is right follows from the format's source.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from extproc.corpus import Given, ParserUnderTest, same
from extproc.corpus.judging import joined

FILE = Path(__file__).with_name("bugs.json")

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}
    for name, properties in {
        "get_weather": {"city": {"type": "string"}, "unit": {"type": "string"}, "days": {"type": "integer"}},
        "get_time": {},
        "note": {"text": {"type": "string"}, "place": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }.items()
]
"""What is offered with each of the texts."""


def read() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def run(parser: ParserUnderTest, bug: dict[str, Any]) -> dict[str, Any]:
    """What comes of it: content, reasoning and calls, or what was raised."""
    given = Given(_pieces(bug["text"], bug["way"]), bug["format"], TOOLS, bug.get("prompt_opens_thinking", False))
    try:
        came = joined(parser(given))
    except Exception as error:
        return {"error": str(error)[:200]}
    return {"content": came.content, "reasoning": came.reasoning, "calls": [list(call) for call in came.calls]}


def is_right(came: dict[str, Any], right: dict[str, Any]) -> bool:
    """White space apart, and arguments as values."""
    if "error" in came or any(came[part].strip() != right[part].strip() for part in ("content", "reasoning")):
        return False
    calls = [(name, _value(arguments)) for name, arguments in came["calls"]]
    return same([list(call) for call in calls], right["calls"])


def rerun(parser: ParserUnderTest, ids: Collection[str], version: str) -> list[dict[str, Any]]:
    """All bugs, those of these ids with what comes of them now, in this version."""
    return [{**bug, "came": run(parser, bug), "version": version} if bug["id"] in ids else bug for bug in read()]


def write(bugs: Sequence[dict[str, Any]]) -> None:
    FILE.write_text(json.dumps(bugs, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _pieces(text: str, way: str | int) -> list[str]:
    size = {"whole": len(text), "streamed": 1}[way] if isinstance(way, str) else way
    return [text[at : at + size] for at in range(0, len(text), size)]


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None

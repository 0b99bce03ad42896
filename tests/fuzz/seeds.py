"""What is mutated: samples of every format, and the literals of its markup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from extproc.toolcalls import FORMATS, NAMED, get_format
from extproc.toolcalls.table import Body
from tests.format_writers import WRITERS, Call, Output, Place, Writer
from tests.fuzz.inputs import Input, Tools
from tests.sample_rows import SAMPLES, rows

LONGEST = 400
"""Characters of a sample. What is wrong is wrong in a short one too, and short ones are read fast."""


def _tool(name: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


_STRING = {"type": "string"}
TOOLS: Tools = (
    _tool("get_weather", city=_STRING, days={"type": "integer"}),
    _tool(
        "f",
        text=_STRING,
        flag={"type": "boolean"},
        free={"type": "object"},
        any={},
        nullable={"type": ["string", "null"]},
    ),
    _tool(
        "write_file",
        path=_STRING,
        text=_STRING,
        ratio={"type": "number"},
        list={"type": "array", "items": _STRING},
        place={"type": "object", "properties": {"city": _STRING, "zip": {"type": "integer"}}},
    ),
    _tool("n"),
)

_ARGUMENTS: tuple[dict[str, Any], ...] = (
    {"city": "Paris", "days": 3},
    {},
    {"text": "a \"b\" 'c' \\ <d>\n{e}", "flag": True, "free": {"k": [1, None, "x"]}, "any": 1.5, "nullable": None},
    {"path": "a/b.py", "text": "if (a < b) {\n\treturn [0];\n}", "ratio": 1.0, "list": ["x", "y"]},
    {"place": {"city": "Bonn", "zip": 4}, "list": []},
)
_CALLS = tuple(
    Call(name, arguments, number)
    for number, (name, arguments) in enumerate(
        zip(("get_weather", "n", "f", "write_file", "write_file"), _ARGUMENTS, strict=True)
    )
)


def _written(writer: Writer) -> Iterator[Input]:
    """A few outputs of every kind, as this family of models writes them."""
    said = dict(zip(Place, ("Let me see.", "And then:", "Done, I think."), strict=True))
    before, between, after = (said[place] if place in writer.places else "" for place in Place)
    thought = "I need `f` for {this}." if writer.thinks else ""
    groups = [_CALLS[:1], _CALLS[1:2], _CALLS[2:3], _CALLS[3:4], _CALLS[4:5], _CALLS[:2], _CALLS[1:4], ()]
    for calls in groups:
        calls = calls[: writer.most_calls]
        for output in (
            Output(calls=calls),
            Output(calls=calls, before=before, after=after, reasoning=thought),
            Output(calls=calls, between=between if len(calls) > 1 else "", compact=True, ascii_only=True),
            Output(calls=calls, reasoning=thought, thinking_is_open=bool(thought)),
        ):
            yield Input(get_format(writer.format).name, writer.write(output), TOOLS, output.thinking_is_open)


def _samples() -> Iterator[Input]:
    for row in (row for file in sorted(SAMPLES.rglob("*.jsonl")) for row in rows(file)):
        # Answers without a call in any format have none (`samples/answers.jsonl`).
        for format_ in (row["format"],) if "format" in row else ("hermes", "json"):
            yield Input(get_format(format_).name, row["text"], tuple(row.get("tools") or ()))
    for writer in WRITERS:
        yield from _written(writer)
    for named in NAMED:
        format_ = get_format(named.name).name
        yield Input(format_, named.example, TOOLS)
        if named.syntax:
            calls = [(call.name, json.dumps(call.arguments)) for call in _CALLS]
            yield Input(format_, named.syntax.write(calls[:1]), TOOLS)
            yield Input(format_, "Here.\n" + named.syntax.write(calls[1:3]), TOOLS)


@cache
def samples() -> dict[str, tuple[Input, ...]]:
    """The short ones of every format, each once."""
    found: dict[str, dict[tuple[str, bool], Input]] = {format_.name: {} for format_ in FORMATS}
    for sample in _samples():
        if sample.text and len(sample.text) <= LONGEST:
            found[sample.format].setdefault((sample.text, sample.thinking), sample)
    return {name: tuple(inputs.values()) for name, inputs in found.items()}


_TAG = re.compile(r"<[^<>\n]{1,40}>|\[/?[A-Z_]{3,}\]")


@cache
def markup() -> dict[str, tuple[str, ...]]:
    """The literals of every format: from the parser's tables, the writers' and what is said to be written."""
    found: dict[str, set[str]] = {}
    for format_ in FORMATS:
        literals = found[format_.name] = set()
        for rules in format_.states.values():
            if not isinstance(rules, Body):
                literals.update(rules.transitions)
    for named in NAMED:
        literals = found[get_format(named.name).name]
        literals.update(_TAG.findall(named.example), named.syntax.markup if named.syntax else ())
    for writer in WRITERS:
        found[get_format(writer.format).name].update(writer.markup)
    return {name: tuple(sorted(literals)) for name, literals in found.items()}

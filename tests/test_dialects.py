"""What a model says is the same in every dialect: the same calls, text and reasoning, whole and in every cut."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import orjson
import pytest

from extproc.surfaces import SURFACES, rewrite_completion, streamed_answer
from extproc.toolcalls import Parsed, parse
from extproc.turn.spec import ResponseSpec
from extproc.turn.turn import Dialect
from tests.messages import message_of, said_in, whole_message
from tests.responses import response_calls, response_of, response_text
from tests.sample_rows import SAMPLES, Row, mostly_long, reasoning_of, rows
from tests.test_answer import chunks_of, completion, stream

ROWS = [row for file in sorted((SAMPLES / "formats").glob("*.jsonl")) for row in rows(file)]
SIZES = (3, 1 << 20)
"""Characters in a chunk; the parser's own tests cut in every way."""


class Heard(NamedTuple):
    """What a client has of an answer."""

    calls: list[tuple[str, Any]]
    text: str
    reasoning: str


def spec_of(row: Row, dialect: Dialect) -> ResponseSpec:
    return ResponseSpec(
        format=row["format"],
        tools=row.get("tools") or [],
        parallel_tool_calls=True,
        include_usage=False,
        thinking=reasoning_of(row),
        dialect=dialect,
    )


def meant(row: Row) -> Heard:
    said: Parsed = parse(row["text"], format=row["format"], tools=row.get("tools"), reasoning=reasoning_of(row))
    calls = [(call.name, json.loads(call.arguments)) for call in said.calls]
    return Heard(calls, said.content or "", said.reasoning or "")


def of_chat_message(message: dict[str, Any]) -> Heard:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    read = [(call["name"], json.loads(call["arguments"])) for call in calls]
    return Heard(read, message.get("content") or "", message.get("reasoning") or "")


def of_chat_stream(data: bytes) -> Heard:
    text, reasoning = "", ""
    calls: list[list[str]] = []
    for chunk in chunks_of(data):
        for choice in chunk["choices"]:
            delta = choice["delta"]
            text += delta.get("content") or ""
            reasoning += delta.get("reasoning") or ""
            for call in delta.get("tool_calls") or ():
                if "id" in call:
                    calls.append([call["function"]["name"], ""])
                calls[call["index"]][1] += call["function"]["arguments"]
    return Heard([(name, json.loads(arguments)) for name, arguments in calls], text, reasoning)


def of_message(message: dict[str, Any]) -> Heard:
    calls = [(block["name"], block["input"]) for block in message["content"] if block["type"] == "tool_use"]
    return Heard(calls, said_in(message, "text"), said_in(message, "thinking"))


def of_response(response: dict[str, Any]) -> Heard:
    return Heard(response_calls(response), response_text(response), response_text(response, "reasoning"))


def of_whole(dialect: Dialect, body: bytes) -> Heard:
    match dialect:
        case "chat":
            return of_chat_message(orjson.loads(body)["choices"][0]["message"])
        case "messages":
            return of_message(whole_message(body))
        case "responses":
            return of_response(orjson.loads(body))


def of_stream(dialect: Dialect, data: bytes) -> Heard:
    match dialect:
        case "chat":
            return of_chat_stream(data)
        case "messages":
            return of_message(message_of(data))
        case "responses":
            return of_response(response_of(data, published=False))


def readable(row: Row) -> bool:
    """Whether all its calls have arguments that every dialect can say: objects."""
    try:
        said = meant(row).calls
        return all(isinstance(arguments, dict) and "NaN" not in json.dumps(arguments) for _, arguments in said)
    except ValueError:
        return False


READABLE = [row for row in ROWS if readable(row)]


def test_nearly_all_samples_are_readable() -> None:
    assert len(READABLE) > 0.9 * len(ROWS)


@pytest.mark.parametrize("row", mostly_long(READABLE))
def test_every_dialect_says_the_same(row: Row) -> None:
    expected = meant(row)
    for dialect in SURFACES:
        spec = spec_of(row, dialect)
        body = rewrite_completion(completion(row["text"]), spec).body
        assert of_whole(dialect, body) == expected, dialect
        for size in SIZES:
            answer = streamed_answer(spec)
            pieces = [row["text"][at : at + size] for at in range(0, len(row["text"]), size)]
            data = answer.feed(stream(pieces)) + answer.close()
            assert of_stream(dialect, data) == expected, (dialect, size)

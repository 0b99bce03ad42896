"""What is said of a turn of a real model is tried out with a scripted one: no vLLM is needed here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from extproc.recording.difference import streamed_piece
from scripted_vllm import Fail, Reply
from tests.real_vllm.turns import Turn
from tests.test_recording import Recorded, recording_gateway

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
INSIDE_A_LINE = 'It is {"name": "get_weather", "arguments": {"city": "Paris"}} that I mean.'
TOO_LONG = Fail(400, message="This model's maximum context length is 4096 tokens. Please reduce the length.")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    with recording_gateway(tmp_path_factory.mktemp("turns"), "files: 100") as recorded:
        yield recorded


def turn(recorded: Recorded, reply: Reply, **fields: Any) -> Turn:
    _, document = recorded.ask(reply, stream=True, **fields)
    return Turn(document)


def test_a_turn_tells_what_was_written_and_what_came_of_it(recorded: Recorded) -> None:
    told = turn(recorded, Reply(f"At once.\n{CALL}"))
    assert (told.ended, told.status, told.offered) == (True, 200, ["get_weather"])
    assert told.written == f"At once.\n{CALL}"
    assert (told.text.strip(), told.calls) == ("At once.", [("get_weather", '{"city": "Paris"}')])
    assert told.finish_reason == "tool_calls"
    assert (told.shown_objects, told.problems()) == ([], [])


def test_a_call_that_is_shown_as_text_is_a_problem(recorded: Recorded) -> None:
    told = turn(recorded, Reply(INSIDE_A_LINE))
    assert told.leaked_calls == [{"name": "get_weather", "arguments": {"city": "Paris"}}]
    assert told.problems() == [f"a call is shown as text: {told.leaked_calls[0]}"]


def test_a_full_context_is_no_problem(recorded: Recorded) -> None:
    told = turn(recorded, Reply(trouble=TOO_LONG))
    assert (told.status, told.error_code, told.problems()) == (400, "context_length_exceeded", [])


@pytest.mark.parametrize(
    ("reply", "fields", "problem"),
    [
        (Reply(trouble=Fail(500, message="Out of memory.")), {}, "an error with status 500: None"),
        (Reply("Hello."), {"temperature": 77}, "an error with status 400: decimal_above_max_value"),
    ],
    ids=["the backend's", "the gateway's"],
)
def test_any_other_error_is_one(recorded: Recorded, reply: Reply, fields: dict[str, Any], problem: str) -> None:
    assert turn(recorded, reply, **fields).problems() == [problem]


@pytest.mark.parametrize(
    ("what", "instead"),
    [("data: [DONE]\n\n", ""), ('"finish_reason":"tool_calls"', '"finish_reason":"stop"'), ('"index":0', '"index":-1')],
    ids=["no end", "another reason", "another shape"],
)
def test_a_stream_that_the_protocol_does_not_know_is_a_problem(recorded: Recorded, what: str, instead: str) -> None:
    document = turn(recorded, Reply(CALL)).document
    whole = json.dumps([entry.what for entry in document.entries])
    damaged = json.loads(whole.replace(_inner(what), _inner(instead)))
    entries = tuple(
        replace(entry, what=other) if streamed_piece(entry) is not None else entry
        for entry, other in zip(document.entries, damaged, strict=True)
    )
    assert entries != document.entries
    problems = Turn(replace(document, entries=entries)).problems()
    assert [problem for problem in problems if not problem.startswith("byte by byte")]


def _inner(text: str) -> str:
    """A text as it stands inside of a JSON string."""
    return json.dumps(text)[1:-1]

"""What is said of the turns of Codex and Claude Code is tried out with a scripted model: no vLLM is needed here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from extproc.recording.difference import streamed_piece
from extproc.recording.document import Document
from scripted_vllm import Fail, Reply
from tests.clients.sandbox import Finished
from tests.real_vllm.agent_clients import AGENTS
from tests.real_vllm.agent_turns import AgentTurn
from tests.real_vllm.turns import Turn
from tests.test_recording import Recorded, recording_gateway

MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
SCHEMA = {"type": "object"}
ASKING: dict[str, dict[str, Any]] = {
    MESSAGES: {
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "Weather?"}],
        "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
    },
    RESPONSES: {
        "input": "Weather?",
        "tools": [{"type": "function", "name": "get_weather", "parameters": SCHEMA}],
    },
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
TOO_LONG = Fail(400, message="This model's maximum context length is 4096 tokens. Please reduce the length.")
both = pytest.mark.parametrize("path", ASKING, ids=["messages", "responses"])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    with recording_gateway(tmp_path_factory.mktemp("agent-turns"), "files: 100") as recorded:
        yield recorded


def turn(recorded: Recorded, path: str, reply: Reply, **fields: Any) -> AgentTurn:
    recorded.backend.play(reply)
    before = len(recorded.files())
    asking = {"model": "coder", "stream": True, **ASKING[path], **fields}
    recorded.gateway.http.post(f"{path}?beta=true", json=asking)
    return AgentTurn(Turn(Document.read(recorded.next_file(before).read_bytes())))


@both
def test_a_turn_tells_what_was_written_and_what_came_of_it(recorded: Recorded, path: str) -> None:
    told = turn(recorded, path, Reply(f"At once.\n{CALL}"))
    assert (told.path, told.ended, told.is_cut_off) == (path, True, False)
    assert told.written == f"At once.\n{CALL}"
    assert (told.got.text.strip(), told.got.calls) == ("At once.", [("get_weather", '{"city": "Paris"}')])
    assert (told.shown_objects, told.problems()) == ([], [])


@both
def test_a_call_that_was_cut_off_is_no_problem(recorded: Recorded, path: str) -> None:
    told = turn(recorded, path, Reply(CALL[: CALL.index("ris")], finish_reason="length"))
    assert told.got.calls == [("get_weather", '{"city": "Pa')]
    assert (told.ended, told.is_cut_off, told.problems()) == (True, True, [])


@both
def test_a_call_that_is_shown_as_text_is_a_problem(recorded: Recorded, path: str) -> None:
    told = turn(recorded, path, Reply('It is {"name": "get_weather", "arguments": {"city": "Paris"}} that I mean.'))
    [problem] = told.problems()
    assert problem.startswith("a call is shown as text: {'name': 'get_weather'")


@both
def test_a_full_context_is_no_problem_but_any_other_error_is(recorded: Recorded, path: str) -> None:
    assert turn(recorded, path, Reply(trouble=TOO_LONG)).problems() == []
    [problem] = turn(recorded, path, Reply(trouble=Fail(500, message="Out of memory."))).problems()
    assert problem.startswith("status 500: ")


@both
def test_a_request_for_no_stream_is_told(recorded: Recorded, path: str) -> None:
    [problem] = turn(recorded, path, Reply(CALL), stream=False).problems()
    assert problem == f"not a request for a stream of Messages or Responses: {path}"


@pytest.mark.parametrize(
    ("path", "what", "instead"),
    [
        (MESSAGES, '"stop_reason":"tool_use"', '"stop_reason":"end_turn"'),
        (MESSAGES, '"index":0', '"index":7'),
        (MESSAGES, "event: content_block_stop", "event: message_stop"),
        (RESPONSES, '"sequence_number":3', '"sequence_number":4'),
        (RESPONSES, '"output_index":0', '"output_index":1'),
        (RESPONSES, "event: response.output_item.done", "event: response.completed"),
        (RESPONSES, '"status":"completed"', '"status":"finished"'),
    ],
)
def test_a_stream_that_the_dialect_does_not_know_is_a_problem(
    recorded: Recorded, path: str, what: str, instead: str
) -> None:
    whole = turn(recorded, path, Reply(CALL)).recorded.document
    damaged = json.loads(json.dumps([entry.what for entry in whole.entries]).replace(_inner(what), _inner(instead)))
    entries = tuple(
        replace(entry, what=other) if streamed_piece(entry) is not None else entry
        for entry, other in zip(whole.entries, damaged, strict=True)
    )
    assert entries != whole.entries
    first, second = AgentTurn(Turn(replace(whole, entries=entries))).problems()
    assert first.startswith(f"not a stream of {path}: ")
    assert second.startswith("byte by byte it is another answer: ")


def _inner(text: str) -> str:
    """A text as it stands inside of a JSON string."""
    return json.dumps(text)[1:-1]


# What the clients say themselves


@pytest.mark.parametrize(
    ("name", "line", "errors"),
    [
        ("codex", {"type": "error", "message": "stream disconnected before completion"}, 1),
        ("codex", {"type": "turn.failed", "error": {"message": "no such event"}}, 1),
        ("codex", {"type": "item.completed", "item": {"type": "error", "message": "Model metadata for `x`"}}, 0),
        ("codex", {"type": "item.completed", "item": {"type": "agent_message", "text": "error"}}, 0),
        ("claude-code", {"type": "result", "is_error": True, "subtype": "success", "result": "API Error"}, 1),
        ("claude-code", {"type": "result", "is_error": True, "subtype": "x", "result": "Prompt is too long"}, 0),
        ("claude-code", {"type": "system", "subtype": "api_retry", "attempt": 1}, 1),
        ("claude-code", {"type": "result", "is_error": False, "subtype": "success", "result": "Done."}, 0),
    ],
)
def test_errors_that_a_client_tells_of_are_found(name: str, line: dict[str, Any], errors: int) -> None:
    finished = Finished(0, f"{json.dumps(line)}\n", "", 1.0)
    assert len(AGENTS[name].errors(finished)) == errors

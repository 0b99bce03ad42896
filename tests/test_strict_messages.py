"""The client that tests of Messages read answers with is a strict one: what isn't published is noticed."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from tests.messages import counted, error_in, events_of, listed_models, whole_message

EVENT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "coder",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1, "estimated": True},
}
MODEL = {
    "type": "model",
    "id": "m",
    "display_name": "m",
    "created_at": "2026-01-01T00:00:00Z",
    "lifecycle": "active",
}
ABSENT = object()


def spoiled(good: dict[str, Any], path: list[str | int], value: Any) -> bytes:
    """With another value at a path, or without what is there."""
    bad: Any = copy.deepcopy(good)
    inner = bad
    for key in path[:-1]:
        inner = inner[key]
    if value is ABSENT:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return orjson.dumps(bad)


def event_of(data: bytes) -> None:
    events_of(b"event: content_block_start\ndata: " + data + b"\n\n")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["index"], "0"),
        (["index"], ABSENT),
        (["number"], 1),
        (["content_block", "text"], ABSENT),
        (["content_block", "words"], "x"),
        (["content_block", "type"], "words"),
    ],
)
def test_events(path: list[str | int], value: Any) -> None:
    event_of(orjson.dumps(EVENT))
    with pytest.raises(ValidationError):
        event_of(spoiled(EVENT, path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["created"], 1),
        (["model"], ABSENT),
        (["stop_reason"], "tool_calls"),
        (["content", 0, "index"], 0),
        (["usage", "input_tokens"], "1"),
        (["usage", "total_tokens"], 2),
        (["usage"], ABSENT),
    ],
)
def test_whole_answers(path: list[str | int], value: Any) -> None:
    assert whole_message(orjson.dumps(MESSAGE)) == MESSAGE
    with pytest.raises(ValidationError):
        whole_message(spoiled(MESSAGE, path, value))


@pytest.mark.parametrize("value", ["true", False, 1])
def test_the_mark_of_an_estimate_is_true_or_absent(value: object) -> None:
    with pytest.raises(AssertionError):
        whole_message(spoiled(MESSAGE, ["usage", "estimated"], value))


@pytest.mark.parametrize("body", [b"{}", b'{"input_tokens": "1"}', b'{"input_tokens": 1, "total": 1}'])
def test_counts(body: bytes) -> None:
    with pytest.raises(ValidationError):
        counted(body)


@pytest.mark.parametrize(
    "error", [{"type": "server_error", "message": "x"}, {"type": "api_error"}, {"type": "api_error", "message": 1}]
)
def test_errors(error: dict[str, Any]) -> None:
    assert error_in(b'{"type":"error","error":{"type":"request_too_large","message":"x"}}')["message"] == "x"
    with pytest.raises(ValidationError):
        error_in(orjson.dumps({"type": "error", "error": error}))
    with pytest.raises(ValidationError):
        error_in(orjson.dumps({"error": {"type": "api_error", "message": "x"}}))


@pytest.mark.parametrize(("field", "value"), [("lifecycle", ABSENT), ("object", "model"), ("created_at", "today")])
def test_models(field: str, value: object) -> None:
    def page(*models: bytes) -> bytes:
        return b'{"data":[%b],"has_more":false,"first_id":"m","last_id":"m"}' % b",".join(models)

    assert listed_models(page(orjson.dumps(MODEL))) == [MODEL]
    with pytest.raises(ValidationError):
        listed_models(page(spoiled(MODEL, [field], value)))

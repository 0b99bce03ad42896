"""Anthropic's dialect, seen by a strict client: its own published types, the grammar of a stream's events, and the
message that they build.

The types are those of Anthropic's library, which itself reads anything: here a field that they don't have, one that is
missing, and a number in a string are errors.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeAlias

from anthropic.types import ErrorResponse, Message, MessageTokensCount, ModelInfo, RawMessageStreamEvent
from pydantic import Field, TypeAdapter

Json: TypeAlias = dict[str, Any]

_EVENT: TypeAdapter[Any] = TypeAdapter(Annotated[RawMessageStreamEvent, Field(discriminator="type")])
_MESSAGE: TypeAdapter[Any] = TypeAdapter(Message)
_COUNT: TypeAdapter[Any] = TypeAdapter(MessageTokensCount)
_ERROR: TypeAdapter[Any] = TypeAdapter(ErrorResponse)
_MODELS: TypeAdapter[Any] = TypeAdapter(list[ModelInfo])
_TOO_LARGE = "request_too_large"
"""Anthropic's API reference has it ("errors", 413); the library has no type for it."""
_DELTAS = {
    "text": {"text_delta": "text"},
    "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
    "tool_use": {"input_json_delta": "partial_json"},
}


class NotAStreamError(AssertionError):
    """The events don't follow Anthropic's grammar."""


def whole_message(body: bytes) -> Json:
    """A whole answer. Raises pydantic's ValidationError if it isn't one as it is published."""
    message: Json = json.loads(body)
    _check_message(message)
    assert message["stop_reason"] is not None  # null only where a stream begins
    return message


def counted(body: bytes) -> int:
    """How many tokens an answer of `count_tokens` tells. Raises ValidationError."""
    count: int = _COUNT.validate_json(body, strict=True, extra="forbid").input_tokens
    return count


def error_in(body: bytes) -> Json:
    """The error that a whole answer is. Raises ValidationError."""
    told: Json = json.loads(body)
    _check_error(told)
    error: Json = told["error"]
    return error


def listed_models(body: bytes) -> list[Json]:
    """The models of a list that is one page. Raises ValidationError."""
    page: Json = json.loads(body)
    models: list[Json] = page.pop("data")
    _MODELS.validate_json(json.dumps(models), strict=True, extra="forbid")
    assert page == {"has_more": False, "first_id": models[0]["id"], "last_id": models[-1]["id"]}
    return models


def events_of(data: bytes) -> list[Json]:
    """The events of a stream, each of a line `event` and a line `data` that agree. Raises ValidationError."""
    events: list[Json] = []
    *blocks, rest = data.decode().split("\n\n")
    assert rest == ""
    for block in blocks:
        named, told = block.split("\n")
        event = json.loads(told.removeprefix("data: "))
        assert named == f"event: {event['type']}"
        _check_event(event)
        events.append(event)
    return events


def _check_event(event: Json) -> None:
    if event["type"] == "ping":  # the library drops it unread, and has no type for it
        assert event == {"type": "ping"}
    elif event["type"] == "error":
        _check_error(event)
    else:
        _EVENT.validate_python(_without_mark(event), strict=True, extra="forbid")


def _check_message(message: Json) -> None:
    _MESSAGE.validate_python(_without_mark(message), strict=True, extra="forbid")


def _check_error(told: Json) -> None:
    if told["error"]["type"] == _TOO_LARGE:
        told = {**told, "error": {**told["error"], "type": "invalid_request_error"}}
    _ERROR.validate_python(told, strict=True, extra="forbid")


def _without_mark(told: Json) -> Json:
    """Without `estimated`, the one field that is the gateway's own (docs/messages.md)."""
    if "estimated" not in told.get("usage", ()):
        return told
    usage = dict(told["usage"])
    assert usage.pop("estimated") is True
    return {**told, "usage": usage}


def message_of(data: bytes, *, parsed: bool = True) -> Json:
    """The message that a whole stream builds, as Anthropic's SDKs put it together.

    Raises NotAStreamError, and ValueError for a call's input that is no JSON; unless `parsed`, inputs stay the texts
    that came.
    """
    events = [event for event in events_of(data) if event["type"] != "ping"]
    if [event["type"] for event in events[-2:]] != ["message_delta", "message_stop"]:
        raise NotAStreamError(events[-1])
    start, *between, delta, _ = events
    if start["type"] != "message_start" or start["message"]["content"] or start["message"]["stop_reason"] is not None:
        raise NotAStreamError(start)
    message: Json = {**start["message"], **delta["delta"], "usage": delta["usage"]}
    content: list[Json] = []
    open_ = False
    for event in between:
        kind = event["type"]
        if kind == "content_block_start" and not open_ and event["index"] == len(content):
            content.append({**event["content_block"], "_json": ""})
            open_ = True
        elif kind == "content_block_delta" and open_ and event["index"] == len(content) - 1:
            _add(content[-1], event["delta"])
        elif kind == "content_block_stop" and open_ and event["index"] == len(content) - 1:
            open_ = False
        else:
            raise NotAStreamError(event)
    if open_:
        raise NotAStreamError("a block is open at the end")
    for block in content:
        arguments = block.pop("_json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(arguments) if parsed else arguments
    message["content"] = content
    if parsed:  # as published, an input is an object
        _check_message(message)
    return message


def _add(block: Json, delta: Json) -> None:
    field = _DELTAS[block["type"]].get(delta["type"])
    if field is None:
        raise NotAStreamError(delta)
    place = "_json" if field == "partial_json" else field
    block[place] += delta[field]


def calls_of(message: Json) -> list[tuple[str, Any]]:
    return [(block["name"], block["input"]) for block in message["content"] if block["type"] == "tool_use"]


def said_in(message: Json, kind: str) -> str:
    """All that the blocks of one type say."""
    return "".join(block[kind] for block in message["content"] if block["type"] == kind)

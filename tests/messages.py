"""Anthropic's dialect, seen by a strict client: the grammar of a stream's events, and the message that they build."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

_DELTAS = {
    "text": {"text_delta": "text"},
    "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
    "tool_use": {"input_json_delta": "partial_json"},
}


class NotAStreamError(AssertionError):
    """The events don't follow Anthropic's grammar."""


def events_of(data: bytes) -> list[Json]:
    """The events of a stream, each of a line `event` and a line `data` that agree."""
    events: list[Json] = []
    *blocks, rest = data.decode().split("\n\n")
    assert rest == ""
    for block in blocks:
        named, told = block.split("\n")
        event = json.loads(told.removeprefix("data: "))
        assert named == f"event: {event['type']}"
        events.append(event)
    return events


def message_of(data: bytes) -> Json:
    """The message that a whole stream builds, as Anthropic's SDKs put it together. Raises NotAStreamError."""
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
            block["input"] = json.loads(arguments)
    return {**message, "content": content}


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

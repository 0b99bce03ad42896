"""OpenAI's Responses, seen by a strict client: the order of a stream's events, and the response that they build."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

Json: TypeAlias = dict[str, Any]

_PUBLISHED: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
"""OpenAI's own types."""
_SAYS = {
    "output_text": ("response.output_text", "text"),
    "refusal": ("response.refusal", "refusal"),
    "reasoning_text": ("response.reasoning_text", "text"),
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
}


class NotAStreamError(AssertionError):
    """The events don't follow each other as they should."""


def events_of(data: bytes, *, published: bool = True) -> list[Json]:
    """The events of a stream: numbered, named as their data says, and, if `published`, as OpenAI's types have them."""
    events: list[Json] = []
    *blocks, rest = data.decode().split("\n\n")
    assert rest == ""
    for block in blocks:
        if block.startswith(":"):
            continue
        named, told = block.split("\n")
        text = told.removeprefix("data: ")
        event = json.loads(text)
        assert named == f"event: {event['type']}"
        assert event["sequence_number"] == len(events)
        assert not published or _PUBLISHED.validate_json(text).type == event["type"]
        events.append(event)
    return events


def response_of(data: bytes, *, published: bool = True) -> Json:
    """The response of a whole stream, which all its events have built. Raises NotAStreamError."""
    first, second, *between, last = events_of(data, published=published)
    if (first["type"], second["type"]) != ("response.created", "response.in_progress"):
        raise NotAStreamError(first)
    if last["type"] not in ("response.completed", "response.incomplete"):
        raise NotAStreamError(last)
    built: list[Json] = []
    while between:
        built.append(_item(between, len(built)))
    response: Json = last["response"]
    assert response["output"] == built
    assert response["id"] == first["response"]["id"]
    return response


def _item(events: list[Json], index: int) -> Json:
    """The next item of a stream, whose events are taken off the list."""
    added = events.pop(0)
    item = added.get("item")
    if added["type"] != "response.output_item.added" or added["output_index"] != index or item is None:
        raise NotAStreamError(added)
    kind = item["type"]
    if kind not in ("message", "reasoning", *_SAYS):  # a call that is said at once
        return _ended(events, item)
    in_parts = kind in ("message", "reasoning")
    if in_parts:
        part_added = events.pop(0)
        if part_added["type"] != "response.content_part.added" or part_added["content_index"] != 0:
            raise NotAStreamError(part_added)
        kind = part_added["part"]["type"]
    name, field = _SAYS[kind]
    said = ""
    while events and events[0]["type"] == f"{name}.delta":
        delta = events.pop(0)
        assert (delta["item_id"], delta["output_index"]) == (item["id"], index)
        said += delta["delta"]
    done = events.pop(0)
    if done["type"] != f"{name}.done" or done[field] != said:
        raise NotAStreamError(done)
    if in_parts and events.pop(0)["type"] != "response.content_part.done":
        raise NotAStreamError(item)
    return _ended(events, item)


def _ended(events: list[Json], item: Json) -> Json:
    ended = events.pop(0)
    if ended["type"] != "response.output_item.done" or ended["item"]["id"] != item["id"]:
        raise NotAStreamError(ended)
    return dict(ended["item"])


def response_calls(response: Json) -> list[tuple[str, Any]]:
    """Names and arguments; the input of a custom tool as it is."""
    return [
        (item["name"], json.loads(item["arguments"]) if item["type"] == "function_call" else item["input"])
        for item in response["output"]
        if item["type"] in ("function_call", "custom_tool_call")
    ]


def response_text(response: Json, kind: str = "message") -> str:
    """All that the items of one type say in words."""
    return "".join(part["text"] for item in response["output"] if item["type"] == kind for part in item["content"])

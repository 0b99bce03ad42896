"""The conversation of a Responses request, as the model is shown it.

Items stand one after the other where chat completions nest them: what an assistant thought, said and called between two
items of others is one message of the house's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from extproc.contract.history import ArgumentReader
from extproc.contract.json_body import encode
from extproc.surfaces.responses.content import CALLS, READ_MEMBERS, RESULTS, id_of_call, is_left_out, kind_of
from extproc.surfaces.responses.taught_tools import BY_CALL, BY_RESULT, TaughtTool, full_name
from extproc.surfaces.responses.tools import INPUT

Json: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class Conversation:
    """The house's messages, as they are put together."""

    messages: list[Json] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    """What of the input no backend gets: the types of items, and members of others."""
    repaired: int = 0
    """How many malformed arguments were repaired."""


def read_conversation(fields: Json, reader: ArgumentReader) -> Conversation:
    """Those of a valid request."""
    conversation = Conversation()
    system = [fields["instructions"]] if fields.get("instructions") else []
    items = fields["input"]
    messages: list[Json] = []
    answered = False
    call_ids: dict[Any, str] = {}
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        kind = kind_of(item)
        left_out = is_left_out(item, kind)
        if not left_out:
            conversation.left_out.update(name for name in item.keys() - READ_MEMBERS if item[name] not in (None, False))
        if left_out:
            conversation.left_out.add(kind)
        elif kind in BY_CALL:
            call_ids.setdefault(item.get("id"), item["call_id"])
            call_ids[item["call_id"]] = item["call_id"]
            answered = True
            _assistant(messages).setdefault("tool_calls", []).append(_read_taught_call(item, BY_CALL[kind]))
        elif kind in BY_RESULT:
            call_id = id_of_call(item)
            said = BY_RESULT[kind].said(item)
            messages.append({"role": "tool", "tool_call_id": call_ids.get(call_id, call_id), "content": said})
        elif kind == "reasoning":
            if thought := _thought(item):
                answered = True
                _assistant(messages).setdefault("reasoning", []).append(thought)
        elif kind in CALLS:
            call = _read_call(item, kind)
            call_ids[call["id"]] = call["id"]
            readable = reader.readable(call["function"]["arguments"])
            conversation.repaired += readable != call["function"]["arguments"]
            call["function"]["arguments"] = readable
            answered = True
            _assistant(messages).setdefault("tool_calls", []).append(call)
        elif kind in RESULTS:
            call_id = call_ids.get(item["call_id"], item["call_id"])
            messages.append({"role": "tool", "tool_call_id": call_id, "content": _content(item["output"])})
        elif item["role"] == "assistant":
            answered = True
            _assistant(messages).setdefault("content", []).append(_content(item["content"]))
        elif item["role"] == "user":
            messages.append({"role": "user", "content": _content(item["content"])})
        elif answered:
            messages.append({"role": "system", "content": _content(item["content"])})
        else:  # the client's own instructions, wherever they stand before the first answer
            content = _content(item["content"])
            assert isinstance(content, str)  # it has no other parts
            system.append(content)
    if system:
        conversation.messages.append({"role": "system", "content": "\n\n".join(system)})
    conversation.messages += [_finished(message) for message in messages]
    return conversation


def _assistant(messages: list[Json]) -> Json:
    """The message in which the model goes on."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant"})
    return messages[-1]


def _finished(message: Json) -> Json:
    """One of the model's with what it said and thought, item by item, as one text each."""
    if message["role"] != "assistant":
        return message
    joined: Json = {
        name: "\n".join(filter(None, message[name])) for name in ("reasoning", "content") if name in message
    }
    return {"role": "assistant", "content": None if message.get("tool_calls") else "", **message, **joined}


def _thought(item: Json) -> str:
    parts = item.get("content") or item.get("summary") or ()
    return "\n".join(part["text"] for part in parts)


def _read_call(item: Json, kind: str) -> Json:
    custom = kind == "custom_tool_call"
    arguments = encode({INPUT: item["input"]}).decode() if custom else item["arguments"]
    name = full_name(item["name"], item.get("namespace"))
    return {"id": item["call_id"], "type": "function", "function": {"name": name, "arguments": arguments}}


def _read_taught_call(item: Json, tool: TaughtTool) -> Json:
    arguments = encode(tool.read(item[tool.field])).decode()
    return {"id": item["call_id"], "type": "function", "function": {"name": tool.kind, "arguments": arguments}}


def _content(content: str | list[Json]) -> str | list[Json]:
    """A string where all is text, as every chat template takes it."""
    if isinstance(content, str):
        return content
    if any(part["type"] == "input_image" for part in content):
        return [_part(part) for part in content]
    return "\n".join(part["refusal"] if part["type"] == "refusal" else part["text"] for part in content)


def _part(part: Json) -> Json:
    if part["type"] != "input_image":
        return {"type": "text", "text": part["text"]}
    # Not every vLLM knows the word, and none needs it: it takes an image as it is.
    detail = {"detail": part["detail"]} if part.get("detail") not in (None, "original") else {}
    return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}

"""What was said in an exchange, for spans that are to hold it.

By OpenTelemetry's names these are messages of its own form (role and parts; JSON), by OpenInference's the bodies as
they are. Sources: `gen-ai-input-messages.json` and `gen-ai-output-messages.json` of OpenTelemetry's semantic
conventions; what the dialects look like: docs/openapi.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import orjson

from extproc.contract.sse import DONE, Data, SseDecoder
from extproc.tracing.attributes import Naming

Json: TypeAlias = dict[str, Any]

MOST = 256 * 1024
"""Bytes of a request or an answer that a span holds; of a longer one nothing but its beginning, as text."""


class Said:
    """By both sides of one exchange."""

    def __init__(self) -> None:
        self.asked = bytearray()
        self.answered = bytearray()

    def facts(self, dialect: str, naming: Naming) -> Json:
        """For `attributes`."""
        asked, answered = bytes(self.asked), bytes(self.answered)
        if naming == "openinference":
            facts = {"input": _text(asked), "output": _text(answered)}
        else:
            request = _object(asked)
            given = list(_given(dialect, request)) if request is not None else [_words("user", asked)]
            got = _parts_of_answer(dialect, answered)
            said = {"role": "assistant", "parts": got} if got is not None else _words("assistant", answered)
            facts = {"input": _encoded(given), "output": _encoded([said])}
            if request is not None and isinstance(request.get("tools"), list):
                facts["offered"] = _encoded(request["tools"])
        return {name: text for name, text in facts.items() if text}


def _text(data: bytes) -> str:
    return data[:MOST].decode("utf-8", "replace")


def _encoded(value: Any) -> str:
    return _text(orjson.dumps(value))


def _object(data: bytes) -> Json | None:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _words(role: str, data: bytes) -> Json:
    return {"role": role, "parts": [_text_part(_text(data))]}


def _text_part(text: Any, kind: str = "text") -> Json:
    return {"type": kind, "content": text}


def _call_part(call_id: Any, name: Any, arguments: Any) -> Json:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def _result_part(call_id: Any, result: Any) -> Json:
    return {"type": "tool_call_response", "id": call_id, "response": result}


# What was asked


def _given(dialect: str, body: Json) -> Iterator[Json]:
    if dialect == "responses":
        if body.get("instructions"):
            yield {"role": "system", "parts": [_text_part(body["instructions"])]}
        items = body.get("input")
        for item in items if isinstance(items, list) else [{"role": "user", "content": items}]:
            yield _of_item(item)
        return
    if dialect == "messages" and body.get("system"):
        yield {"role": "system", "parts": list(_content(body["system"]))}
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict):
            yield _of_message(message)


def _of_message(message: Json) -> Json:
    role = message.get("role")
    if role == "tool":
        return {"role": "tool", "parts": [_result_part(message.get("tool_call_id"), message.get("content"))]}
    return {"role": role, "parts": [*_content(message.get("content")), *_calls(message)]}


def _of_item(item: Any) -> Json:
    """Of Responses' input and output."""
    match item:
        case {"type": "function_call" | "custom_tool_call"}:
            part = _call_part(item.get("call_id"), item.get("name"), item.get("arguments", item.get("input")))
            return {"role": "assistant", "parts": [part]}
        case {"type": "function_call_output" | "custom_tool_call_output"}:
            return {"role": "tool", "parts": [_result_part(item.get("call_id"), item.get("output"))]}
        case {"type": "reasoning"}:
            texts = [*(item.get("content") or ()), *(item.get("summary") or ())]
            return {"role": "assistant", "parts": [_text_part(text.get("text"), "reasoning") for text in texts]}
        case dict():
            return {"role": item.get("role"), "parts": list(_content(item.get("content")))}
    return {"role": None, "parts": []}


def _content(content: Any) -> Iterator[Json]:
    """A text, or parts of chat completions, blocks of Messages and content of Responses."""
    if isinstance(content, str):
        yield _text_part(content)
        return
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "text" | "input_text" | "output_text" | "refusal"}:
                yield _text_part(part.get("text", part.get("refusal")))
            case {"type": "thinking"}:
                yield _text_part(part.get("thinking"), "reasoning")
            case {"type": "tool_use"}:
                yield _call_part(part.get("id"), part.get("name"), part.get("input"))
            case {"type": "tool_result"}:
                yield _result_part(part.get("tool_use_id"), part.get("content"))
            case {"type": str(kind)}:
                yield {"type": kind}  # a picture, say: not its bytes


def _calls(message: Json) -> Iterator[Json]:
    for call in message.get("tool_calls") or ():
        if isinstance(call, dict) and isinstance(function := call.get("function"), dict):
            yield _call_part(call.get("id"), function.get("name"), function.get("arguments"))


# What was answered


def _parts_of_answer(dialect: str, data: bytes) -> list[Json] | None:
    """None for what is no answer of this dialect."""
    body = _object(data)
    if body is None:
        events = [body for body in map(_object, _events(data)) if body is not None]
        body = _JOINED[dialect](events) if events else None
    match body:
        case {"choices": [{"message": dict(message)}, *_]}:
            thought = message.get("reasoning")
            return [*([_text_part(thought, "reasoning")] if thought else ()), *_of_message(message)["parts"]]
        case {"content": list(blocks)}:
            return list(_content(blocks))
        case {"output": list(items)}:
            return [part for item in items for part in _of_item(item)["parts"]]
    return None


def _events(data: bytes) -> Iterator[bytes]:
    decoder = SseDecoder()
    for event in [*decoder.feed(data), *decoder.close()]:
        if isinstance(event, Data) and event.data != DONE:
            yield event.data


def _joined_chat(events: list[Json]) -> Json:
    """Of its first choice."""
    texts: dict[str, list[str]] = {"content": [], "reasoning": []}
    calls: dict[Any, Json] = {}
    for event in events:
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            if choice.get("index"):
                continue
            for name, pieces in texts.items():
                pieces.append(delta.get(name) or "")
            for call in delta.get("tool_calls") or ():
                function = call.get("function") or {}
                kept = calls.setdefault(call.get("index"), {"id": call.get("id"), "function": {"arguments": ""}})
                kept["function"].setdefault("name", function.get("name"))
                kept["function"]["arguments"] += function.get("arguments") or ""
    said = {name: "".join(pieces) or None for name, pieces in texts.items()}
    return {"choices": [{"message": {"role": "assistant", **said, "tool_calls": list(calls.values())}}]}


def _joined_messages(events: list[Json]) -> Json:
    blocks: dict[Any, Json] = {}
    for event in events:
        match event:
            case {"type": "content_block_start", "index": at, "content_block": dict(block)}:
                blocks[at] = {**block, **({"input": ""} if block.get("type") == "tool_use" else {})}
            case {"type": "content_block_delta", "index": at, "delta": dict(delta)} if at in blocks:
                for name, piece in delta.items():
                    field = {"partial_json": "input"}.get(name, name)
                    if field in ("text", "thinking", "input"):
                        blocks[at][field] = f"{blocks[at].get(field) or ''}{piece}"
    return {"content": list(blocks.values())}


def _joined_responses(events: list[Json]) -> Json:
    """The last event has all of it."""
    whole = events[-1].get("response")
    return whole if isinstance(whole, dict) else {}


_JOINED: Mapping[str, Any] = {"chat": _joined_chat, "messages": _joined_messages, "responses": _joined_responses}

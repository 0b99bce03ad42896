"""What a client got, put together from the answer in its dialect: words, thoughts, calls, errors, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from extproc.contract.sse import DONE, Comment, Data, SseDecoder
from extproc.watch.written import Piece

Json: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class Item:
    """One part of an answer."""

    kind: str
    """`content`, `reasoning`, `call`, `error`, or the dialect's own name for anything else."""
    text: str = ""
    """Its words; of a call its arguments."""
    name: str = ""
    id: str = ""
    pieces: list[tuple[int, float]] = field(default_factory=list)
    """How many characters of the text were there, and when."""


@dataclass(slots=True)
class Received:
    """All of it."""

    status: int | None = None
    stream: bool = False
    items: list[Item] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Json | None = None
    events: int = 0
    """Server-sent events."""
    _open: dict[object, Item] = field(default_factory=dict)

    def add(self, key: object, kind: str, text: str, at: float, *, name: str = "", id_: str = "") -> None:
        """More of the part that the dialect knows by this key."""
        item = self._open.get(key)
        if item is None:
            item = self._open[key] = Item(kind)
            self.items.append(item)
        item.name, item.id = item.name or name, item.id or id_
        if text:
            item.text += text
            item.pieces.append((len(item.text), at))


def received(pieces: Sequence[Piece], *, stream: bool, status: int | None) -> Received:
    """The answer, as far as it has come."""
    answer = Received(status, stream)
    if not stream:
        whole = b"".join(data for _, data in pieces)
        at = pieces[-1][0] if pieces else 0.0
        body = _json(whole)
        if isinstance(body, dict):
            _whole(answer, body, at)
        elif whole:
            answer.add("body", "content", whole.decode("utf-8", "replace"), at)
        return answer
    for at, data in _events(answer, pieces):
        _event(answer, data, at)
    return answer


def _events(answer: Received, pieces: Iterable[Piece]) -> Iterator[tuple[float, Json]]:
    decoder = SseDecoder()
    for at, piece in pieces:
        for event in decoder.feed(piece):
            answer.events += 1
            if isinstance(event, Comment):
                continue
            assert isinstance(event, Data)
            if event.data.strip() != DONE and isinstance(found := _json(event.data), dict):
                yield at, found


def _whole(answer: Received, body: Json, at: float) -> None:
    if body.get("error"):
        _error(answer, body["error"], at)
    for number, choice in enumerate(_list(body.get("choices"))):
        _chat(answer, number, _dict(choice.get("message")), at)
        answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
    if body.get("type") == "message":
        for number, block in enumerate(_list(body.get("content"))):
            _block(answer, number, block, at)
        answer.finish_reason = body.get("stop_reason")
    if body.get("object") == "response":
        _response(answer, body, at)
    answer.usage = body.get("usage") or answer.usage


def _event(answer: Received, data: Json, at: float) -> None:
    if data.get("error"):
        _error(answer, data["error"], at)
    for number, choice in enumerate(_list(data.get("choices"))):
        index = choice.get("index", number)
        _chat(answer, index, _dict(choice.get("delta")), at)
        answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
    answer.usage = data.get("usage") or _dict(data.get("message")).get("usage") or answer.usage
    kind = data.get("type")
    if not isinstance(kind, str):
        return
    if kind.startswith("response."):
        _responses_event(answer, kind, data, at)
    elif kind == "content_block_start":
        _block(answer, data.get("index"), _dict(data.get("content_block")), at, started=True)
    elif kind == "content_block_delta":
        _block_delta(answer, data.get("index"), _dict(data.get("delta")), at)
    elif kind == "message_delta":
        answer.finish_reason = _dict(data.get("delta")).get("stop_reason") or answer.finish_reason


def _chat(answer: Received, index: object, message: Json, at: float) -> None:
    thought = message.get("reasoning") or message.get("reasoning_content")
    for kind, text in (
        ("reasoning", thought),
        ("content", message.get("content")),
        ("refusal", message.get("refusal")),
    ):
        if isinstance(text, str) and text:
            answer.add((index, kind, len(_calls_of(answer, index)) if kind == "content" else 0), kind, text, at)
    legacy = message.get("function_call")
    calls = [legacy] if isinstance(legacy, dict) else []
    for place, call in enumerate([*_list(message.get("tool_calls")), *calls]):
        function = _dict(call.get("function")) or call
        key = (index, "call", call.get("index", place))
        answer.add(
            key,
            "call",
            _text(function.get("arguments")),
            at,
            name=_text(function.get("name")),
            id_=_text(call.get("id")),
        )


def _calls_of(answer: Received, index: object) -> list[object]:
    return [key for key in answer._open if isinstance(key, tuple) and key[:2] == (index, "call")]


def _block(answer: Received, index: object, block: Json, at: float, *, started: bool = False) -> None:
    match block.get("type"):
        case "text":
            answer.add(index, "content", _text(block.get("text")), at)
        case "thinking":
            answer.add(index, "reasoning", _text(block.get("thinking")), at)
        case "tool_use":
            asked = block.get("input")
            text = orjson.dumps(asked).decode() if not started else ""
            answer.add(index, "call", text, at, name=_text(block.get("name")), id_=_text(block.get("id")))
        case kind:
            answer.add(index, str(kind), orjson.dumps(block).decode(), at)


def _block_delta(answer: Received, index: object, delta: Json, at: float) -> None:
    text = delta.get("text") or delta.get("thinking") or delta.get("partial_json")
    answer.add(index, "content", _text(text), at)


def _responses_event(answer: Received, kind: str, data: Json, at: float) -> None:
    key = data.get("output_index")
    delta = _text(data.get("delta"))
    match kind:
        case "response.output_item.added":
            item = _dict(data.get("item"))
            names = {"message": "content", "function_call": "call", "custom_tool_call": "call"}
            found = names.get(_text(item.get("type")), _text(item.get("type")))
            answer.add(key, found, "", at, name=_text(item.get("name")), id_=_text(item.get("call_id")))
        case (
            "response.output_text.delta"
            | "response.function_call_arguments.delta"
            | "response.custom_tool_call_input.delta"
            | "response.reasoning_text.delta"
            | "response.reasoning_summary_text.delta"
            | "response.refusal.delta"
        ):
            answer.add(key, "content", delta, at)
        case "response.completed" | "response.incomplete" | "response.failed":
            response = _dict(data.get("response"))
            answer.finish_reason = _text(response.get("status")) or None
            answer.usage = response.get("usage") or answer.usage
            if response.get("error"):
                _error(answer, response["error"], at)


def _response(answer: Received, body: Json, at: float) -> None:
    for number, item in enumerate(_list(body.get("output"))):
        match item.get("type"):
            case "function_call" | "custom_tool_call":
                text = _text(item.get("arguments")) or _text(item.get("input"))
                answer.add(number, "call", text, at, name=_text(item.get("name")), id_=_text(item.get("call_id")))
            case kind:
                parts = [*_list(item.get("content")), *_list(item.get("summary"))]
                text = "".join(_text(part.get("text")) or _text(part.get("refusal")) for part in parts)
                answer.add(number, "reasoning" if kind == "reasoning" else "content", text, at)
    answer.finish_reason = _text(body.get("status")) or None


def _error(answer: Received, error: Any, at: float) -> None:
    said = _text(error.get("message")) if isinstance(error, dict) else str(error)
    code = error.get("code") or error.get("type") if isinstance(error, dict) else ""
    answer.add("error", "error", said, at, name=_text(code) or str(code or ""))


def _json(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []

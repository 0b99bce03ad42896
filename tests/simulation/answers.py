"""What backends say: a model's text and calls as an answer of each mode, whole or as a stream, in any pieces."""

from __future__ import annotations

import itertools
import random
import zlib
from dataclasses import dataclass
from typing import Any, AnyStr

import orjson


@dataclass(frozen=True, slots=True)
class Said:
    """What a model means."""

    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Names and arguments."""


_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "m"}
COST = 15
"""Tokens that each answer says it has cost."""
_USAGE = {"prompt_tokens": 10, "completion_tokens": COST - 10, "total_tokens": COST}


def whole(mode: str, said: Said) -> bytes:
    """A completion."""
    native = mode == "native"
    message: dict[str, Any] = {"role": "assistant", "content": said.text if native else _marked_up(said)}
    if native and said.calls:
        message["tool_calls"] = _calls(said)
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return orjson.dumps({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE})


def streamed(rng: random.Random, mode: str, said: Said, *, cut: bool, amid: bool = False) -> list[bytes]:
    """A stream's events; `cut`: it ends, as if all were well, before its last words, and with `amid` perhaps amid an
    event."""
    native = mode == "native"
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in in_pieces(rng, said.text if native else _marked_up(said))]
    if native:
        for index, call in enumerate(_calls(said)):
            arguments = call["function"]["arguments"]
            begun = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
            deltas.append({"tool_calls": [begun]})
            for piece in in_pieces(rng, arguments):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    events = [_event(delta, None) for delta in deltas]
    if cut:
        events = events[: rng.randrange(1, len(deltas) + 1)]
        amid = amid and zlib.crc32(events[-1]) % 3 == 0  # not drawn: seeds keep what comes behind it
        return [*events[:-1], events[-1][:-20]] if amid else events
    usage = {**_HEAD, "object": "chat.completion.chunk", "choices": [], "usage": _USAGE}
    reason = "tool_calls" if native and said.calls else "stop"
    return [*events, _event({}, reason), b"data: " + orjson.dumps(usage) + b"\n\n", b"data: [DONE]\n\n"]


def in_pieces(rng: random.Random, whole: AnyStr) -> list[AnyStr]:
    """In as many pieces as it happens."""
    places = sorted({0, len(whole), *(int(rng.random() * (len(whole) + 1)) for _ in range(int(rng.random() * 8)))})
    return [whole[begin:end] for begin, end in itertools.pairwise(places)]


def _marked_up(said: Said) -> str:
    text = said.text
    for name, arguments in said.calls:
        text += f"\n<tool_call>\n{orjson.dumps({'name': name, 'arguments': arguments}).decode()}\n</tool_call>"
    return text


def _calls(said: Said) -> list[dict[str, Any]]:
    return [
        {
            "id": f"chatcmpl-tool-{number}",
            "type": "function",
            "function": {"name": name, "arguments": orjson.dumps(arguments).decode()},
        }
        for number, (name, arguments) in enumerate(said.calls, 1)
    ]


def _event(delta: dict[str, Any], reason: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
    return b"data: " + orjson.dumps({**_HEAD, "object": "chat.completion.chunk", "choices": [choice]}) + b"\n\n"

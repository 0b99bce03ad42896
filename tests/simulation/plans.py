"""What is drawn before anything happens: the exchanges of a history, and what becomes of each."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson

from extproc.config import Config, parse
from extproc.conformance.host.settings import BodyMode, HeaderMode, Headers, HostSettings, HttpExchange, HttpMessage
from extproc.turn.turn import Dialect

PATHS: dict[Dialect, str] = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
MODES = ("native", "template", "prompt")
IDLE = 30.0
"""Seconds that a backend may be silent."""
_SETTINGS = """
models:
  - {{name: native, backend: b, upstream_model: m{version}, tools: native}}
  - {{name: template, backend: b, upstream_model: m{version}, tools: template, format: hermes}}
  - {{name: prompt, backend: b, upstream_model: m{version}, tools: prompt}}
backends: [{{name: b, address: "127.0.0.1:1", health_check: false}}]
limits: {{first_event_seconds: 30, silence_seconds: 30}}
"""
CONFIGS: tuple[Config, ...] = tuple(parse(_SETTINGS.format(version=version)) for version in range(2))
"""Between which reloads change: the model's name upstream tells one from the other."""
LAYOUT = HostSettings(
    request_body=BodyMode.BUFFERED,
    response_body=BodyMode.NONE,
    request_trailers=HeaderMode.SKIP,
    response_headers=HeaderMode.SKIP,
    response_trailers=HeaderMode.SKIP,
)
"""As our own Envoy is configured."""
_WORDS = ("Ähre", "look", "<tool", "{", "`", "at", "the", "line\n", '"quoted"', "</", "end", "\U0001f600")


class Fate(Enum):
    """What becomes of an exchange."""

    WHOLE = "whole"
    """The backend answers to its end."""
    CUT = "cut"
    """Its answer ends early, as if all were well."""
    GONE = "gone"
    """The client leaves, or Envoy does, at any step."""
    STALLED = "stalled"
    """The backend falls silent in the middle of a stream."""
    REFUSED = "refused"
    """The request is wrong."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One exchange."""

    number: int
    dialect: Dialect
    mode: str
    tools: bool
    stream: bool
    fate: Fate
    content: str
    call: dict[str, Any] | None
    """Arguments of the call that the model makes, if it makes one."""
    exchange: HttpExchange
    """As client and backend mean it."""

    @property
    def marker(self) -> bytes:
        """Stands in all that belongs to this exchange, and in nothing else."""
        return marker(self.number)


def marker(number: int) -> bytes:
    return b"mark%04dmark" % number


def drawn(rng: random.Random, number: int) -> Plan:
    """An exchange."""
    dialect: Dialect = rng.choice(("chat", "chat", "messages", "responses"))
    fate = rng.choices(list(Fate), (12, 2, 2, 1, 1))[0]
    stream = fate is Fate.STALLED or rng.random() < 0.7
    mode, tools = rng.choice(MODES), fate is Fate.STALLED or rng.random() < 0.8
    content = f"{marker(number).decode()} {' '.join(rng.choices(_WORDS, k=rng.randrange(6)))} so"
    if not tools:
        content = content.replace("<tool", "tool")
    call = {"q": f"{marker(number).decode()} {rng.choice(_WORDS)}", "n": rng.randrange(100)} if tools else None
    request = HttpMessage(_request_head(number, dialect), (_asked(number, dialect, mode, fate, tools, stream),))
    answer = _streamed(rng, mode, content, call, fate) if stream else _whole(rng, mode, content, call, fate)
    kind = b"text/event-stream; charset=utf-8" if stream else b"application/json"
    response = HttpMessage(((":status", b"200"), ("content-type", kind)), tuple(answer))
    return Plan(number, dialect, mode, tools, stream, fate, content, call, HttpExchange(request, response))


def _request_head(number: int, dialect: Dialect) -> Headers:
    return (
        (":method", b"POST"),
        (":path", PATHS[dialect].encode()),
        (":scheme", b"http"),
        (":authority", b"gateway"),
        ("content-type", b"application/json"),
        ("x-request-id", b"request-%d" % number),
    )


_PARAMETERS = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}}


def _asked(number: int, dialect: Dialect, mode: str, fate: Fate, tools: bool, stream: bool) -> bytes:
    said = marker(number).decode()
    fields: dict[str, Any] = {"model": mode, "stream": stream}
    if dialect == "responses":
        fields |= {"input": said, "store": False}
        tool: dict[str, Any] = {"type": "function", "name": "look", "parameters": _PARAMETERS}
    elif dialect == "messages":
        fields |= {"messages": [{"role": "user", "content": said}], "max_tokens": 100}
        tool = {"name": "look", "input_schema": _PARAMETERS}
    else:
        fields["messages"] = [{"role": "user", "content": said}]
        tool = {"type": "function", "function": {"name": "look", "parameters": _PARAMETERS}}
    if tools:
        fields["tools"] = [tool]
    if fate is Fate.REFUSED:
        fields["tools"] = "none"
    return orjson.dumps(fields)


_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "m"}
_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def _text(content: str, call: dict[str, Any] | None) -> str:
    if call is None:
        return content
    return f"{content}\n<tool_call>\n{orjson.dumps({'name': 'look', 'arguments': call}).decode()}\n</tool_call>"


def _native(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": "look", "arguments": orjson.dumps(call).decode()}
    return {"id": "chatcmpl-tool-1", "type": "function", "function": function}


def _whole(rng: random.Random, mode: str, content: str, call: dict[str, Any] | None, fate: Fate) -> list[bytes]:
    message: dict[str, Any] = {"role": "assistant", "content": content if mode == "native" else _text(content, call)}
    if mode == "native" and call is not None:
        message["tool_calls"] = [_native(call)]
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    body = orjson.dumps({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE})
    if fate is Fate.CUT:
        body = body[: rng.randrange(1, len(body))]
    return _in_pieces(rng, body)


def _streamed(rng: random.Random, mode: str, content: str, call: dict[str, Any] | None, fate: Fate) -> list[bytes]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    said = content if mode == "native" else _text(content, call)
    deltas += [{"content": piece} for piece in _pieces(rng, said)]
    if mode == "native" and call is not None:
        made = _native(call)
        head = {**made["function"], "arguments": ""}
        deltas.append({"tool_calls": [{**made, "index": 0, "function": head}]})
        for piece in _pieces(rng, made["function"]["arguments"]):
            deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    reason = "tool_calls" if mode == "native" and call is not None else "stop"
    events = [_event(delta, None) for delta in deltas] + [_event({}, reason)]
    usage = {**_HEAD, "object": "chat.completion.chunk", "choices": [], "usage": _USAGE}
    events += [b"data: " + orjson.dumps(usage) + b"\n\n", b"data: [DONE]\n\n"]
    if fate in (Fate.CUT, Fate.STALLED):
        events = events[: rng.randrange(1, len(deltas) + 1)]
    return _in_pieces(rng, b"".join(events))


def _event(delta: dict[str, Any], reason: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
    return b"data: " + orjson.dumps({**_HEAD, "object": "chat.completion.chunk", "choices": [choice]}) + b"\n\n"


def _pieces(rng: random.Random, text: str) -> list[str]:
    """A text in as many pieces as it happens."""
    places = sorted({0, len(text), *(rng.randrange(len(text) + 1) for _ in range(rng.randrange(8)))})
    return [text[begin:end] for begin, end in itertools.pairwise(places)]


def _in_pieces(rng: random.Random, data: bytes) -> list[bytes]:
    places = sorted({0, len(data), *(rng.randrange(len(data) + 1) for _ in range(rng.randrange(8)))})
    return [data[begin:end] for begin, end in itertools.pairwise(places)]

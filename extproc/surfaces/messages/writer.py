"""Answers in the words of Anthropic's Messages: a message of content blocks, or the events that build one.

One state is behind both: which block is open. A stream says each step as an event, a whole answer adds them up. Source:
Anthropic's API reference, "messages" and "streaming messages"; the order of events is that of recorded answers.

vLLM counts at the end of a stream, so that `message_start` has zeros and `message_delta` the count. Tokens of the
prompt that were in the cache are `cache_read_input_tokens`, and not among `input_tokens`, as with Anthropic.

A client sees nothing of tools that run on our side.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, TypeAlias

import jiter
import orjson

from extproc.contract.errors import ApiError, backend_garbage, invalid_call
from extproc.contract.json_body import encode, is_json
from extproc.contract.sse import Comment
from extproc.surfaces.messages.errors import error_object
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Reasoning, Text
from extproc.turn.completion import read_object
from extproc.turn.output import CALLED, CUT_OFF, Said
from extproc.turn.spec import ResponseSpec
from extproc.turn.usage import StreamCount

Json: TypeAlias = dict[str, Any]

SIGNATURE = "unsigned"
"""Of thinking. Anthropic's is a proof for its own servers; clients send it back as it came, and some want one."""

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", CALLED: "tool_use", "content_filter": "refusal"}


class MessagesWriter:
    """Writes one answer."""

    def __init__(self, spec: ResponseSpec) -> None:
        self._spec = spec
        self._out = bytearray()
        self._started = False
        self._whole = False
        self._blocks: list[Json] = []
        self._open: str | None = None  # the type of the last block, while it goes on
        self._said: list[str] = []  # what the block that is open says, where the answer is whole
        self._thoughts: list[str] = []  # that came while a call was open
        self._cut_off = False
        self._stop_reason: str | None = None
        self._stop_sequence: str | None = None

    # A stream

    def chunk(self, _chunk: Json, _data: bytes, said: Sequence[Said], /) -> bytes:
        self._start()
        for one in said:
            self._say(one)
        return self._taken()

    def comment(self, _comment: Comment, /) -> bytes:  # whatever it says, the connection is alive
        self._start()
        self._event("ping", {})
        return self._taken()

    def end(self, count: StreamCount) -> bytes:
        self._close_block()
        delta = {"stop_reason": self._stop_reason, "stop_sequence": self._stop_sequence}
        self._event("message_delta", {"delta": delta, "usage": usage_of(count.total())})
        self._event("message_stop", {})
        return self._taken()

    def fail(self, error: ApiError) -> bytes:
        self._out += b"event: error\ndata: " + orjson.dumps(error_object(error)) + b"\n\n"
        return self._taken()

    def _start(self) -> None:
        if self._started:
            return
        self._started = True
        self._event("message_start", {"message": self._message(usage_of(None))})
        self._event("ping", {})

    def _message(self, usage: Json) -> Json:
        return {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": self._spec.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }

    def _event(self, kind: str, fields: Json) -> None:
        if self._whole:
            return
        self._out += b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))

    def _taken(self) -> bytes:
        out = bytes(self._out)
        self._out.clear()
        return out

    # A whole answer

    def whole(self, _body: bytes, _completion: Json, said: Sequence[Said], usage: Json | None, /) -> bytes:
        self._whole = True
        for one in said:
            self._say(one)
        self._close_block()
        message = self._message(usage_of(usage))
        message["content"] = self._blocks
        message["stop_reason"], message["stop_sequence"] = self._stop_reason, self._stop_sequence
        return orjson.dumps(message)

    # Both

    def _say(self, said: Said) -> None:
        said.check_alone()
        events = said.own_events
        if self._stop_reason is not None and events:
            raise backend_garbage("content after a finish_reason.")
        self._cut_off = said.finish_reason in CUT_OFF
        if said.thinking and self._spec.shows_thinking:
            self._think(said.thinking)
        for event in events:
            self._take(event)
        if said.refusal:
            self._delta("text", said.refusal)
        if said.finish_reason is not None and said.error is None:
            self._end(said)

    def _end(self, said: Said) -> None:
        reason = _STOP_REASONS.get(said.finish_reason or "")
        if reason is None:
            raise backend_garbage("an unknown finish_reason.")
        stop = said.choice.get("stop_reason")
        if said.refusal:
            reason = "refusal"
        elif reason == "end_turn" and isinstance(stop, str) and stop in self._spec.stop:
            reason, self._stop_sequence = "stop_sequence", stop
        self._stop_reason = reason
        self._close_block()

    def _think(self, text: str) -> None:
        if self._open == "tool_use":
            self._thoughts.append(text)  # a call is one block
        else:
            self._delta("thinking", text)

    def _take(self, event: Event) -> None:
        match event:
            case Text(text):
                self._delta("text", text)
            case Reasoning(text):
                if self._spec.shows_thinking:
                    self._think(text)
            case CallStart():
                call_id = event.id or f"toolu_{secrets.token_hex(12)}"
                self._open_block({"type": "tool_use", "id": call_id, "name": event.name, "input": {}})
            case ArgumentsDelta(_, json):
                self._block_delta({"type": "input_json_delta", "partial_json": json}, json)
            case CallEnd():
                self._close_block()

    def _delta(self, kind: str, text: str) -> None:
        """The block of this kind goes on."""
        if not text:
            return
        if self._open != kind:
            empty = {"thinking": "", "signature": ""} if kind == "thinking" else {"text": ""}
            self._open_block({"type": kind, **empty})
        self._block_delta({"type": f"{kind}_delta", kind: text}, text)

    def _open_block(self, block: Json) -> None:
        self._close_block()
        self._open = block["type"]
        self._blocks.append(block)
        self._event("content_block_start", {"index": len(self._blocks) - 1, "content_block": block})

    def _block_delta(self, delta: Json, said: str = "") -> None:
        if self._whole:
            self._said.append(said)
        else:
            self._event("content_block_delta", {"index": len(self._blocks) - 1, "delta": delta})

    def _close_block(self) -> None:
        if self._open is None:
            return
        block = self._blocks[-1]
        if self._whole:
            said = "".join(self._said)
            self._said.clear()
            if self._open == "tool_use":
                block["input"] = _input(said, cut_off=self._cut_off)
            else:
                block[self._open] = said
        if self._open == "thinking":
            block["signature"] = SIGNATURE
            self._block_delta({"type": "signature_delta", "signature": SIGNATURE})
        self._open = None
        self._said.clear()
        self._event("content_block_stop", {"index": len(self._blocks) - 1})
        if self._thoughts:
            thoughts, self._thoughts = "".join(self._thoughts), []
            self._delta("thinking", thoughts)


def _input(arguments: str, *, cut_off: bool) -> orjson.Fragment:
    """A call's arguments as the object that this dialect has for them: the model's own text, and of a call that was cut
    off what came of it. Raises ApiError (502): anything else can't be said, and in place of it another object would be
    run."""
    if arguments.lstrip().startswith("{") and is_json(arguments):
        return orjson.Fragment(arguments)
    if not cut_off:
        raise invalid_call("malformed_tool_arguments", "The arguments of the model's call are no JSON object.")
    try:
        value = jiter.from_json(arguments.encode(), partial_mode="trailing-strings", allow_inf_nan=False)
    except (ValueError, UnicodeEncodeError):
        value = {}
    return orjson.Fragment(encode(value if isinstance(value, dict) else {}))


def usage_of(usage: Json | None) -> Json:
    """A count in Anthropic's names."""
    usage = usage or {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    cached = cached if type(cached) is int and cached > 0 else 0
    estimated = {"estimated": True} if usage.get("estimated") else {}
    return {
        **estimated,
        "input_tokens": max((usage.get("prompt_tokens") or 0) - cached, 0),
        "output_tokens": usage.get("completion_tokens") or 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
    }


def token_count(body: bytes) -> bytes:
    """The answer to a request to count tokens, for the backend's to a request to tokenize. Raises ApiError (502)."""
    count = read_object(body).get("count")
    if type(count) is not int or count < 0:
        raise backend_garbage("no token count.")
    return orjson.dumps({"input_tokens": count})

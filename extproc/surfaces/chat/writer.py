"""Answers in the words of chat completions, which are the backend's own.

What the parser leaves as it is passes on byte for byte, everything else becomes chunks with the same envelope. A client
gets a count once: in a whole answer always, in a stream if it asked, in one last chunk without choices. Every other
chunk of that stream has `usage: null`, whatever the backend wrote there, because clients add up what they find; one
that asked for vLLM's `continuous_usage_stats` too gets those as they come. A client that didn't ask finds no usage at
all. Source: OpenAI's API reference, `stream_options.include_usage`; vLLM leaves the nulls out.

A client sees nothing of tools that run on our side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from extproc.contract.errors import ApiError
from extproc.contract.sse import DONE, Comment, data_event, encode
from extproc.surfaces.chat.call_shapes import CallShape, shape_for
from extproc.surfaces.chat.errors import error_event
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Reasoning, Text
from extproc.toolcalls.events import collect
from extproc.turn.completion import encoded
from extproc.turn.output import CALLED, Said, SaidEvent
from extproc.turn.spec import ResponseSpec
from extproc.turn.usage import StreamCount

Json: TypeAlias = dict[str, Any]


class ChatWriter:
    """Writes one answer."""

    def __init__(self, spec: ResponseSpec) -> None:
        self._spec = spec
        self._shape: CallShape = shape_for(spec)
        self._envelope: Json = {}

    # A stream

    def chunk(self, chunk: Json, data: bytes, said: Sequence[Said], /) -> bytes:
        self._envelope = chunk
        if not said:
            return b""
        if len(said) == len(chunk["choices"]) == 1 and self._may_pass(chunk):
            rewritten = self._choice(said[0])
            if rewritten is None:
                return data_event(data)
        else:
            rewritten = []
            for one in said:
                new = self._choice(one)
                rewritten += [one.choice] if new is None else new
        envelope = self._without_usage(chunk)
        return b"".join(data_event(encoded({**envelope, "choices": [choice]})) for choice in rewritten)

    def comment(self, comment: Comment, /) -> bytes:
        return encode(comment)

    def end(self, count: StreamCount) -> bytes:
        usage = count.total() if self._spec.include_usage else None
        if usage is None:
            return _END
        return data_event(encoded({**self._envelope, "choices": [], "usage": usage})) + _END

    def fail(self, error: ApiError) -> bytes:
        return data_event(error_event(error)) + _END

    def _may_pass(self, chunk: Json) -> bool:
        """Whether the client may see a chunk as it is, as far as its count goes."""
        if not self._spec.include_usage:
            return "usage" not in chunk
        return self._spec.running_counts or ("usage" in chunk and chunk["usage"] is None)

    def _without_usage(self, chunk: Json) -> Json:
        """What the client sees of the chunk, its choices aside."""
        if self._spec.include_usage and self._spec.running_counts:
            return chunk
        rest = {key: value for key, value in chunk.items() if key != "usage"}
        return {**rest, "usage": None} if self._spec.include_usage else rest

    def _choice(self, said: Said) -> list[Json] | None:
        """What a choice of a chunk becomes: None for "as it is", else any number of choices."""
        said.check_calls()
        delta, choice, events = said.source, said.choice, said.events
        content = delta.get("content")
        ended = choice.get("finish_reason")
        reason = self._finish_reason(said)
        said_twice = self._spec.reasoning_content and _with_older_name(delta)
        role_only = "role" in delta and not content
        unchanged = (_is_text(events, content) if content else not events) and not delta.get("tool_calls")
        if unchanged and not (role_only or said_twice) and reason == ended and said.error is None:
            return None
        rest = said.rest
        rewritten: list[Json] = []
        if "role" in rest:
            # As OpenAI does when a call may follow: no content yet, not an empty one.
            rewritten.append(_choice(said.index, {**rest, "content": None}))
            rest = {}
        deltas = [new for event in said.own_events if (new := _delta(event, self._shape)) is not None]
        if self._spec.reasoning_content:
            for new in deltas:
                _with_older_name(new)
        rewritten += [_choice(said.index, new) for new in deltas]
        if said.error is not None:
            return rewritten
        if ended is not None:
            rewritten.append({**choice, "delta": rest, "logprobs": None, "finish_reason": reason})
        elif rest:
            rewritten.append(_choice(said.index, rest))
        return rewritten

    def _finish_reason(self, said: Said) -> str | None:
        return self._shape.finish_reason if said.finish_reason == CALLED else said.finish_reason

    # A whole answer

    def whole(self, body: bytes, completion: Json, said: Sequence[Said], usage: Json | None, /) -> bytes:
        changed = usage is not None and usage is not completion.get("usage")
        if changed:
            completion["usage"] = usage
        if self._spec.model and completion.get("model") != self._spec.model:
            completion["model"] = self._spec.model
            changed = True
        for one in said:
            changed |= self._rewrite_message(one)
            changed |= self._spec.reasoning_content and _with_older_name(one.source)
        return encoded(completion) if changed else body

    def _rewrite_message(self, said: Said) -> bool:
        """Whether anything of it had to change."""
        said.check_calls()
        message, choice = said.source, said.choice
        parsed = collect(said.own_events)
        content = message.get("content")
        before, reason = choice.get("finish_reason"), self._finish_reason(said)
        choice["finish_reason"] = reason
        called = parsed.calls or message.get("tool_calls")
        if not called and parsed.reasoning is None and (parsed.content or "") == (content or ""):
            return reason != before
        message.pop("tool_calls", None)
        message["content"] = parsed.content
        if parsed.reasoning is not None:
            message["reasoning"] = parsed.reasoning
        if parsed.calls:
            self._shape.put(message, parsed.calls)
        return True


_END = data_event(DONE)


def _is_text(events: list[SaidEvent], content: str) -> bool:
    if len(events) != 1:
        return False
    (event,) = events
    return type(event) is Text and event.text == content


def _with_older_name(message: Json) -> bool:
    """Have a message or a delta say its reasoning under its older name too; whether there is any that it didn't."""
    if not message.get("reasoning") or message.get("reasoning_content") is not None:
        return False
    message["reasoning_content"] = message["reasoning"]
    return True


def _choice(index: int, delta: Json) -> Json:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}


def _delta(event: Event, shape: CallShape) -> Json | None:
    match event:
        case ArgumentsDelta(index, json):
            return shape.arguments(index, json)
        case Text(text):
            return {"content": text}
        case Reasoning(text):
            return {"reasoning": text}
        case CallStart():
            return shape.start(event)
        case CallEnd():
            return None

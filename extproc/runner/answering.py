"""A run's answer in the client's dialect, by the same writers as every other answer: as a stream, or whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from extproc.contract.errors import ApiError
from extproc.contract.sse import Comment
from extproc.surfaces import SURFACES
from extproc.turn.completion import encoded
from extproc.turn.output import Said
from extproc.turn.spec import ResponseSpec
from extproc.turn.usage import StreamCount

Json: TypeAlias = dict[str, Any]

_ALIVE = Comment(b" running")


class StreamedRun:
    """What the client of a stream gets; after `end` or `fail` nothing more."""

    def __init__(self, spec: ResponseSpec, envelope: Json) -> None:
        """`envelope`: what the backend's first chunk had beside its choices."""
        self._writer = SURFACES[spec.dialect].writer(spec)
        self._envelope = {**envelope, "model": spec.model}

    def say(self, said: Sequence[Said]) -> bytes:
        """Raises ApiError (502) for what the dialect has no words for."""
        out = bytearray()
        for one in said:
            chunk = {**self._envelope, "choices": [one.choice]}
            out += self._writer.chunk(chunk, encoded(chunk), [one])
        return bytes(out)

    def keep_alive(self) -> bytes:
        return self._writer.comment(_ALIVE)

    def end(self, usage: Json | None) -> bytes:
        """Raises ApiError (502)."""
        count = StreamCount(None, wanted=True)
        count.backends = usage
        return self._writer.end(count)

    def fail(self, error: ApiError) -> bytes:
        return self._writer.fail(error)


class WholeRun:
    """Collects what becomes one whole answer."""

    def __init__(self, spec: ResponseSpec) -> None:
        self._spec = spec
        self._events: list[Any] = []
        self._message: Json = {"role": "assistant", "content": None}
        self._choice: Json = {"index": 0, "logprobs": None}
        self._reason: str | None = None

    def say(self, said: Sequence[Said]) -> None:
        for one in said:
            self._events += one.events
            if one.refusal:
                self._message["refusal"] = (self._message.get("refusal") or "") + one.refusal
            if one.finish_reason is not None:
                self._reason = one.finish_reason
                self._choice |= {key: value for key, value in one.choice.items() if key != "delta"}

    def end(self, envelope: Json, usage: Json | None) -> bytes:
        """The whole answer. Raises ApiError (502) for what the dialect has no words for."""
        choice = {**self._choice, "message": self._message, "finish_reason": self._reason}
        completion = {**envelope, "object": "chat.completion", "model": self._spec.model, "choices": [choice]}
        if usage is not None:
            completion["usage"] = usage
        said = Said(0, self._events, self._message, choice, frozenset({"content", "tool_calls"}), self._reason)
        return SURFACES[self._spec.dialect].writer(self._spec).whole(encoded(completion), completion, [said], usage)

"""What the gateway's own chat completions endpoint answers, which is what a model round says: a stream of chunks.

It is our own processor that wrote them, so they are read as a native backend's, and its errors are a client's already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import orjson

from extproc.contract.arguments import ArgumentChecker
from extproc.contract.errors import ApiError, backend_garbage
from extproc.contract.sse import DONE, Data, ServerEvent, SseDecoder
from extproc.runner.steps import ModelEnded, ModelSaid
from extproc.toolcalls import Reasoning
from extproc.turn import completion
from extproc.turn.output import Output, Said
from extproc.turn.spec import ResponseSpec
from extproc.turn.tally import Tally
from extproc.turn.usage import counted

Json: TypeAlias = dict[str, Any]

_SPEC = ResponseSpec("hermes", [], parallel_tool_calls=True, include_usage=True, native=True)
"""By which a round is read: calls come as calls, and were checked before."""
_THOUGHTS = ("reasoning", "reasoning_content")
LONGEST_EVENT = 4 * 1024 * 1024
"""Bytes of one event: a call that is held until it is complete comes as one."""


class RoundReader:
    """One round: `feed` the bytes of its stream in any cut, then `close`."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._decoder = SseDecoder()
        self._output = Output(_SPEC, ArgumentChecker({}), Tally())
        self._usage: Json | None = None
        self._ended = False
        self.envelope: Json = {}
        """What the chunks have in common: id, time of creation, and whatever else stands beside their choices."""

    def feed(self, piece: bytes) -> Iterator[ModelSaid | ModelEnded]:
        yield from self._read(self._decoder.feed(piece))
        if not self._ended and self._decoder.held > LONGEST_EVENT:
            yield self._end(backend_garbage("an event of the stream is too large."))

    def close(self) -> Iterator[ModelSaid | ModelEnded]:
        """The stream has ended, wherever it was."""
        yield from self._read(self._decoder.close())
        if not self._ended:
            complete = self._output.finished
            yield self._end(None if complete else backend_garbage("the stream ended before the answer was complete."))

    def _read(self, events: list[ServerEvent]) -> Iterator[ModelSaid | ModelEnded]:
        for event in events:
            if self._ended or not isinstance(event, Data):
                continue
            if event.data.strip() == DONE:
                yield self._end(None)
                continue
            try:
                if (said := self._said(event.data)) is not None:
                    yield ModelSaid(self._number, said)
                    if said.error is not None:
                        yield self._end(said.error)
            except ApiError as error:
                yield self._end(error.caught())

    def _said(self, data: bytes) -> Said | None:
        if (error := error_in(data, 502)) is not None:
            raise error
        chunk = completion.read_chunk(data)
        self._usage = counted(chunk.pop("usage", None)) or self._usage
        choices = chunk.pop("choices")
        self.envelope = self.envelope or chunk
        if not choices:
            return None
        index, delta = completion.read_choice(choices[0])
        if index != 0 or len(choices) > 1:
            raise backend_garbage("a choice that wasn't asked for.")
        said = self._output.say(index, delta, choices[0])
        thought = next((text for name in _THOUGHTS if isinstance(text := delta.get(name), str) and text), "")
        if thought:
            said.events.insert(0, Reasoning(thought))
        said.source = {name: value for name, value in delta.items() if name not in _THOUGHTS}
        return said

    def _end(self, error: ApiError | None) -> ModelEnded:
        self._ended = True
        return ModelEnded(self._number, self._usage, error)


def error_in(body: bytes, status: int) -> ApiError | None:
    """The error that a body is, in OpenAI's shape; one inside a stream may carry a status as its code."""
    try:
        error = orjson.loads(body).get("error")
    except (orjson.JSONDecodeError, AttributeError):
        return None
    if not isinstance(error, dict):
        return None
    code, param = error.get("code"), error.get("param")
    if isinstance(code, int) and 400 <= code < 600:
        status, code = code, None
    return ApiError(
        status,
        str(error.get("message") or "The model's backend failed."),
        str(error.get("type") or "server_error"),
        param if isinstance(param, str) else None,
        code if isinstance(code, str) else None,
    )

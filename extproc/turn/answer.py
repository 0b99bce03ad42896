"""An answer on its way from a backend to a client: read, held to what was asked, written in the client's dialect.

A stream is read chunk by chunk, a completion whole, by the same readers and rules; what becomes of it as bytes is the
writer's (`extproc.surfaces`). A stream never ends as if all were well when it isn't: what can't be understood becomes
the dialect's error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import orjson

from extproc.contract.arguments import ArgumentChecker
from extproc.contract.errors import CALL_VIOLATIONS, ApiError, backend_garbage
from extproc.contract.sse import DONE, Comment, Data, ServerEvent, SseDecoder
from extproc.turn import completion
from extproc.turn.answer_stream import AnswerStream
from extproc.turn.large_chunk import parts_of_chunk
from extproc.turn.output import Output, Said
from extproc.turn.repeated_chunk import RepeatedChunk
from extproc.turn.spec import ResponseSpec
from extproc.turn.tally import Tally, Violations
from extproc.turn.usage import Sent, StreamCount, counted, estimated, written

Json: TypeAlias = dict[str, Any]

_LARGE_CHUNK = 8192
"""Bytes of a chunk that is read in parts."""


class AnswerWriter(Protocol):
    """Writes one answer in a client's dialect: `whole`, or a stream that ends with `end` or `fail`."""

    def chunk(self, chunk: Json, data: bytes, said: Sequence[Said], /) -> bytes:
        """A chunk of the backend's stream: its object, its bytes, and what each of its choices says, if it has any."""

    def comment(self, comment: Comment, /) -> bytes:
        """The backend keeps the connection alive."""

    def end(self, count: StreamCount) -> bytes:
        """The stream is complete. Raises ApiError (502) where that can't be written."""

    def fail(self, error: ApiError) -> bytes:
        """The stream ends here, with an error."""

    def whole(self, body: bytes, completion: Json, said: Sequence[Said], usage: Json | None, /) -> bytes:
        """A completion: its bytes and its object, and what each of its choices says. `usage` is what it cost, which
        may be an estimate. Raises ApiError (502)."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A whole completion, as the client gets it."""

    body: bytes
    """The very bytes of the backend when nothing had to change."""
    usage: Json | None
    """The backend's own count, if it sent one."""
    estimated: bool
    """The client gets an estimate for want of one."""
    tally: Tally
    called: bool
    """The model made a call, in each choice, and was not cut off."""
    cost: Json | None = None
    """What counts against a limit, where something does: the backend's count, or the estimate."""

    @property
    def violations(self) -> Violations:
        return self.tally.violations


def rewrite_completion(body: bytes, spec: ResponseSpec, writer: AnswerWriter, sent: Sent | None = None) -> Rewritten:
    """The completion that the client gets for the backend's.

    It has a count in any case where it is known what was `sent`. Raises ApiError (502) when the body is no chat
    completion, or holds a call that the client is not to get. The latter has the call's fault as its code, and counts
    as that one fault.
    """
    answer, choices = completion.read_completion(body, spec.choices)
    usage = count = counted(answer.get("usage"))
    if count is None and sent is not None:
        usage = estimated(sent, written(message for _, message in choices))
    checker, tally = ArgumentChecker(spec.callable_tools), Tally()
    outputs = [Output(spec, checker, tally) for _ in choices]
    said: list[Said] = []
    for index, (output, (choice, message)) in enumerate(zip(outputs, choices, strict=True)):
        said.append(output.say(index, message, choice))
        if (error := said[-1].error) is not None:
            raise error
    if spec.hides_logprobs:  # they are in the answer no more
        body = completion.encoded(answer)
    if spec.tools and len(body) <= _LARGE_CHUNK:
        tally.last.append(body)
    called = all(output.called for output in outputs)
    cost = usage if spec.counted else None
    return Rewritten(writer.whole(body, answer, said, usage), count, usage is not count, tally, called, cost)


class StreamedAnswer(AnswerStream):
    """One streamed completion, rewritten for its client, who gets a count that it asked for in any case where it is
    known what was `sent`."""

    def __init__(self, spec: ResponseSpec, writer: AnswerWriter, sent: Sent | None = None) -> None:
        super().__init__(spec, sent)
        self._writer = writer
        self._checker = ArgumentChecker(spec.callable_tools)
        self._decoder = SseDecoder()
        self._repeated = RepeatedChunk()
        self._outputs: dict[int, Output] = {}
        self._ended = False
        self._last = self.tally.last if spec.tools else None

    @property
    def begun(self) -> bool:
        return bool(self._outputs)

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def called(self) -> bool:
        return bool(self._outputs) and all(output.called for output in self._outputs.values())

    @property
    def is_decided(self) -> bool:
        return any(output.begins_well for output in self._outputs.values())

    @property
    def unfinished(self) -> int:
        return self._decoder.held

    @property
    def held(self) -> int:
        return self._decoder.held + sum(output.held for output in self._outputs.values())

    def feed(self, piece: bytes) -> bytes:
        if self._last is not None:
            self._last.append(piece)
        if not (self._ended or self._decoder.held) and self._repeated.read(piece):
            return self._again()
        return b"".join(self.steps(piece))

    def steps(self, piece: bytes) -> Iterator[bytes]:
        if not self._ended:
            yield from self._rewritten(self._decoder.feed(piece))

    def close(self) -> bytes:
        """The backend's stream has ended. A stream that ended before its choices did is an error, and says so."""
        out = b"".join(self._rewritten(self._decoder.close()))
        return out if self._ended else out + self._complete("the stream ended before the answer was complete.")

    def fail(self, error: ApiError) -> bytes:
        if self._ended:
            return b""
        self._ended = True
        self.error = error.caught()
        if error.code is not None and error.code in CALL_VIOLATIONS and not self.violations:  # found by what writes it
            self.violations.found(error.code, error.message)
        return self._writer.fail(error)

    def _complete(self, otherwise: str) -> bytes:
        """The end of an answer that is whole, or an error that says what is wrong `otherwise`."""
        if not self._outputs or not all(output.finished for output in self._outputs.values()):
            return self.fail(backend_garbage(otherwise))
        if len(self._outputs) < self._spec.choices:
            return self.fail(backend_garbage(completion.too_few(len(self._outputs), self._spec.choices)))
        try:
            end = self._writer.end(self._count)
        except ApiError as error:
            return self.fail(error)
        self._ended = True
        return end

    def _rewritten(self, events: list[ServerEvent]) -> Iterator[bytes]:
        out: list[bytes] = []
        for event in events:
            if self._ended:
                break
            match event:
                case Comment():
                    out.append(self._writer.comment(event))
                case Data(data) if data.strip() == DONE:
                    out.append(self._complete("the stream ended without a finish_reason."))
                case Data(data):
                    try:
                        chunk, came = completion.read_chunk(data), data
                        if self._spec.model and chunk.get("model") != self._spec.model:
                            chunk["model"] = self._spec.model
                            data = completion.encoded(chunk)
                        if len(data) > _LARGE_CHUNK:
                            for part in parts_of_chunk(chunk):
                                yield b"".join(out)
                                out = [self._chunk(part, orjson.dumps(part))]
                        else:
                            out.append(self._chunk(chunk, data))
                            if not self._ended and not self._spec.hides_logprobs:  # as it came it has them
                                self._repeated.learn(came, data, chunk)
                    except ApiError as error:
                        out.append(self.fail(error))
        yield b"".join(out)

    def _again(self) -> bytes:
        """The chunk that was repeated, with its new content: what `_chunk` does with it, and nothing that is known."""
        repeated = self._repeated
        self.chunks += 1
        self._count.wrote(repeated.index, repeated.delta)
        try:
            said = self._outputs[repeated.index].say(repeated.index, repeated.delta, repeated.choice)
            written = self._writer.chunk(repeated.chunk, repeated.data, (said,))
        except ApiError as error:
            return self.fail(error)
        return written if said.error is None else written + self.fail(said.error)

    def _chunk(self, chunk: Json, data: bytes) -> bytes:
        """`data` is the chunk, as it may be passed on."""
        if self._ended:
            return b""
        self._count.take(chunk)
        self.chunks += bool(chunk["choices"])
        said: list[Said] = []
        for choice in chunk["choices"]:
            index, delta = completion.read_choice(choice)
            output = self._outputs.get(index)
            if output is None:
                output = self._outputs[index] = Output(self._spec, self._checker, self.tally)
            self._count.wrote(index, delta)
            said.append(output.say(index, delta, choice))
            if said[-1].error is not None:
                break
        if self._spec.hides_logprobs:  # they are in the chunk no more
            data = completion.encoded(chunk)
        written = self._writer.chunk(chunk, data, said)
        return written + self.fail(said[-1].error) if said and said[-1].error is not None else written

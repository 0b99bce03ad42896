"""How the answers to one request are read, what is counted of them, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from extproc.contract.errors import ANSWER_VIOLATIONS, ApiError
from extproc.exchange.effects import ReadCompletion
from extproc.exchange.request import RequestHalf
from extproc.surfaces import streamed_answer
from extproc.turn.answer import Rewritten
from extproc.turn.answer_stream import AnswerStream
from extproc.turn.retry import Fault, fault
from extproc.turn.spec import ResponseSpec
from extproc.turn.tally import Tally
from extproc.turn.upstream import UpstreamRequest

LARGE_ANSWER = 8 * 1024
"""Bytes of an answer that is read at once: if all of it is markup, each takes ten times what it takes in a request."""


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """A stream as the client gets it from here to its end."""

    answer: AnswerStream
    piece: bytes


Answer: TypeAlias = Rewritten | ApiError | StreamEnd
"""What the client can get: a whole answer, an error in its place, or what is left of a stream."""


class AnswerReader:
    """Of one exchange, for the first answer and the second. Only what is prepared has an answer to be read."""

    def __init__(self, request: RequestHalf) -> None:
        self._request = request
        self.stats = request.stats

    @property
    def prepared(self) -> UpstreamRequest:
        assert self._request.prepared is not None  # nothing of an answer is wanted before
        return self._request.prepared

    @property
    def spec(self) -> ResponseSpec:
        assert self.prepared.answer is not None  # else the answer had been let pass
        return self.prepared.answer

    def whole(self, data: bytes, coding: str = "") -> ReadCompletion:
        """The work that reading a body is."""
        limit = self._request.context.config.limits.max_body_bytes
        return ReadCompletion(data, coding, limit, self.spec, self.prepared.sent, self._request.leases.client)

    def stream(self) -> AnswerStream:
        """What is to be fed with a stream."""
        return streamed_answer(self.spec, self.prepared.sent)

    def count(self, completion: Rewritten | ApiError) -> Fault | None:
        """Count what a backend's completion would become. Returns why the client shouldn't get it, if it shouldn't."""
        if isinstance(completion, Rewritten):
            self.stats.answered(completion.usage, completion.tally, completion.cost)
            return fault(completion.tally, self.spec)
        if completion.code not in ANSWER_VIOLATIONS:
            return None
        self.stats.answered(None, Tally.of(completion.code))  # a call that the client is not to get
        return Fault(completion.message) if not self.spec.finds_made_up else None

    def count_stream(self, answer: AnswerStream) -> Fault | None:
        """The same of a stream that has ended."""
        self.stats.stream_answered(answer)
        failed = answer.error is not None and answer.error.code not in ANSWER_VIOLATIONS
        return None if failed else fault(answer.tally, self.spec)

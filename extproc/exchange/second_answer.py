"""The answer of a backend that was asked once more, because a call was required and isn't there, a tool was made up, or
the model was unsure of its call. Of the two the client gets the better one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from extproc.contract.errors import ApiError
from extproc.exchange import streaming
from extproc.exchange.effects import BackendResponse, Breathe, ReadCompletion
from extproc.exchange.reading import LARGE_ANSWER, Answer, AnswerReader, StreamEnd
from extproc.turn.answer import Rewritten
from extproc.turn.answer_stream import AnswerStream
from extproc.turn.retry import is_better

Work: TypeAlias = Breathe | ReadCompletion
"""What has to be done before it is known which answer the client gets."""


class SecondAnswer:
    """One that is waited for, and then read; `first` is what the client gets should it be no better."""

    def __init__(self, reader: AnswerReader, first: Answer) -> None:
        self._reader = reader
        self._first = first
        self._stream: tuple[AnswerStream, Iterator[streaming.Step]] | None = None

    @property
    def amid_stream(self) -> bool:
        """Whether it has to `go_on`."""
        return self._stream is not None

    def came(self, response: BackendResponse | None) -> Work | Answer:
        """What the backend says; None if nothing could be had of it."""
        if response is None or response.status != 200:
            return self._chosen(None)
        if isinstance(self._first, StreamEnd):
            answer = self._reader.stream()
            self._stream = answer, streaming.second_answer(answer, response.body)
            return self.go_on()
        work = self._reader.whole(response.body)
        return work if len(response.body) > LARGE_ANSWER else self.read(work.perform())

    def read(self, completion: Rewritten | ApiError) -> Answer:
        """What came of reading a whole one."""
        self._reader.count(completion)
        better = isinstance(completion, Rewritten) and self._is_better(completion)
        return self._chosen(completion if better else None)

    def go_on(self) -> Work | Answer:
        """The next part of a stream."""
        assert self._stream is not None  # it is being read
        answer, steps = self._stream
        step = next(steps)
        if step.more:
            return Breathe()
        self._stream = None
        self._reader.count_stream(answer)
        better = answer.error is None and self._is_better(answer)
        return self._chosen(StreamEnd(answer, step.piece) if better else None)

    def _is_better(self, answer: Rewritten | AnswerStream) -> bool:
        first = self._first.answer if isinstance(self._first, StreamEnd) else self._first
        tally = first.tally if not isinstance(first, ApiError) else None
        return is_better(answer.tally, self._reader.spec, tally, called=answer.called)

    def _chosen(self, second: Answer | None) -> Answer:
        self._reader.stats.retried(helped=second is not None)
        return second or self._first

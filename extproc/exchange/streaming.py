"""A streamed answer on its way through one exchange: its coding undone, in steps that no other has to wait for.

Bytes in, bytes out: what becomes of them as messages to Envoy is the exchange's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from extproc.contract.errors import backend_garbage
from extproc.exchange.content_coding import Decoder, UnreadableCodingError
from extproc.turn.answer_stream import AnswerStream

STEP = 4096
"""Bytes of a stream that are read at once: some 20 events, or 100 as short as can be, which take 5 ms."""
LARGEST_EVENT = 256 * 1024
"""Bytes of one event of a stream, which is decoded at once. One that has a whole call in it is some kilobytes long."""
_LARGE_PIECE = 64 * 1024
"""Bytes that are given on before the rest of a piece is read."""


@dataclass(frozen=True, slots=True)
class Step:
    """What came of a part of a piece."""

    piece: bytes
    more: bool
    """The rest of the piece comes with the next step, when others had their turn."""


class StreamedResponse:
    """One stream. `feed` a piece, and while its step has `more`, call `go_on`."""

    def __init__(self, answer: AnswerStream, decoder: Decoder, *, limit: int, held: bool, whole: bool) -> None:
        """`limit` is what may be kept of it, in bytes.

        `held`: another answer may have to take its place, so that nothing leaves before its end, or before it is
        decided that none has to. `whole`: it comes in one piece, and leaves as one.
        """
        self.answer = answer
        self._decoder = decoder
        self._limit = limit
        self._whole = whole
        self._held = bytearray() if held else None
        self._steps: Iterator[Step] | None = None

    @property
    def amid_piece(self) -> bool:
        """Whether it has to `go_on`."""
        return self._steps is not None

    @property
    def is_held(self) -> bool:
        """Whether nothing of it has left."""
        return self._held is not None

    def feed(self, data: bytes) -> Step:
        """Read the next piece, or a part of it."""
        small = not self._decoder.coding and len(data) + self.answer.unfinished <= STEP
        if small and not self._whole:
            return Step(self._released(self.answer.feed(data)), more=False)
        self._steps = self._in_steps(data)
        return self.go_on()

    def go_on(self) -> Step:
        """Read the next part of the piece."""
        assert self._steps is not None  # the last step had more
        step = next(self._steps)
        if not step.more:
            self._steps = None
        return step

    def end(self, error: bytes = b"") -> bytes:
        """The rest of what the client gets, and all that was held. `error` ends it in the place of its own end."""
        return self._all_held() + (error or self.answer.close())

    def _all_held(self) -> bytes:
        held, self._held = self._held, None
        return bytes(held or b"")

    def close(self) -> None:
        """Let go of what a piece had left."""
        self._steps = None

    def _in_steps(self, data: bytes) -> Iterator[Step]:
        """What comes of a large piece, or one that may become large."""
        answer = self.answer
        piece = b""
        try:
            for part in self._decoder.steps(data, STEP):
                if answer.ended:
                    break
                for rewritten in answer.steps(part):
                    piece += rewritten
                    large = len(piece) > _LARGE_PIECE
                    yield Step(self._released(piece) if large else b"", more=True)
                    piece = b"" if large else piece
                if answer.unfinished > LARGEST_EVENT or answer.held > self._limit:
                    piece += answer.fail(backend_garbage("an event of the stream is too large."))
        except UnreadableCodingError as error:
            piece += answer.fail(backend_garbage(str(error)))
        yield Step(self._released(piece), more=False)

    def _released(self, piece: bytes) -> bytes:
        """What may leave of it now."""
        if self._held is None:
            return piece
        self._held += piece
        # Nothing of this size is only a call.
        leaves = self.answer.is_decided or len(self._held) > self._limit
        return self._all_held() if leaves and not self._whole else b""


def second_answer(answer: AnswerStream, data: bytes) -> Iterator[Step]:
    """All of a stream that came at once; all of it is in the last step."""
    piece = bytearray()
    for start in range(0, len(data), STEP):
        for rewritten in answer.steps(data[start : start + STEP]):
            if start:
                yield Step(b"", more=True)
            piece += rewritten
    piece += answer.close()
    yield Step(bytes(piece), more=False)

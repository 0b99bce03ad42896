"""What an answer has cost, as it is told Envoy where that counts against a limit (`extproc.envoy.global_limits`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extproc.exchange.content_coding import Decoder, UnreadableCodingError
from extproc.exchange.protocol import content_length, may_be_an_answer
from extproc.exchange.replies import with_metadata
from extproc.turn.answer_stream import AnswerStream
from extproc.turn.spec import ResponseSpec
from extproc.turn.usage import Sent
from extproc.wire import ProcessingResponse

TOTAL = "total_tokens"
"""The member of the metadata that is counted."""
_CHUNKS_UNTOLD = 16
"""How many chunks a stream may go on without saying what it has cost."""


def can_be_read(fields: Mapping[str, str], limit: int) -> bool:
    """Whether an answer with such a head, of at most `limit` bytes, can be read for what it cost."""
    try:
        Decoder(fields.get("content-encoding", ""))
    except UnreadableCodingError:
        return False
    return content_length(fields) <= limit and may_be_an_answer(fields)


def tell_prompt(reply: ProcessingResponse, spec: ResponseSpec, sent: Sent | None) -> None:
    """Of an answer that can't be read, what its prompt has cost alone."""
    if spec.counted and sent is not None:
        with_metadata(reply, {TOTAL: sent.prompt_tokens()})


class RunningCost:
    """What a stream has cost so far, now and then: if its client leaves before its last event, nothing can be said any
    more."""

    def __init__(self) -> None:
        self._next = 1  # chunks of it

    def tell(self, replies: Sequence[ProcessingResponse], answer: AnswerStream) -> None:
        """With the last of these, if it is time."""
        if replies and answer.chunks >= self._next:
            self._next = answer.chunks + _CHUNKS_UNTOLD
            with_metadata(replies[-1], {TOTAL: answer.cost_so_far})

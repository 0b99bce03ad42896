"""What the client gets for a backend's answer, in the mode in which that one's body comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extproc.contract.errors import ApiError
from extproc.exchange.direction import Direction
from extproc.exchange.layout import BUFFERED, STREAMED
from extproc.exchange.phases import Phase
from extproc.exchange.protocol import HeadGoneError
from extproc.exchange.reading import Answer, StreamEnd
from extproc.exchange.replies import Replies, Step, mutation, whole_body, with_metadata
from extproc.exchange.request import RequestHalf
from extproc.names import STREAM_ENDED, USAGE_HEADER
from extproc.turn.answer import Rewritten
from extproc.turn.answer_stream import AnswerStream
from extproc.wire import ProcessingResponse


class ClientAnswer:
    """Of one exchange, from when the answer's body is wanted."""

    def __init__(self, request: RequestHalf, way: Direction, status: int, *, unsure: bool) -> None:
        """`status` is that of its head. `unsure`: the head went out with another, which the body's reply makes good."""
        self._request = request
        self._stats = request.stats
        self._way = way
        self._status = status
        self._unsure = unsure
        self.told = False
        """Envoy knows what came of the stream, whose end the client has."""

    def give(self, answer: Answer, *, trailers: bool = False) -> Step:
        """Raises HeadGoneError. `trailers`: those of the answer end it."""
        match answer:
            case ApiError():
                return self.refuse(answer)
            case Rewritten():
                fields = {USAGE_HEADER: "estimated"} if answer.estimated else {}
                return Phase.ENDED, self._instead(answer.body, fields, self._stats.complete())
            case StreamEnd():
                metadata = self.tell(answer.answer)
                if self._way.mode is BUFFERED:
                    return Phase.ENDED, self._instead(answer.piece, {}, metadata)
                replies = self._way.last(answer.piece, trailers=trailers)
                with_metadata(replies[-1], metadata)
                return Phase.ENDED, [*replies]

    def tell(self, answer: AnswerStream) -> Mapping[str, Any]:
        """What Envoy is told of a stream whose end leaves with the same reply: nothing, where it knows."""
        if self.told:
            return {}
        self.told = True
        told = self._stats.complete() if answer.error is None else self._stats.stream_error(answer.error)
        return {**told, STREAM_ENDED: True}

    def refuse(self, error: ApiError) -> Step:
        """Give an error in the place of the answer. Raises HeadGoneError where it has another one's head."""
        if self._way.mode is STREAMED:
            self._stats.error(error)
            raise HeadGoneError(f"the answer's status has left, and it is an error: {error.code or error.type}")
        return self._request.refuse(error)

    def fail(self, error: ApiError) -> Step:
        """Give the error that the answer is, in the client's dialect. Raises HeadGoneError as `refuse` does."""
        if self._way.mode is STREAMED and error.status != self._status:
            return self.refuse(error)
        metadata = self._stats.error(error)
        fields = {":status": str(error.status), "content-type": "application/json"}
        return Phase.ENDED, self._instead(self._request.surface.error_body(error), fields, metadata)

    def _instead(self, body: bytes, fields: Mapping[str, str], metadata: Mapping[str, Any]) -> Replies:
        """The whole body of the answer, with the status and coding that its head went out without."""
        way = self._way
        if way.mode is BUFFERED:
            told = {":status": str(self._status), **fields} if self._unsure else fields
            remove = ("content-encoding",) if self._unsure else ()
            return [with_metadata(ProcessingResponse(response_body=whole_body(body, told, remove=remove)), metadata)]
        opening, common = way.opening()
        if way.full_duplex:
            common.header_mutation.MergeFrom(mutation(fields))
        return [*way.whole(with_metadata(opening, metadata), body)]

"""One direction of an exchange, the request or the answer: what of it has come, and so what may be said next.

By the mode of its body (`exchange.layout`):

                        BUFFERED             STREAMED                  FULL_DUPLEX_STREAMED
    the body comes      in one message       in pieces                 in pieces
    a piece is kept     -                    by an empty reply         without a word
    the head            leaves with the      has left when the         is withheld if its reply is, and leaves
                        body's reply         first piece comes         before the body
    a body as a whole   the body's reply     the last piece's reply    the head's reply, then pieces
    behind its end      an empty message     an empty message          Envoy may repeat the end, which gets no
                        gets an empty reply  gets an empty reply       reply
    trailers            have their own       have their own message;   are the body's end; their reply is the last
                        message              what is kept by then is
                                             lost, so a body ends with
                                             its `content-length`

Facts: docs/envoy.md.
"""

from __future__ import annotations

from typing import Literal

from extproc.exchange.layout import BUFFERED, FULL_DUPLEX, BodyMode
from extproc.exchange.replies import request_streamed, streamed
from extproc.wire import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    HttpBody,
    ProcessingResponse,
    TrailersResponse,
)


class TooLargeError(Exception):
    """More of a body has come than may be kept."""


class Direction:
    """Of one exchange."""

    __slots__ = ("_held", "_over", "_request", "_trailers", "announced", "head", "mode")

    def __init__(self, way: Literal["request", "response"], mode: BodyMode) -> None:
        self.mode = mode
        self.head: ProcessingResponse | None = None
        """The reply to its head, while that is withheld."""
        self.announced = 0
        """The body's `content-length`, where its end may not be told: 0, if there is none."""
        self._request = way == "request"
        self._held = bytearray()  # what has come of the body, or what of it is to go on
        self._over = False  # its end went on
        self._trailers = False  # have come as the body's end

    # What comes

    def take(self, body: HttpBody, limit: int) -> bytes | None:
        """The whole body; None while more of it is to come. Raises TooLargeError."""
        if self.mode is BUFFERED:
            return body.body
        self._held += body.body
        if len(self._held) > limit:
            raise TooLargeError
        return self._taken() if body.end_of_stream or 0 < self.announced == len(self._held) else None

    def take_trailers(self) -> bytes:
        """The whole body, which they end: in full duplex."""
        self._trailers = True
        return self._taken()

    def _taken(self) -> bytes:
        held, self._held = self._held, bytearray()
        return bytes(held)

    @property
    def holds(self) -> bool:
        """Whether something of the body is kept."""
        return bool(self._held)

    # What is said

    @property
    def full_duplex(self) -> bool:
        """Whether replies may come in any number."""
        return self.mode is FULL_DUPLEX

    def withhold(self, head: ProcessingResponse) -> None:
        """Keep the reply to its head, in full duplex."""
        self.head = head

    def kept(self) -> list[ProcessingResponse]:
        """What a piece gets of which nothing goes on yet, or nothing at all."""
        return [] if self.mode is FULL_DUPLEX else [self._body_reply(b"")]

    def behind(self) -> list[ProcessingResponse]:
        """What a message gets that changes nothing: an empty one behind the body's end, or one that goes on."""
        return [] if self.mode is FULL_DUPLEX else [self._body_reply(None)]

    def part(self, data: bytes, *, more: bool) -> list[ProcessingResponse]:
        """This goes on of the body, and what there is `more` of the same piece later."""
        if self.mode is FULL_DUPLEX:
            return self._streamed(data) if data else []
        self._held += data
        return [] if more or self.mode is BUFFERED else [self._body_reply(self._taken())]

    def last(self, data: bytes, *, trailers: bool = False) -> list[ProcessingResponse]:
        """This ends a body of which parts have gone on; with `trailers` they do."""
        if self.mode is not FULL_DUPLEX:
            return [self._body_reply(self._taken() + data)]
        if not trailers:
            return self._streamed(data, end_of_stream=True)
        return [*(self._streamed(data) if data else []), self._trailers_reply()]

    def opening(self) -> tuple[ProcessingResponse, CommonResponse]:
        """The first reply by which the message goes on as a whole, and what of it is about the head."""
        if self.head is not None:
            reply, self.head = self.head, None
            return reply, (reply.request_headers if self._request else reply.response_headers).response
        reply = ProcessingResponse(request_body=BodyResponse()) if self._request else _response_body()
        return reply, (reply.request_body if self._request else reply.response_body).response

    def whole(self, opening: ProcessingResponse, body: bytes | None) -> list[ProcessingResponse]:
        """All of these replies. A `body` of None stays as it is, where nobody has taken it apart."""
        if self.mode is FULL_DUPLEX:
            return [opening, *self.last(body or b"", trailers=self._trailers)]
        if body is not None:  # filled in place: a message that is put into another is copied
            message = opening.request_body if self._request else opening.response_body
            message.response.body_mutation.body = body
        return [opening]

    def as_it_is(self, body: HttpBody) -> list[ProcessingResponse]:
        """This piece goes on unchanged."""
        if self._over or self.mode is not FULL_DUPLEX:
            return self.behind()
        self._over = body.end_of_stream
        return self._streamed(body.body, end_of_stream=body.end_of_stream)

    def _streamed(self, data: bytes, *, end_of_stream: bool = False) -> list[ProcessingResponse]:
        send = request_streamed if self._request else streamed
        return send(data, end_of_stream=end_of_stream)

    def _body_reply(self, body: bytes | None) -> ProcessingResponse:
        common = CommonResponse(body_mutation=BodyMutation(body=body)) if body is not None else CommonResponse()
        reply = BodyResponse(response=common)
        return ProcessingResponse(request_body=reply) if self._request else ProcessingResponse(response_body=reply)

    def _trailers_reply(self) -> ProcessingResponse:
        if self._request:
            return ProcessingResponse(request_trailers=TrailersResponse())
        return ProcessingResponse(response_trailers=TrailersResponse())


def _response_body() -> ProcessingResponse:
    return ProcessingResponse(response_body=BodyResponse())

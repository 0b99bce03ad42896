"""What becomes of the rest of an exchange of which nothing is to be changed, where the processor can't leave it.

Who leaves amid a body in full duplex takes it along: so each message gets the reply that lets it go on as it is. The
two directions know nothing of each other here.
"""

from __future__ import annotations

from typing import Any

from extproc.exchange.direction import Direction
from extproc.exchange.phases import Input, Phase
from extproc.exchange.replies import Step
from extproc.exchange.request import RequestHalf
from extproc.wire import HeadersResponse, HttpBody, ProcessingResponse, TrailersResponse


class Passing:
    """Of one exchange."""

    def __init__(self, request: RequestHalf) -> None:
        self._request = request
        self._answer = Direction("response", request.layout.response)

    def take(self, kind: Input, value: Any) -> Step:
        """The reply to a message, and whether more of them have to be given."""
        match kind:
            case Input.REQUEST_BODY:
                return self._request_body(value)
            case Input.REQUEST_TRAILERS:
                return self._request.rest(), [ProcessingResponse(request_trailers=TrailersResponse())]
            case Input.RESPONSE_HEADERS:
                return Phase.PASSING, [ProcessingResponse(response_headers=HeadersResponse())]
            case Input.RESPONSE_BODY:
                return Phase.PASSING, [*self._answer.as_it_is(value)]
            case _:
                return Phase.PASSING, [ProcessingResponse(response_trailers=TrailersResponse())]

    def _request_body(self, body: HttpBody) -> Step:
        way = self._request.way
        if self._request.prepared is not None or way.head is not None:  # its end came before, or an answer
            return Phase.PASSING, [*way.behind()]
        return self._request.rest(more=not body.end_of_stream), [*way.as_it_is(body)]

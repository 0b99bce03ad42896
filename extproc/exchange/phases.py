"""The phases of one exchange, and what may come in each: the table that `exchange.machine` goes by.

An input is a message of Envoy's, or the result of an effect (`exchange.effects`), or that nothing came for too long.
One for which a phase has no row is a protocol error: an empty reply would corrupt what Envoy does next. Whoever
handles an input names the phase that follows, and the machine holds it to the row.

The layout that it is made for: request body BUFFERED, response body NONE; at request_headers it asks for the head of
the answer, and at response_headers that decides, for this exchange alone, whether the body is wanted. In which others
an exchange goes through the same phases is the table of `exchange.layout`; what is said in each, that of
`exchange.direction`. Facts: measurements on Envoy 1.40 (docs/envoy.md).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class Phase(enum.Enum):
    """What the exchange waits for."""

    REQUEST_HEADERS = "request headers"
    REQUEST_BODY = "request body"
    PREPARING = "the request to be read"
    RESPONSE_HEADERS = "response headers"
    RESPONSE_BODY = "response body"
    RESPONSE_STREAM = "response stream"
    READING = "the answer to be read"
    RETRYING = "the backend's second answer"
    PASSING = "the rest, which goes on as it is"
    PASSED_BY = "nothing: the rest goes past the processor"
    ENDED = "nothing: the response is complete"

    __hash__ = object.__hash__  # members are single; enum's own is Python code, and the table is asked for each token


class Input(enum.Enum):
    """What an exchange is told. The messages are called as in Envoy's `ProcessingRequest`."""

    REQUEST_HEADERS = "request_headers"
    REQUEST_BODY = "request_body"
    REQUEST_TRAILERS = "request_trailers"
    RESPONSE_HEADERS = "response_headers"
    RESPONSE_BODY = "response_body"
    RESPONSE_TRAILERS = "response_trailers"
    REQUEST_READ = "what came of Prepare"
    COMPLETION_READ = "what came of ReadCompletion"
    BACKEND_RESPONSE = "what came of CallBackend"
    BREATHED = "what came of Breathe"
    IDLE_TIMEOUT = "nothing was said for too long"

    __hash__ = object.__hash__


def _to(*phases: Phase) -> frozenset[Phase]:
    return frozenset(phases)


TRANSITIONS: Mapping[Phase, Mapping[Input, frozenset[Phase]]] = {
    Phase.REQUEST_HEADERS: {
        Input.REQUEST_HEADERS: _to(Phase.REQUEST_BODY, Phase.PASSING, Phase.PASSED_BY, Phase.ENDED),
    },
    Phase.REQUEST_BODY: {
        Input.REQUEST_BODY: _to(
            Phase.REQUEST_BODY,  # a piece
            Phase.PREPARING,
            Phase.RESPONSE_HEADERS,
            Phase.PASSING,
            Phase.PASSED_BY,
            Phase.ENDED,
        ),
        # In full duplex they end the body; and a body can be nothing but trailers.
        Input.REQUEST_TRAILERS: _to(
            Phase.PREPARING, Phase.RESPONSE_HEADERS, Phase.PASSING, Phase.PASSED_BY, Phase.ENDED
        ),
        # A response can come before the request was read whole: Envoy's own, such as a 413.
        Input.RESPONSE_HEADERS: _to(Phase.PASSING, Phase.PASSED_BY, Phase.RESPONSE_BODY, Phase.ENDED),
    },
    Phase.PREPARING: {
        Input.REQUEST_BODY: _to(Phase.PREPARING),
        Input.REQUEST_READ: _to(Phase.RESPONSE_HEADERS, Phase.PASSING, Phase.PASSED_BY, Phase.ENDED),
    },
    Phase.RESPONSE_HEADERS: {
        Input.REQUEST_BODY: _to(Phase.RESPONSE_HEADERS),
        Input.REQUEST_TRAILERS: _to(Phase.RESPONSE_HEADERS),
        Input.RESPONSE_HEADERS: _to(
            Phase.PASSING, Phase.PASSED_BY, Phase.RESPONSE_STREAM, Phase.RESPONSE_BODY, Phase.ENDED
        ),
        Input.RESPONSE_TRAILERS: _to(Phase.RESPONSE_HEADERS),
    },
    Phase.RESPONSE_STREAM: {
        Input.REQUEST_BODY: _to(Phase.RESPONSE_STREAM),
        Input.RESPONSE_BODY: _to(Phase.RESPONSE_STREAM, Phase.RETRYING, Phase.ENDED),
        Input.RESPONSE_TRAILERS: _to(Phase.ENDED),
        Input.BREATHED: _to(Phase.RESPONSE_STREAM, Phase.RETRYING, Phase.ENDED),
        Input.IDLE_TIMEOUT: _to(Phase.ENDED),
    },
    Phase.RESPONSE_BODY: {
        Input.REQUEST_BODY: _to(Phase.RESPONSE_BODY),
        Input.RESPONSE_BODY: _to(Phase.RESPONSE_BODY, Phase.READING, Phase.RETRYING, Phase.ENDED),
        Input.RESPONSE_TRAILERS: _to(Phase.READING, Phase.RETRYING, Phase.ENDED),
    },
    Phase.READING: {
        Input.RESPONSE_BODY: _to(Phase.READING),
        Input.COMPLETION_READ: _to(Phase.RETRYING, Phase.ENDED),
    },
    Phase.RETRYING: {
        Input.RESPONSE_BODY: _to(Phase.RETRYING),
        Input.BACKEND_RESPONSE: _to(Phase.RETRYING, Phase.ENDED),
        Input.COMPLETION_READ: _to(Phase.ENDED),
        Input.BREATHED: _to(Phase.RETRYING, Phase.ENDED),
    },
    Phase.PASSING: {
        # Two directions that know nothing of each other, until the request's is over and the processor may leave.
        Input.REQUEST_BODY: _to(Phase.PASSING, Phase.PASSED_BY),
        Input.REQUEST_TRAILERS: _to(Phase.PASSING, Phase.PASSED_BY),
        Input.RESPONSE_HEADERS: _to(Phase.PASSING),
        Input.RESPONSE_BODY: _to(Phase.PASSING),
        Input.RESPONSE_TRAILERS: _to(Phase.PASSING),
    },
    Phase.PASSED_BY: {
        Input.REQUEST_TRAILERS: _to(Phase.PASSED_BY),
        Input.RESPONSE_TRAILERS: _to(Phase.PASSED_BY),
    },
    Phase.ENDED: {
        # What was on its way when the answer left.
        Input.REQUEST_BODY: _to(Phase.ENDED),
        Input.REQUEST_TRAILERS: _to(Phase.ENDED),
        Input.RESPONSE_BODY: _to(Phase.ENDED),  # Envoy may repeat the end of a stream that has ended
        Input.RESPONSE_TRAILERS: _to(Phase.ENDED),
    },
}

HINTS: Mapping[tuple[Phase, Input], str] = {
    **{
        (Phase.REQUEST_HEADERS, kind): "configure Envoy's processing_mode with request_header_mode SEND"
        for kind in (Input.REQUEST_BODY, Input.REQUEST_TRAILERS, Input.RESPONSE_HEADERS)
    },
    (
        Phase.RESPONSE_HEADERS,
        Input.RESPONSE_BODY,
    ): "configure Envoy's processing_mode with response_header_mode SEND, or allow_mode_override",
}
"""What to set where such an input comes, for which there is no row."""

"""The phases of one exchange, and what may come in each: the table that `exchange.machine` goes by.

An input is a message of Envoy's, or the result of an effect (`exchange.effects`), or that nothing came for too long.
One for which a phase has no row is a protocol error: an empty reply would corrupt what Envoy does next. Whoever
handles an input names the phase that follows, and the machine holds it to the row.

The layout that it is made for, and insists on: request body BUFFERED, response body NONE; at request_headers it asks
for the head of the answer, and at response_headers that decides, for this exchange alone, whether the body is wanted.
For routes without chat completions both may be NONE. Facts: measurements on Envoy 1.40 (docs/envoy.md).
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
        Input.REQUEST_HEADERS: _to(Phase.REQUEST_BODY, Phase.PASSED_BY, Phase.ENDED),
    },
    Phase.REQUEST_BODY: {
        Input.REQUEST_BODY: _to(Phase.PREPARING, Phase.RESPONSE_HEADERS, Phase.PASSED_BY, Phase.ENDED),
        Input.REQUEST_TRAILERS: _to(Phase.ENDED),  # a body can be nothing but trailers
        # A response can come before the request was read whole: Envoy's own, such as a 413.
        Input.RESPONSE_HEADERS: _to(Phase.PASSED_BY, Phase.RESPONSE_BODY, Phase.ENDED),
    },
    Phase.PREPARING: {
        Input.REQUEST_READ: _to(Phase.RESPONSE_HEADERS, Phase.PASSED_BY, Phase.ENDED),
    },
    Phase.RESPONSE_HEADERS: {
        Input.REQUEST_TRAILERS: _to(Phase.RESPONSE_HEADERS),
        Input.RESPONSE_HEADERS: _to(Phase.PASSED_BY, Phase.RESPONSE_STREAM, Phase.RESPONSE_BODY, Phase.ENDED),
        Input.RESPONSE_TRAILERS: _to(Phase.RESPONSE_HEADERS),
    },
    Phase.RESPONSE_STREAM: {
        Input.RESPONSE_BODY: _to(Phase.RESPONSE_STREAM, Phase.RETRYING, Phase.ENDED),
        Input.RESPONSE_TRAILERS: _to(Phase.ENDED),
        Input.BREATHED: _to(Phase.RESPONSE_STREAM, Phase.RETRYING, Phase.ENDED),
        Input.IDLE_TIMEOUT: _to(Phase.ENDED),
    },
    Phase.RESPONSE_BODY: {
        Input.RESPONSE_BODY: _to(Phase.READING, Phase.RETRYING, Phase.ENDED),
        Input.RESPONSE_TRAILERS: _to(Phase.ENDED),
    },
    Phase.READING: {
        Input.COMPLETION_READ: _to(Phase.RETRYING, Phase.ENDED),
    },
    Phase.RETRYING: {
        Input.BACKEND_RESPONSE: _to(Phase.RETRYING, Phase.ENDED),
        Input.COMPLETION_READ: _to(Phase.ENDED),
        Input.BREATHED: _to(Phase.RETRYING, Phase.ENDED),
    },
    Phase.PASSED_BY: {
        Input.REQUEST_TRAILERS: _to(Phase.PASSED_BY),
        Input.RESPONSE_TRAILERS: _to(Phase.PASSED_BY),
    },
    Phase.ENDED: {
        Input.RESPONSE_BODY: _to(Phase.ENDED),  # Envoy may repeat the end of a stream that has ended
        Input.RESPONSE_TRAILERS: _to(Phase.ENDED),
    },
}

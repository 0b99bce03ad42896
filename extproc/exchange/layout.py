"""How a host sends the two bodies: the body modes of its filter, and what becomes of an exchange in each pair of them.

    request \\ response    NONE      BUFFERED   STREAMED   FULL_DUPLEX_STREAMED
    NONE                  heads     -          -          -
    BUFFERED              asks      plays      plays      plays
    BUFFERED_PARTIAL      -         -          -          -
    STREAMED              asks*     plays*     plays*     plays*
    FULL_DUPLEX_STREAMED  -         plays      plays      plays

heads   for routes without models: whoever asks for one is refused
asks    the body of an answer comes if an override at its head asks for it; without tools it goes past the processor
plays   as it is configured, whether overrides are followed or not: none is needed
*       with one backend: a request's head has left before the model is known that decides where it goes
-       refused in the first reply

The host tells the modes in its first message (`protocol_config`, Envoy since 1.34); one that doesn't is taken for the
layout that the processor is made for, BUFFERED/NONE. Facts: measurements on Envoy 1.36 to 1.40 (docs/envoy.md).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from extproc.exchange.protocol import ProtocolError
from extproc.wire import ProcessingMode, ProtocolConfiguration


class BodyMode(enum.Enum):
    """Envoy's `ProcessingMode.BodySendMode`."""

    NONE = ProcessingMode.NONE
    """It goes past the processor."""
    STREAMED = ProcessingMode.STREAMED
    """In pieces, each of which waits for its one reply. The head has left before the first."""
    BUFFERED = ProcessingMode.BUFFERED
    """Whole. The head waits for its reply too."""
    BUFFERED_PARTIAL = ProcessingMode.BUFFERED_PARTIAL
    """As much of it as fits into the host's buffer."""
    FULL_DUPLEX_STREAMED = ProcessingMode.FULL_DUPLEX_STREAMED
    """In pieces, without waiting. Replies come in any number, behind that to the head, for which the head waits."""

    __hash__ = object.__hash__  # members are single, and enum's own is Python code


NONE, STREAMED, BUFFERED = BodyMode.NONE, BodyMode.STREAMED, BodyMode.BUFFERED
PARTIAL, FULL_DUPLEX = BodyMode.BUFFERED_PARTIAL, BodyMode.FULL_DUPLEX_STREAMED


class Layout:
    """One pair of body modes. There is one object for each."""

    __slots__ = ("asks", "past_us", "request", "response", "to_the_end")

    def __init__(self, request: BodyMode, response: BodyMode) -> None:
        self.request = request
        self.response = response
        self.asks = response is NONE
        """The body of an answer has to be asked for, by an override at its head."""
        followed = FULL_DUPLEX not in (request, response)  # else Envoy ignores all overrides
        self.to_the_end = _to_the_end(request, response) if followed else None
        """The override by which the request's body is wanted, and the head of its answer; bodies come as configured.

        Envoy may be configured to send the latter only when it is asked to: so the answers that it gives itself, before
        it has asked the processor (a wrong key, a limit, a body too large), cost the processor nothing.
        """
        self.past_us = {body: _past_us(request if body else NONE) if followed else None for body in (False, True)}
        """The one by which nothing more is wanted, but for the request's body if so."""

    def __str__(self) -> str:
        return f"{self.request.name}/{self.response.name}"


def _to_the_end(request: BodyMode, response: BodyMode) -> ProcessingMode:
    return ProcessingMode(
        request_header_mode=ProcessingMode.SEND,
        request_body_mode=request.value,
        request_trailer_mode=ProcessingMode.SEND,  # a body can be nothing but trailers
        response_header_mode=ProcessingMode.SEND,
        response_body_mode=response.value,
        response_trailer_mode=ProcessingMode.SEND,
    )


def _past_us(request: BodyMode) -> ProcessingMode:
    return ProcessingMode(
        request_body_mode=request.value,
        response_header_mode=ProcessingMode.SKIP,
        response_trailer_mode=ProcessingMode.SKIP,
    )


_MODES = "configure Envoy's processing_mode with request_body_mode BUFFERED or FULL_DUPLEX_STREAMED"
_RESPONSE = "response_body_mode NONE (and allow_mode_override), BUFFERED, STREAMED or FULL_DUPLEX_STREAMED"
_PARTIAL = "BUFFERED_PARTIAL, which may leave a body's end out"
_LAYOUTS: Mapping[tuple[int, int], Layout | str] = {
    (request.value, response.value): Layout(request, response) for request in BodyMode for response in BodyMode
} | {
    **{
        (NONE.value, response.value): "configure Envoy's processing_mode with response_body_mode NONE where "
        "request_body_mode is NONE, or with request_body_mode BUFFERED or FULL_DUPLEX_STREAMED; "
        f"it has NONE and {response.name}"
        for response in (STREAMED, BUFFERED, FULL_DUPLEX)
    },
    **{(mode.value, PARTIAL.value): f"{_MODES} and {_RESPONSE}; it has {_PARTIAL}" for mode in BodyMode},
    **{(PARTIAL.value, mode.value): f"{_MODES}; it has {_PARTIAL}" for mode in BodyMode},
    (FULL_DUPLEX.value, NONE.value): "configure Envoy's processing_mode with response_body_mode FULL_DUPLEX_STREAMED, "
    "BUFFERED or STREAMED, or with request_body_mode BUFFERED: where the request's body is FULL_DUPLEX_STREAMED, Envoy "
    "ignores the override that would ask for an answer's body",
}
"""By Envoy's numbers: the layout, or why it won't do and what to set."""

_own = _LAYOUTS[BUFFERED.value, NONE.value]
assert isinstance(_own, Layout)
OWN = _own
"""The one that `extproc envoy` configures."""


def layout_of(protocol: ProtocolConfiguration) -> Layout:
    """By what the host tells. Raises ProtocolError for one that won't do, and says what to set."""
    layout = _LAYOUTS.get((protocol.request_body_mode, protocol.response_body_mode))
    if layout is None:
        told = f"{_name(protocol.request_body_mode)} and {_name(protocol.response_body_mode)}"
        raise ProtocolError(f"{_MODES} and {_RESPONSE}; it has {told}")
    if isinstance(layout, str):
        raise ProtocolError(layout)
    if layout.asks and protocol.send_body_without_waiting_for_header_response:
        raise ProtocolError(
            "configure Envoy without send_body_without_waiting_for_header_response: it ignores overrides with it"
        )
    return layout


def many_backends() -> ProtocolError:
    """Raised where a request's body is STREAMED, and its model decides where it goes."""
    return ProtocolError(
        f"{_MODES}: it has STREAMED, with which a request's head has left before its model is known, and these models "
        "have more than one backend"
    )


def _name(mode: int) -> str:
    names = ProcessingMode.BodySendMode
    return names.Name(mode) if mode in names.values() else f"the unknown mode {mode}"

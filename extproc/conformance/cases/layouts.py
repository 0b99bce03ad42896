"""LAY: each pair of body modes, and what hosts do with `protocol_config` and overrides."""

from __future__ import annotations

from functools import partial

from extproc.conformance.cases.case import Session, Variant, cut, shaped
from extproc.conformance.cases.case import hosted as hosted_anywhere
from extproc.conformance.host.outcome import Ending, Outcome
from extproc.conformance.host.settings import REQUESTS, RESPONSES, BodyMode, HeaderMode, HostSettings, HttpExchange
from extproc.conformance.invariants import Level

NONE, STREAMED, BUFFERED, PARTIAL, FULL = BodyMode
_PIECES = shaped(cut(64), cut(64))
_CONFIG = "external_processor.proto ProtocolConfiguration"
_OVERRIDE = "external_processor.proto mode_override"
_SKIP = HeaderMode.SKIP
hosted = partial(hosted_anywhere, at_home=False)
"""These cases are about the layouts that they name."""


def _matrix_title(request: BodyMode, response: BodyMode) -> str:
    return f"request {request.name}, response {response.name}, as protocol_config says; bodies in pieces"


_MATRIX = tuple(
    hosted(
        f"LAY-{number:02}",
        Level.MUST,
        _matrix_title(request, response),
        _CONFIG,
        Variant(HostSettings(request, response), _PIECES),
        layout=f"{request.name}/{response.name}",
    )
    for number, (request, response) in enumerate(((a, b) for a in REQUESTS for b in RESPONSES), 1)
)


def _no_error(outcome: Outcome, _exchange: HttpExchange, _session: Session) -> str | None:
    if outcome.ending not in (Ending.COMPLETE, Ending.LEFT):
        return f"an observed exchange ends as {outcome.ending.value}"
    if outcome.closed is not None and outcome.closed.status != "OK":
        return f"the call ends with {outcome.closed}: Envoy answers 500 to live traffic"
    return None


_FOUR = ((BUFFERED, NONE), (BUFFERED, BUFFERED), (STREAMED, STREAMED), (FULL, FULL))

LAYOUTS = (
    *_MATRIX,
    *(
        hosted(
            f"LAY-{number}",
            Level.MUST,
            f"request {request.name}, response {response.name}, without protocol_config (Envoy before 1.34)",
            f"{_CONFIG}; envoyproxy/envoy#38755",
            Variant(HostSettings(request, response, protocol_config=False), _PIECES),
        )
        for number, (request, response) in enumerate(_FOUR, 21)
    ),
    hosted(
        "LAY-25",
        Level.MUST,
        "the host ignores mode_override",
        _OVERRIDE,
        *(Variant(HostSettings(*modes, allow_mode_override=False), _PIECES) for modes in _FOUR),
        Variant(
            HostSettings(BUFFERED, NONE, response_headers=_SKIP, allow_mode_override=False),
            _PIECES,
            "BUFFERED/NONE, no response headers",
        ),
    ),
    hosted(
        "LAY-26",
        Level.MUST,
        "the listener says full duplex, the route BUFFERED/NONE: overrides are ignored, protocol_config doesn't tell",
        "ext_proc.cc; DisableResponseModeOverrideByStreamedBodyMode",
        Variant(HostSettings(BUFFERED, NONE, listener=(FULL, FULL)), _PIECES),
    ),
    hosted(
        "LAY-27",
        Level.MUST,
        "allowed_override_modes lacks what is asked for",
        "ext_proc.proto allowed_override_modes; envoyproxy/envoy#38273",
        Variant(HostSettings(BUFFERED, NONE, allowed_response_modes=(NONE,)), _PIECES),
    ),
    hosted(
        "LAY-28",
        Level.MUST,
        "send_body_without_waiting_for_header_response: overrides will be ignored",
        _OVERRIDE,
        Variant(HostSettings(BUFFERED, NONE, send_body_without_waiting=True), _PIECES),
    ),
    hosted(
        "LAY-29",
        Level.MUST,
        "request headers SKIP: a body is the first message",
        "ext_proc.proto ProcessingMode",
        Variant(HostSettings(BUFFERED, BUFFERED, request_headers=_SKIP, attributes=True)),
    ),
    hosted(
        "LAY-30",
        Level.MUST,
        "nothing of the request is sent: response_headers is the first message",
        "ext_proc.proto ProcessingMode",
        Variant(HostSettings(NONE, NONE, request_headers=_SKIP)),
    ),
    hosted(
        "LAY-31",
        Level.MUST,
        "response headers SKIP, the response's body is sent",
        "ext_proc.proto ProcessingMode",
        Variant(HostSettings(BUFFERED, BUFFERED, response_headers=_SKIP)),
    ),
    hosted(
        "LAY-32",
        Level.SHOULD,
        "protocol_config with a body mode that doesn't exist (9): a refusal, no internal error",
        _CONFIG,
        Variant(HostSettings(BUFFERED, BUFFERED, told_modes=(9, 9))),
        odd=True,
    ),
    hosted(
        "LAY-33",
        Level.MUST,
        "observability_mode: no error, whatever is replied",
        "external_processor.proto observability_mode",
        Variant(HostSettings(NONE, NONE, observability=True)),
        Variant(HostSettings(STREAMED, STREAMED, observability=True), _PIECES),
        expect=_no_error,
    ),
)

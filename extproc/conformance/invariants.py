"""What must hold after every message of a processor, whatever the case: a table.

Sources: the comments of external_processor.proto, processing_mode.proto (envoy.*.ext_proc.v3) and Envoy's integration
tests, each by name in `source`. `consequence` is what Envoys since 1.36 were measured to make of a violation:
docs/conformance-envoys.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """As in RFC 2119. What breaks a MUST is a failure, what breaks a SHOULD a warning, a MAY is only told."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


@dataclass(frozen=True, slots=True)
class Invariant:
    """One row of the table."""

    id: str
    level: Level
    text: str
    source: str
    consequence: str


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that a reply broke, and how."""

    id: str
    detail: str

    @property
    def invariant(self) -> Invariant:
        return BY_ID[self.id]

    def __str__(self) -> str:
        return f"{self.id}: {self.detail} (Envoy: {self.invariant.consequence})"


_P, _PM = "external_processor.proto", "processing_mode.proto"
_MUST, _SHOULD, _MAY = Level.MUST, Level.SHOULD, Level.MAY

INVARIANTS = (
    Invariant(
        "INV-01",
        _MUST,
        "Outside full duplex each message gets exactly one reply, and so do headers and trailers in it",
        f"{_P} ProcessingResponse",
        "none: 504, or a hang in full duplex; a second one: 500, or behind the end ignored",
    ),
    Invariant(
        "INV-02",
        _MUST,
        "A reply is of its message's kind",
        f"{_P} ProcessingResponse",
        "500 `spurious_message`; trailers' replies in full duplex: a truncated body, as a success, or 500",
    ),
    Invariant(
        "INV-03",
        _MUST,
        "A reply has content, or nothing but `override_message_timeout`",
        f"{_P} `validate.required`",
        "500 `unhandled_message`",
    ),
    Invariant(
        "INV-04",
        _MUST,
        "In FULL_DUPLEX_STREAMED a body's reply carries `streamed_response`",
        f"{_PM} FULL_DUPLEX_STREAMED",
        "500, or a response that is cut; 1.39: 500 before the first of the body",
    ),
    Invariant(
        "INV-05",
        _MUST,
        "Outside FULL_DUPLEX_STREAMED no reply carries `streamed_response`",
        f"{_P} StreamedBodyResponse",
        "STREAMED: 500, or a response that is cut; BUFFERED: 500 with `content-length`, else the body stays as it was",
    ),
    Invariant(
        "INV-06",
        _MUST,
        "In full duplex replies come in the order headers, body, trailers",
        f"{_PM} FULL_DUPLEX_STREAMED; ServerSendOutOfOrderResponseDuplexStreamed",
        "500",
    ),
    Invariant(
        "INV-07",
        _MUST,
        "In full duplex the body's last reply sets `end_of_stream`, unless a trailers' reply ends it",
        f"{_P} StreamedBodyResponse",
        "hangs until the idle timeout",
    ),
    Invariant(
        "INV-08",
        _MUST,
        "In full duplex `end_of_stream` comes only after the input's end, and nothing behind it",
        f"{_P} StreamedBodyResponse",
        "a truncated body, as a success; with more behind it, if that comes in time, 500",
    ),
    Invariant(
        "INV-09",
        _MUST,
        "The call isn't closed with OK inside a full-duplex message",
        f"{_P} ExternalProcessor",
        "what was on its way is lost, and the rest goes on as a success; or it hangs",
    ),
    Invariant(
        "INV-10",
        _MUST,
        "With headers sent and a replaced body, `content-length` is absent or the new body's",
        f"{_PM} BUFFERED; MismatchedContentLengthAndBodyLength",
        "500; behind an override to full duplex: a truncated body",
    ),
    Invariant(
        "INV-11",
        _MUST,
        "Values of headers are set in `raw_value`",
        f"{_P} HeaderMutation; envoyproxy/envoy#31555",
        "the header is empty, without a word",
    ),
    Invariant(
        "INV-12",
        _SHOULD,
        "A header isn't set in both `value` and `raw_value`",
        f"{_P} HeaderMutation",
        "`raw_value` is taken",
    ),
    Invariant(
        "INV-13",
        _MUST,
        "Names of headers are legal, and values hold no CR, LF or NUL",
        "RFC 9110, 5.5; GetAndRespondImmediatelyWithInvalidCharacter",
        "500",
    ),
    Invariant(
        "INV-14",
        _SHOULD,
        "`host`, `:authority`, `:method` and `:scheme` aren't set; `host` and what begins with `:` isn't removed",
        f"{_P} HeaderMutation",
        "ignored, and counted as rejected",
    ),
    Invariant(
        "INV-15",
        _SHOULD,
        "`:status` is set only towards the client, from 200 to 999",
        "mutation_utils.cc",
        "ignored; an invalid value is counted as rejected",
    ),
    Invariant(
        "INV-16",
        _MUST,
        "An `immediate_response` has a status of 200 or more",
        f"{_P} `validate.required`",
        "the error's body goes out as 200",
    ),
    Invariant(
        "INV-17",
        _MUST,
        "There is no `immediate_response` once the response's headers went on",
        f"{_P} ImmediateResponse",
        "the response is cut; 1.39: before the first of the body it goes out as it is",
    ),
    Invariant(
        "INV-18",
        _MUST,
        "A reply sets at most 100 headers, and removes at most 100",
        "mutation_utils.cc; header limits",
        "500",
    ),
    Invariant("INV-19", _SHOULD, "`mode_override` stands on a reply to headers only", f"{_P} mode_override", "ignored"),
    Invariant(
        "INV-20",
        _SHOULD,
        "An override to FULL_DUPLEX_STREAMED comes with trailer mode SEND",
        f"{_PM} FULL_DUPLEX_STREAMED",
        "if there are trailers, they go past the processor, and nothing tells it the body's end; else ignored",
    ),
    Invariant(
        "INV-21",
        _SHOULD,
        "`override_message_timeout` is at least 1 ms, and comes once for a message",
        f"{_P} override_message_timeout",
        "ignored, and counted; 504 when the time is over",
    ),
    Invariant(
        "INV-22",
        _SHOULD,
        "Pieces in full duplex have at most 64 KiB",
        f"{_PM} FULL_DUPLEX_STREAMED; ResponseFromExtProcServerTooLarge",
        "fine, unless the host sets `max_receive_message_length`: a cut stream",
    ),
    Invariant(
        "INV-23",
        _SHOULD,
        "After a complete exchange, when the host half-closes, the call ends with OK",
        f"{_P} ExternalProcessor; envoyproxy/envoy#22727",
        "nothing; many servers count it as an error of theirs",
    ),
    Invariant(
        "INV-24",
        _SHOULD,
        "`clear_route_cache` comes with a header mutation, on the request's side",
        f"{_P} CommonResponse",
        "ignored, and counted in `clear_route_cache_ignored`",
    ),
    Invariant(
        "INV-25",
        _SHOULD,
        "Replies to bodies mutate headers only where bodies are buffered",
        f"{_P} CommonResponse.header_mutation",
        "ignored",
    ),
    Invariant("INV-26", _MAY, "The top level of `dynamic_metadata` is namespaces", f"{_P} dynamic_metadata", "dropped"),
)

BY_ID = {invariant.id: invariant for invariant in INVARIANTS}

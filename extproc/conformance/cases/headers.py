"""HDR: headers as hosts, clients and upstreams really send them."""

from __future__ import annotations

from dataclasses import replace

from extproc.conformance.cases.case import Session, Variant, hosted, shaped, with_header
from extproc.conformance.host.outcome import Ending, Outcome
from extproc.conformance.host.settings import BodyMode, HostSettings, HttpExchange, HttpMessage, Values
from extproc.conformance.invariants import Level

_BUFFERED = HostSettings(BodyMode.BUFFERED, BodyMode.BUFFERED)
_NONE = HostSettings(BodyMode.BUFFERED, BodyMode.NONE)
_KEPT = (("vary", b"accept"), ("set-cookie", b"a=1"), ("set-cookie", b"b=2"))
_SHOULD = Level.SHOULD


def _without_headers(message: HttpMessage) -> HttpMessage:
    return replace(message, headers=())


def _upper(message: HttpMessage) -> HttpMessage:
    return replace(message, headers=tuple((name if name[0] == ":" else name.title(), v) for name, v in message.headers))


def _kept(outcome: Outcome, _exchange: HttpExchange, _session: Session) -> str | None:
    if outcome.client is None or outcome.ending is Ending.IMMEDIATE:
        return None
    lost = [name for name, value in _KEPT if value not in outcome.client.all(name)]
    return f"{lost[0]} of the upstream's response is lost" if lost else None


HEADERS = (
    hosted(
        "HDR-01",
        Level.MUST,
        "values in `value` instead of `raw_value`",
        "core.proto HeaderValue; Envoy before 1.30, agentgateway",
        Variant(replace(_BUFFERED, values=Values.TEXT), label="all"),
        Variant(replace(_BUFFERED, values=Values.MIXED), label="pseudo headers"),
    ),
    hosted(
        "HDR-02",
        Level.MUST,
        "attributes and metadata_context that the server doesn't know",
        "external_processor.proto ProcessingRequest",
        Variant(replace(_BUFFERED, attributes=True)),
    ),
    hosted(
        "HDR-04",
        _SHOULD,
        "no headers at all",
        "robustness",
        Variant(_BUFFERED, shaped(_without_headers, _without_headers)),
        odd=True,
    ),
    hosted(
        "HDR-05",
        _SHOULD,
        "a value that is no UTF-8, and one of 60 KB",
        "CVE-2023-27488",
        Variant(
            _BUFFERED, shaped(with_header(("x-odd", b"\xff\xfe"), ("x-long", b"v" * 60_000)), None), "in the request"
        ),
        Variant(_BUFFERED, shaped(None, with_header(("x-odd", b"\xff\xfe"))), "in the response"),
        odd=True,
    ),
    hosted(
        "HDR-06",
        _SHOULD,
        "`:status` is missing, a word, or empty",
        "robustness",
        Variant(_BUFFERED, shaped(None, with_header(without=(":status",))), "missing"),
        Variant(_BUFFERED, shaped(None, with_header((":status", b"abc"))), "a word"),
        Variant(_BUFFERED, shaped(None, with_header((":status", b""))), "empty"),
        odd=True,
    ),
    hosted(
        "HDR-07",
        _SHOULD,
        "a response's `content-length` that is no number, or there twice",
        "robustness",
        *(
            Variant(_NONE, shaped(None, with_header(*values)), label)
            for label, values in (
                ("a word", (("content-length", b"abc"),)),
                ("empty", (("content-length", b""),)),
                ("a list", (("content-length", b"5, 5"),)),
                ("twice", (("content-length", b"5"), ("content-length", b"5"))),
            )
        ),
        odd=True,
    ),
    hosted(
        "HDR-08",
        _SHOULD,
        "names in upper case, which no host may send",
        "external_processor.proto HttpHeaders",
        Variant(_BUFFERED, shaped(_upper, _upper)),
        odd=True,
    ),
    hosted(
        "HDR-09",
        Level.MUST,
        "`vary` and two `set-cookie` of the response are kept",
        "RFC 6265, 3",
        Variant(_BUFFERED, shaped(None, with_header(*_KEPT))),
        expect=_kept,
    ),
)

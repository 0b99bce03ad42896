"""END: pieces, ends and trailers."""

from __future__ import annotations

from dataclasses import replace

from extproc.conformance.cases.case import (
    Variant,
    chain,
    cut,
    hosted,
    shaped,
    with_header,
    with_pieces,
    with_trailers,
)
from extproc.conformance.host.settings import BodyMode, HostSettings, HttpExchange, HttpMessage
from extproc.conformance.invariants import Level

NONE, STREAMED, BUFFERED, PARTIAL, FULL = BodyMode
_MUST, _SHOULD = Level.MUST, Level.SHOULD
_WHOLE, _DUPLEX, _STREAM = HostSettings(BUFFERED, BUFFERED), HostSettings(FULL, FULL), HostSettings(STREAMED, STREAMED)
_BODY = "external_processor.proto HttpBody"
_EVENTS = (("content-type", b"text/event-stream"),)


def _bodiless(exchange: HttpExchange) -> HttpExchange:
    request = with_pieces()(with_header((":method", b"GET"), without=("content-type",))(exchange.request))
    return HttpExchange(request, with_pieces()(with_header((":status", b"204"))(exchange.response)))


def _mebibytes(exchange: HttpExchange) -> HttpExchange:
    """2 MiB each way, in pieces of 16 KiB. The request's JSON is only longer by white space."""
    padded = with_pieces(exchange.request.body + b" " * (2 << 20))(exchange.request)
    return HttpExchange(cut(16384)(padded), with_pieces(*[b"x" * 16384] * 128)(exchange.response))


def _bytewise(message: HttpMessage) -> HttpMessage:
    """Server-sent events, each byte a piece of its own."""
    text = 'data: {"text": "Grüße, 世界"}\n\n'.encode() * 4
    return with_header(*_EVENTS)(cut(1)(with_pieces(text)(message)))


def _after_nothing(message: HttpMessage) -> HttpMessage:
    return replace(message, pieces=(b"", *message.pieces))


ENDS = (
    hosted(
        "END-01",
        _MUST,
        "a GET and a 204: both end with their headers",
        "external_processor.proto HttpHeaders",
        Variant(_WHOLE, _bodiless),
        Variant(_STREAM, _bodiless),
        odd=True,
    ),
    hosted(
        "END-02",
        _MUST,
        "the same in full duplex: headers are answered without waiting for a body",
        "external_processor.proto HttpHeaders",
        Variant(_DUPLEX, _bodiless),
        odd=True,
    ),
    hosted(
        "END-03",
        _MUST,
        "request trailers: the body has no end of its own",
        "external_processor.proto HttpTrailers",
        Variant(_WHOLE, shaped(with_trailers, None)),
        Variant(_DUPLEX, shaped(with_trailers, None)),
        Variant(_STREAM, shaped(with_trailers, None)),
    ),
    hosted(
        "END-04",
        _MUST,
        "response trailers",
        "external_processor.proto HttpTrailers",
        Variant(_WHOLE, shaped(None, with_trailers)),
        Variant(_DUPLEX, shaped(None, with_trailers)),
        Variant(_STREAM, shaped(None, with_trailers)),
    ),
    hosted(
        "END-05",
        _MUST,
        "headers and trailers without a body between them",
        "ext_proc_full_duplex_integration_test.cc HeaderAndTrailerNoBody",
        *(
            Variant(settings, shaped(chain(with_pieces(), with_trailers), chain(with_pieces(), with_trailers)))
            for settings in (_WHOLE, _DUPLEX)
        ),
        odd=True,
    ),
    hosted(
        "END-06",
        _SHOULD,
        "a buffered body without end_of_stream, then an empty one with it, as no Envoy sends them",
        "agentgateway ext_proc buffered_request_body_no_spurious_eos",
        Variant(replace(_WHOLE, empty_end=True)),
        odd=True,
    ),
    hosted(
        "END-07",
        _MUST,
        "the body is one empty piece that ends the stream",
        _BODY,
        *(Variant(settings, shaped(with_pieces(b""), with_pieces(b""))) for settings in (_WHOLE, _STREAM, _DUPLEX)),
        odd=True,
    ),
    hosted(
        "END-08",
        _MUST,
        "the first piece is empty: nothing can be judged by it",
        _BODY,
        *(
            Variant(settings, lambda exchange: HttpExchange(_after_nothing(exchange.request), exchange.response))
            for settings in (_STREAM, _DUPLEX)
        ),
    ),
    hosted(
        "END-09",
        _MUST,
        "empty pieces within the response",
        _BODY,
        *(Variant(settings, shaped(None, with_pieces(b"one ", b"", b"two", b""))) for settings in (_STREAM, _DUPLEX)),
    ),
    hosted(
        "END-10",
        _MUST,
        "each byte of an event stream is a piece of its own",
        _BODY,
        *(Variant(settings, shaped(None, _bytewise)) for settings in (_STREAM, _DUPLEX)),
    ),
    hosted(
        "END-11",
        _SHOULD,
        "end_of_stream comes twice in full duplex, as no Envoy sends it: the second is ignored",
        "envoyproxy/envoy#46237",
        Variant(replace(_DUPLEX, double_end=True), shaped(cut(64), cut(64))),
        odd=True,
    ),
    hosted(
        "END-12",
        _SHOULD,
        "trailers behind a body that has end_of_stream, as no Envoy sends them: their reply, and no second end",
        "external_processor.proto HttpTrailers",
        *(
            Variant(replace(settings, end_before_trailers=True), shaped(with_trailers, with_trailers))
            for settings in (_WHOLE, _DUPLEX, _STREAM)
        ),
        odd=True,
    ),
    hosted(
        "END-13",
        _MUST,
        "an event stream without a byte",
        "envoyproxy/envoy#44201",
        *(
            Variant(settings, shaped(None, chain(with_pieces(b""), with_header(*_EVENTS))))
            for settings in (_DUPLEX, _WHOLE, HostSettings(BUFFERED, NONE))
        ),
    ),
    hosted(
        "END-14",
        _MUST,
        "2 MiB in full duplex, sent before any reply is read",
        "ext_proc_full_duplex_integration_test.cc LargeBodyTestDuplexStreamed",
        Variant(_DUPLEX, _mebibytes),
    ),
    hosted(
        "END-16",
        _MUST,
        "the response comes before the request's body: the host's own 413",
        "ext_proc.proto: may arrive before the complete body",
        *(
            Variant(replace(settings, early_response=True), shaped(None, with_header((":status", b"413"))))
            for settings in (_WHOLE, _STREAM)
        ),
    ),
    hosted(
        "END-17",
        _SHOULD,
        "BUFFERED_PARTIAL cuts a body at the host's limit",
        "processing_mode.proto BUFFERED_PARTIAL",
        Variant(HostSettings(PARTIAL, NONE, buffer_limit=64), shaped(cut(40), None)),
        at_home=False,
        odd=True,
    ),
)

"""RFC 9113, section 8: what is a request."""

from __future__ import annotations

from extproc.http2 import DataCame, RequestBegun, StreamReset, TrailersCame
from tests.http2.rules.case import (
    BODY,
    PROTOCOL,
    Case,
    StreamError,
    without,
)
from tests.http2.wire import (
    DATA,
    END_STREAM,
    REQUEST,
    data,
    headers,
    opened,
    padded,
    trailers,
)


def _malformed(section: str, says: str, request: bytes) -> Case:
    return Case(section, says, (request,), StreamError(PROTOCOL), ())


REQUESTS = (
    *(
        Case(
            "8.1",
            f"{method} is a request",
            (headers(1, fields=((":method", method), *without(":method"))),),
            None,
            (RequestBegun,),
        )
        for method in ("GET", "HEAD", "POST", "OPTIONS")
    ),
    Case("8.1", "a request may end with trailers", (BODY, trailers(1)), None, (RequestBegun, DataCame, TrailersCame)),
    Case(
        "8.1",
        "a second header section ends the request",
        (BODY, opened(1)),
        StreamError(PROTOCOL),
        (RequestBegun, DataCame, StreamReset),
    ),
    Case("8.1", "trailers have no pseudo-header fields", (BODY, trailers(1, (":path", "/"))), StreamError(PROTOCOL)),
    Case(
        "8.1.1",
        "content-length is the body's length",
        (opened(1, ("content-length", "4")), data(1, b"body", END_STREAM)),
        None,
        (RequestBegun, DataCame),
    ),
    Case(
        "8.1.1",
        "a body is no longer, in one frame",
        (opened(1, ("content-length", "1")), data(1, b"body", END_STREAM)),
        StreamError(PROTOCOL),
    ),
    Case(
        "8.1.1",
        "a body is no longer, in several",
        (opened(1, ("content-length", "5")), data(1, b"body"), data(1, b"body", END_STREAM)),
        StreamError(PROTOCOL),
    ),
    Case(
        "8.1.1",
        "a body is no shorter",
        (opened(1, ("content-length", "5")), data(1, b"body", END_STREAM)),
        StreamError(PROTOCOL),
    ),
    Case(
        "8.1.1",
        "a body is no shorter in front of trailers",
        (opened(1, ("content-length", "5")), data(1, b"body"), trailers(1)),
        StreamError(PROTOCOL),
    ),
    Case(
        "8.1.1",
        "padding isn't the body's",
        (opened(1, ("content-length", "4")), padded(DATA, END_STREAM, 1, b"body", 9)),
        None,
        (RequestBegun, DataCame),
    ),
    _malformed("8.1.1", "a request without a body announces none", headers(1, ("content-length", "4"))),
    _malformed("8.1.1", "a length is a number", headers(1, ("content-length", "four"))),
    _malformed("8.1.1", "a body has one length", headers(1, ("content-length", "0"), ("content-length", "00"))),
    Case(
        "8.1.1",
        "a length may be said twice",
        (headers(1, ("content-length", "0"), ("content-length", "0")),),
        None,
        (RequestBegun,),
    ),
    _malformed("8.2.1", "names have no upper case", headers(1, ("X-Upper", "1"))),
    _malformed("8.2.1", "names have a letter at least", headers(1, ("", "1"))),
    *(_malformed("8.2.1", f"names have no {char!r}", headers(1, (f"x{char}y", "1"))) for char in "\x00 \x7f:\u00e9"),
    *(_malformed("8.2.1", f"values have no {char!r}", headers(1, ("x-value", f"a{char}b"))) for char in "\x00\r\n"),
    *(
        _malformed("8.2.1", f"values don't begin or end with white space: {value!r}", headers(1, ("x-value", value)))
        for value in (" a", "a\t", " ")
    ),
    Case(
        "8.2.1",
        "values may be empty, and have any other bytes",
        (headers(1, ("x", ""), ("y", "a \t\u00e9b")),),
        None,
        (RequestBegun,),
    ),
    Case(
        "8.2.1",
        "the values of trailers are bound to the same",
        (BODY, trailers(1, ("x-value", "a\nb"))),
        StreamError(PROTOCOL),
    ),
    Case("8.2.1", "and their names", (BODY, trailers(1, ("X-Value", "a"))), StreamError(PROTOCOL)),
    *(
        _malformed("8.2.2", f"{name} belongs to HTTP/1.1", headers(1, (name, "x")))
        for name in ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")
    ),
    _malformed("8.2.2", "te is nothing but trailers", headers(1, ("te", "trailers, deflate"))),
    Case("8.2.2", "te may be trailers", (headers(1, ("te", "trailers")),), None, (RequestBegun,)),
    _malformed("8.3", "there are no other pseudo-header fields", headers(1, fields=(*REQUEST, (":test", "1")))),
    _malformed("8.3", "a request has none of an answer's", headers(1, fields=(*REQUEST, (":status", "200")))),
    _malformed(
        "8.3", "pseudo-header fields come first", headers(1, fields=(*without(":path"), ("x", "1"), (":path", "/")))
    ),
    *(_malformed("8.3", f"{name} comes once", headers(1, fields=(*REQUEST, (name, value)))) for name, value in REQUEST),
    *(
        _malformed("8.3.1", f"a request has {name}", headers(1, fields=without(name)))
        for name in (":method", ":scheme", ":path")
    ),
    _malformed("8.3.1", ":path isn't empty", headers(1, fields=(*without(":path"), (":path", "")))),
    _malformed(
        "8.3.1",
        "the values of pseudo-header fields are bound to the same",
        headers(1, fields=(*without(":path"), (":path", "/\n"))),
    ),
    Case("8.3.1", ":authority may be missing", (headers(1, fields=without(":authority")),), None, (RequestBegun,)),
)

"""gRPC's header fields: what a request says, and what an answer does.

Source: gRPC over HTTP2 (the PROTOCOL-HTTP2 page of gRPC's own documentation).
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from urllib.parse import quote

from extproc.http2 import Fields, written
from extproc.transport.call import Metadata, Status

RESPONSE = written(
    (
        (b":status", b"200"),
        (b"content-type", b"application/grpc"),
        (b"grpc-accept-encoding", b"identity"),
    )
)
"""The header section of every answer that has messages."""
NOT_GRPC = written(((b":status", b"415"),))
"""What somebody gets who doesn't speak gRPC,"""
NOT_POST = written(((b":status", b"405"), (b"allow", b"POST")))
"""and who doesn't even post."""

_ENDED_WELL = written(((b"grpc-status", b"0"),))
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])\Z")
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_OWN, _OWN_BEGIN = frozenset((b"te", b"content-type", b"content-length")), (b":", b"grpc-")
"""These fields are the protocol's, and those that begin so: no metadata."""
_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_LONGEST_WORDS = 1024
"""Characters of a status's message: it goes into a header section, which has a limit."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a request's header section says."""

    path: str
    timeout: float | None
    """Seconds until the client gives up."""
    metadata: Metadata


class HeadError(Exception):
    """There is no call; `block` is the whole answer."""

    def __init__(self, block: bytes) -> None:
        super().__init__()
        self.block = block


def read_head(fields: Fields) -> Head:
    """Of a well-formed request. Raises HeadError."""
    method = path = kind = b""
    timeout: float | None = None
    metadata: list[tuple[str, str | bytes]] = []
    for name, value in fields:
        match name:
            case b":method":
                method = value
            case b":path":
                path = value
            case b"content-type":
                kind = value
            case b"grpc-timeout":
                timeout = _timeout(value)
            case _ if name not in _OWN and not name.startswith(_OWN_BEGIN):
                metadata.append((name.decode("ascii"), _value(name, value)))
    if method != b"POST":
        raise HeadError(NOT_POST)
    if not (kind == b"application/grpc" or kind.startswith((b"application/grpc+", b"application/grpc;"))):
        raise HeadError(NOT_GRPC)
    return Head(path.decode("latin-1"), timeout, tuple(metadata))


def _timeout(value: bytes) -> float:
    if (found := _TIMEOUT.match(value)) is None:
        raise HeadError(alone(Status.INTERNAL, "grpc-timeout is malformed"))
    return int(found[1]) * _SECONDS[found[2]]


def _value(name: bytes, value: bytes) -> str | bytes:
    if not name.endswith(b"-bin"):
        return value.decode("latin-1")
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        raise HeadError(alone(Status.INTERNAL, f"{name.decode()} isn't in Base64")) from None


def trailers(status: Status, message: str) -> bytes:
    """How an answer ends."""
    if status is Status.OK:
        return _ENDED_WELL
    return written(((b"grpc-status", b"%d" % status), (b"grpc-message", _words(message))))


def alone(status: Status, message: str) -> bytes:
    """An answer without messages."""
    return RESPONSE + trailers(status, message)


def _words(message: str) -> bytes:
    return quote(message[:_LONGEST_WORDS], safe=_PRINTABLE).encode()

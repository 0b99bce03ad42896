"""Frames as bytes, right and wrong ones, and what a server's bytes say; apart from `extproc.http2`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from hpack import Encoder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0x0, 0x1, 0x2, 0x3, 0x4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION, UNKNOWN = 0x5, 0x6, 0x7, 0x8, 0x9, 0xFA
END_STREAM, ACK, END_HEADERS, PADDED, HAS_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
TABLE_SIZE, ENABLE_PUSH, CONCURRENT_STREAMS, INITIAL_WINDOW, FRAME_SIZE, LIST_SIZE = range(1, 7)
WHOLE = END_STREAM | END_HEADERS
LARGEST = 2**31 - 1

Fields = Sequence[tuple[str, str]]
REQUEST = ((":method", "POST"), (":scheme", "http"), (":path", "/service/method"), (":authority", "extproc"))


@dataclass(frozen=True, slots=True)
class Frame:
    """One that was received."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def code(self) -> int:
        """Of RST_STREAM or GOAWAY."""
        return number(self.payload, 4 if self.kind == GOAWAY else 0)

    @property
    def ends(self) -> bool:
        """The stream, as far as its sender goes."""
        return self.kind in (DATA, HEADERS) and bool(self.flags & END_STREAM)


def number(payload: bytes, at: int = 0) -> int:
    return int.from_bytes(payload[at : at + 4], "big")


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBL", kind, flags, stream) + payload


def frames_in(data: bytes) -> list[Frame]:
    """All of `data`, which are whole frames."""
    found, at = [], 0
    while at < len(data):
        size, (kind, flags, stream) = int.from_bytes(data[at : at + 3], "big"), struct.unpack_from(">BBL", data, at + 3)
        assert at + 9 + size <= len(data), "a frame isn't whole"
        found.append(Frame(kind, flags, stream, data[at + 9 : at + 9 + size]))
        at += 9 + size
    return found


@cache
def block(fields: tuple[tuple[str, str], ...] = REQUEST) -> bytes:
    """A header block that needs nothing of the dynamic table, though it adds to it."""
    return Encoder().encode(list(fields))


def headers(stream: int, *more: tuple[str, str], flags: int = WHOLE, fields: Fields = REQUEST) -> bytes:
    return frame(HEADERS, flags, stream, block((*fields, *more)))


def opened(stream: int, *more: tuple[str, str]) -> bytes:
    """A request whose body is still to come."""
    return headers(stream, *more, flags=END_HEADERS)


def trailers(stream: int, *fields: tuple[str, str]) -> bytes:
    return headers(stream, fields=fields or (("x-end", "1"),))


def continuation(stream: int, payload: bytes, flags: int = END_HEADERS) -> bytes:
    return frame(CONTINUATION, flags, stream, payload)


def data(stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    return frame(DATA, flags, stream, payload)


def padded(kind: int, flags: int, stream: int, payload: bytes, padding: int) -> bytes:
    return frame(kind, flags | PADDED, stream, bytes((padding,)) + payload + bytes(padding))


def dependency(on: int, weight: int = 15) -> bytes:
    """What PRIORITY frames have, and HEADERS may have."""
    return struct.pack(">LB", on, weight)


def priority(stream: int, on: int = 0) -> bytes:
    return frame(PRIORITY, 0, stream, dependency(on))


def rst_stream(stream: int, code: int = 0x8) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack(">L", code))


def settings(*values: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HL", *value) for value in values))


def ping(payload: bytes = bytes(8), flags: int = 0) -> bytes:
    return frame(PING, flags, 0, payload)


def goaway(last: int = 0, code: int = 0) -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">LL", last, code))


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">L", increment))

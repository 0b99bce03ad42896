"""HTTP/2 frames as bytes (RFC 9113, sections 4 and 6)."""

from __future__ import annotations

import struct

from extproc.http2.errors import ConnectionFault, ErrorCode

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends first."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
"""The types."""

END_STREAM, ACK, END_HEADERS, PADDED, HAS_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
"""Flags."""

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 1, 2, 3, 4
MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 5, 6
"""Settings."""

HEAD = struct.Struct(">HBBBI")
"""Of a frame: its length's upper 16 bits and lower 8, type, flags, stream."""
HEAD_SIZE = HEAD.size
ID_MASK = 0x7FFFFFFF
"""The highest bit of a stream's id is reserved, as is that of a window's increment."""

SMALLEST_FRAME_SIZE, LARGEST_FRAME_SIZE = 16_384, 16_777_215
"""What a peer may set as MAX_FRAME_SIZE, in bytes."""
DEFAULT_WINDOW = 65_535
LARGEST_WINDOW = 2**31 - 1
"""Bytes."""

_U32 = struct.Struct(">I")
_SETTING = struct.Struct(">HI")


def head(kind: int, flags: int, stream_id: int, length: int) -> bytes:
    """The nine bytes before a payload of so many."""
    return HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream_id)


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """A whole one."""
    return head(kind, flags, stream_id, len(payload)) + payload


def settings(values: dict[int, int]) -> bytes:
    """A SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(name, value) for name, value in values.items()))


def settings_in(payload: bytes) -> list[tuple[int, int]]:
    """What a SETTINGS frame says; its length is a multiple of six."""
    return list(_SETTING.iter_unpack(payload))


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    """A stream's end, as an error."""
    return frame(RST_STREAM, 0, stream_id, _U32.pack(code))


def window_update(stream_id: int, increment: int) -> bytes:
    """Room for so many bytes more; of the connection if the stream is 0."""
    return frame(WINDOW_UPDATE, 0, stream_id, _U32.pack(increment))


def goaway(last_stream_id: int, code: ErrorCode, words: bytes = b"") -> bytes:
    """The connection's end; streams up to this one are still served."""
    return frame(GOAWAY, 0, 0, _U32.pack(last_stream_id) + _U32.pack(code) + words)


def number(payload: bytes, start: int = 0) -> int:
    """The four bytes from there as a number."""
    value: int = _U32.unpack_from(payload, start)[0]
    return value


def without_padding(payload: bytes) -> bytes:
    """What a padded frame carries. Raises ConnectionFault."""
    if not payload:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame is too short for the length of its padding")
    if payload[0] >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than payload")
    return payload[1 : len(payload) - payload[0]]

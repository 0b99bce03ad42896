"""What a case is, and what many of them begin with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from extproc.http2 import ErrorCode, Event
from tests.http2.peer import OPENING, Act
from tests.http2.wire import (
    END_STREAM,
    HEADERS,
    REQUEST,
    WHOLE,
    Fields,
    block,
    data,
    frame,
    opened,
)

Told: TypeAlias = tuple[type[Event], ...]
PROTOCOL, FLOW_CONTROL = ErrorCode.PROTOCOL_ERROR, ErrorCode.FLOW_CONTROL_ERROR
CLOSED, SIZE, COMPRESSION = ErrorCode.STREAM_CLOSED, ErrorCode.FRAME_SIZE_ERROR, ErrorCode.COMPRESSION_ERROR


@dataclass(frozen=True, slots=True)
class StreamError:
    """The connection goes on."""

    code: ErrorCode
    stream: int = 1


@dataclass(frozen=True, slots=True)
class Case:
    section: str
    says: str
    steps: tuple[bytes | Act, ...]
    """What the peer sends, and what the server does in between."""
    error: ErrorCode | StreamError | None = None
    """Of the connection, of a stream, or none."""
    told: Told | None = None
    """Events, where they matter."""
    opening: bytes = OPENING


def without(name: str) -> Fields:
    return [field for field in REQUEST if field[0] != name]


def raw(payload: bytes, stream: int = 1) -> bytes:
    """A header block that no encoder makes."""
    return frame(HEADERS, WHOLE, stream, payload)


BLOCK = block()
HALF = len(BLOCK) // 2
FIRST = frame(HEADERS, END_STREAM, 1, BLOCK[:HALF])
"""A header section of which there is more to come, and the body's end."""
BODY = opened(1) + data(1, b"body")

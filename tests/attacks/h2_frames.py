"""HTTP/2 as bytes (RFC 9113), with none of the checks by which a library keeps its user from doing harm."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from hpack import Encoder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7, 0x8
END_STREAM, END_HEADERS, ACK = 0x1, 0x4, 0x1
INITIAL_WINDOW_SIZE = 0x4
CANCEL = 0x8
MAX_FRAME = 16_384
"""Bytes of payload that every receiver takes."""
_HEAD = struct.Struct(">BHBBL")

Fields = Sequence[tuple[str, str]]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return _HEAD.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def opening(window: int = 65_535) -> bytes:
    """What a client says first. `window` is how many bytes of each answer it takes without a WINDOW_UPDATE."""
    return PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HL", INITIAL_WINDOW_SIZE, window))


def settings_ack() -> bytes:
    return frame(SETTINGS, ACK, 0)


def ping() -> bytes:
    return frame(PING, 0, 0, bytes(8))


def window_update(stream: int, size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">L", size))


def rst_stream(stream: int, code: int = CANCEL) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack(">L", code))


def data(stream: int, payload: bytes, *, end: bool = False) -> bytes:
    """As many frames as it takes."""
    pieces = [payload[at : at + MAX_FRAME] for at in range(0, len(payload), MAX_FRAME)] or [b""]
    last = len(pieces) - 1
    return b"".join(frame(DATA, END_STREAM * (end and at == last), stream, piece) for at, piece in enumerate(pieces))


class Heads:
    """Request heads for one connection. From the second on each field is one byte: HPACK remembers it."""

    def __init__(self, fields: Fields) -> None:
        self._fields = list(fields)
        self._encoder = Encoder()

    def head(self, stream: int, *, end: bool = False) -> bytes:
        """HEADERS for the stream, which is odd."""
        block = self._encoder.encode(self._fields, huffman=True)
        return frame(HEADERS, END_HEADERS | END_STREAM * end, stream, block)

    def burst(self, streams: Iterable[int], *, reset: bool = False, body: bytes | None = None) -> bytes:
        """HEADERS for all of them, each followed by its RST_STREAM or by a whole body if wanted.

        Without a body the requests stay open.
        """
        made = bytearray()
        for stream in streams:
            made += self.head(stream)
            if body is not None:
                made += data(stream, body, end=True)
            if reset:
                made += rst_stream(stream)
        return bytes(made)


def chat_fields(key: str | None = None, length: int | None = None, scheme: str = "http") -> list[tuple[str, str]]:
    """The head of a chat completion."""
    fields = [
        (":method", "POST"),
        (":scheme", scheme),
        (":path", "/v1/chat/completions"),
        (":authority", "gateway"),
        ("content-type", "application/json"),
    ]
    if key is not None:
        fields.append(("authorization", f"Bearer {key}"))
    if length is not None:
        fields.append(("content-length", str(length)))
    return fields


def streams(count: int, first: int = 1) -> range:
    """The ids of so many streams of a client."""
    return range(first, first + 2 * count, 2)


class Frames:
    """Takes what a server sent apart, in any cut."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, received: bytes) -> Iterator[tuple[int, int, int, bytes]]:
        """Kind, flags, stream and payload of each complete frame."""
        self._held += received
        while len(self._held) >= _HEAD.size:
            high, low, kind, flags, stream = _HEAD.unpack_from(self._held)
            end = _HEAD.size + (high << 16 | low)
            if len(self._held) < end:
                return
            payload = bytes(self._held[_HEAD.size : end])
            del self._held[:end]
            yield kind, flags, stream, payload

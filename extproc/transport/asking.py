"""Asks a server on this machine for its health, by gRPC, without gRPC's library: `extproc up` asks its processor so.

One question on a connection of its own, with what HTTP/2 needs for that and no more. What the server says besides the
answer's data isn't looked at.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from google.protobuf.message import DecodeError
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from extproc.http2 import frames, written
from extproc.transport.health import NAME
from extproc.transport.lean.messages import MessageError, MessageReader, prefix

_HEAD = written(
    (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", f"/{NAME}/Check".encode()),
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    )
)
_STREAM = 1
_LARGEST = 1024
"""Bytes of an answer."""


async def is_serving(socket: str) -> bool:
    """Whether the server on this socket says that it serves. Raises OSError when there is none, or it goes."""
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        question = HealthCheckRequest().SerializeToString()
        writer.write(
            frames.PREFACE
            + frames.settings({frames.ENABLE_PUSH: 0})
            + frames.frame(frames.HEADERS, frames.END_HEADERS, _STREAM, _HEAD)
            + frames.frame(frames.DATA, frames.END_STREAM, _STREAM, prefix(len(question)) + question)
        )
        with suppress(asyncio.IncompleteReadError, MessageError, DecodeError):  # it ends, or is no gRPC
            answer = HealthCheckResponse.FromString(await _message(reader))
            return answer.status == HealthCheckResponse.SERVING
        return False
    finally:
        writer.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """The first that comes. Raises MessageError, and IncompleteReadError when none does."""
    messages = MessageReader(_LARGEST)
    while True:
        upper, lower, kind, flags, stream_id = frames.HEAD.unpack(await reader.readexactly(frames.HEAD_SIZE))
        payload = await reader.readexactly(upper << 8 | lower)
        if kind == frames.DATA and stream_id == _STREAM:
            for message in messages.feed(payload):
                return bytes(message)
        elif (kind == frames.HEADERS and flags & frames.END_STREAM) or kind in (frames.RST_STREAM, frames.GOAWAY):
            raise asyncio.IncompleteReadError(b"", None)

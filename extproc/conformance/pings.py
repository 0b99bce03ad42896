"""PINGs as Envoy's `connection_keepalive` sends them, which gRPC's own client is too polite for.

As much of HTTP/2 (RFC 9113) as that takes: a connection, a request without an end, PING frames, and what comes back.
"""

from __future__ import annotations

import asyncio
import contextlib

from hpack import Encoder

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS, _SETTINGS, _PING, _GOAWAY = 1, 4, 6, 7
_ACK, _END_HEADERS = 1, 4


def _frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return len(content).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + content


async def pings(target: str, path: str, number: int, seconds: float) -> str | None:
    """Open a call that stays silent, and send `number` PINGs, `seconds` apart. What went wrong, if anything did."""
    try:
        reader, writer = await _connection(target)
    except OSError as error:
        return f"no connection: {error}"
    head = Encoder().encode(
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "conformance.example"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ]
    )
    try:
        writer.write(_PREFACE + _frame(_SETTINGS, 0, 0) + _frame(_HEADERS, _END_HEADERS, 1, head))
        for sent in range(number):
            writer.write(_frame(_PING, 0, 0, sent.to_bytes(8, "big")))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    if (wrong := await _read(reader, writer)) is not None:
                        return f"{wrong} behind {sent + 1} PINGs"
    except ConnectionError as error:
        return f"the connection ends: {error}"
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return None


async def _connection(target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if target.startswith("unix:"):
        return await asyncio.open_unix_connection(target.removeprefix("unix:").removeprefix("//"))
    host, _, port = target.rpartition(":")
    return await asyncio.open_connection(host.strip("[]"), int(port))


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """Until the server ends the connection: how."""
    while True:
        try:
            head = await reader.readexactly(9)
            content = await reader.readexactly(int.from_bytes(head[:3], "big"))
        except asyncio.IncompleteReadError:
            return "the connection ends"
        if head[3] == _GOAWAY:
            return f"GOAWAY {content[8:].decode('ascii', 'replace')[:60]}".rstrip()
        if head[3] == _SETTINGS and not head[4] & _ACK:
            writer.write(_frame(_SETTINGS, _ACK, 0))

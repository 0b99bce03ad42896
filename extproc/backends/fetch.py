"""One HTTP/1.1 request and its answer: all that draining, a look at a backend and a retry need.

Each has a connection of its own, which ends with it. An answer is complete where HTTP says so, whether the server
closes then or not, and may come before the request was read. Its size is limited here; its time is the caller's
business, by `asyncio.timeout` around this and the connection's opening. What h11 makes of the bytes counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import h11

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

LARGEST = 16 * 1024 * 1024
"""Bytes of an answer, with its headers and framing."""
_INTERIM = 32
"""Responses before the answer (100, 103); nothing needs as many."""
_PIECE = 65536
_NONE: Mapping[str, str] = MappingProxyType({})


class Answer(NamedTuple):
    status: int
    body: bytes


async def fetch(
    streams: Streams, method: str, path: str, *, host: str, headers: Mapping[str, str] = _NONE, body: bytes = b""
) -> Answer:
    """Send a request over a new connection, which is closed afterwards, come what may.

    Raises OSError, and ValueError for a request that HTTP has no words for.
    """
    import h11  # with the first request, which nobody waits for at a start

    reader, writer = streams
    http = h11.Connection(h11.CLIENT)
    head = {
        "host": host,
        "connection": "close",
        "accept-encoding": "identity",
        "content-length": str(len(body)),
        **headers,
    }
    try:
        # Not drained: who answers without reading all of it would not be heard.
        writer.write(_encoded(http, method, path, head) + body)
        return await _answer(http, reader)
    finally:
        # A close would wait for what is still unsent, for as long as the server likes.
        writer.transport.abort()


def _encoded(http: h11.Connection, method: str, path: str, headers: Mapping[str, str]) -> bytes:
    import h11

    try:
        return http.send(h11.Request(method=method, target=path, headers=list(headers.items()))) or b""
    except (h11.LocalProtocolError, UnicodeEncodeError):
        # Both quote what is wrong, and that may be a key.
        raise ValueError("the request has a character in its first line or its headers that can't be sent") from None


async def _answer(http: h11.Connection, reader: asyncio.StreamReader) -> Answer:
    import h11

    status: int | None = None
    body = bytearray()
    received = interim = 0
    while True:
        try:
            event = http.next_event()
        except h11.RemoteProtocolError as error:
            # Beyond its head an answer is rarely wrong by anything but its end.
            fault = "what answers there doesn't speak HTTP" if status is None else "its answer is cut off or garbled"
            raise OSError(fault) from error
        if event is h11.NEED_DATA:
            piece = await _piece(reader, begun=received > 0)
            received += len(piece)
            if received > LARGEST:
                raise OSError(f"its answer is larger than {LARGEST} bytes")
            http.receive_data(piece)
        elif isinstance(event, h11.InformationalResponse):
            interim += 1
            if interim > _INTERIM:
                raise OSError("it sends interim responses and no answer")
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert status is not None  # h11 lets no message end that has no head
            return Answer(status, bytes(body))


async def _piece(reader: asyncio.StreamReader, *, begun: bool) -> bytes:
    """What comes next; nothing is the end."""
    try:
        piece = await reader.read(_PIECE)
    except OSError as error:
        raise OSError("its answer is cut off" if begun else "it ended the connection without an answer") from error
    if not piece and not begun:
        raise OSError("it closed the connection without an answer")
    return piece

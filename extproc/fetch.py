"""One HTTP request: all that readiness, draining, a look at a backend and a second try need.

Each has a connection of its own and a limit in time and in size, so that nothing that answers nonsense, or never ends,
does any harm.
"""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import Awaitable, Mapping
from http.client import HTTPException, HTTPResponse
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, cast

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_LARGEST = 16 * 1024 * 1024
_NONE: Mapping[str, str] = MappingProxyType({})


class Answer(NamedTuple):
    status: int
    body: bytes


async def fetch(
    opening: Awaitable[Streams],
    method: str,
    path: str,
    *,
    host: str,
    timeout: float,  # noqa: ASYNC109 - includes the connection's opening
    headers: Mapping[str, str] = _NONE,
    body: bytes = b"",
) -> Answer:
    """Send a request over a new connection. Raises OSError, of which TimeoutError is one."""
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}", "connection: close", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    received = bytearray()
    async with asyncio.timeout(timeout):
        reader, writer = await opening
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
            await writer.drain()
            while piece := await reader.read(65536):
                received += piece
                if len(received) > _LARGEST:
                    raise OSError(f"its answer is larger than {_LARGEST} bytes")
        finally:
            writer.close()
    try:
        return _parsed(bytes(received), method)
    except HTTPException as error:
        raise OSError("what answers there doesn't speak HTTP") from error


def _parsed(received: bytes, method: str) -> Answer:
    response = HTTPResponse(cast(socket.socket, _Received(received)), method=method)
    response.begin()
    return Answer(response.status, response.read())


class _Received:
    """All that HTTPResponse asks of a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)

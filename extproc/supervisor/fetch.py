"""One small HTTP request: all that readiness, draining and a look at a backend need."""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import Awaitable
from http.client import HTTPException, HTTPResponse
from typing import NamedTuple, TypeAlias, cast

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Answer(NamedTuple):
    status: int
    body: bytes


async def fetch(opening: Awaitable[Streams], method: str, path: str, *, host: str, timeout: float) -> Answer:  # noqa: ASYNC109 - includes the connection's opening
    """Send a request without a body over a new connection. Raises OSError, of which TimeoutError is one."""
    async with asyncio.timeout(timeout):
        reader, writer = await opening
        try:
            head = (f"{method} {path} HTTP/1.1", f"host: {host}", "connection: close", "content-length: 0", "", "")
            writer.write("\r\n".join(head).encode("ascii"))
            received = await reader.read()
        finally:
            writer.close()
    try:
        return _parsed(received, method)
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

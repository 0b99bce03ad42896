"""`GET /metrics` over HTTP, for Prometheus to scrape.

It runs in the event loop that it reports on, so that a page which doesn't come is a sign too. prometheus-client
brings a server that would look up the host's name in the DNS when it starts, and keep a thread for each connection
for as long as its client likes; here a connection has ten seconds, for one request.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Protocol

from extproc.config import Address

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Of prometheus-client's pages (`CONTENT_TYPE_PLAIN_0_0_4`), which is imported with the first of them."""
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""For a scraper that takes it: exemplars have no other format."""


class Page(Protocol):
    """Makes the page."""

    def __call__(self, *, openmetrics: bool) -> Awaitable[bytes]: ...


_PATIENCE = 10.0
"""Seconds that a connection may take in all."""
_LONGEST_HEAD = 16 * 1024


@asynccontextmanager
async def metrics_served(address: str, page: Page) -> AsyncIterator[None]:
    """Serve `page` at `address` (`host:port`) inside the block. Raises OSError when it can't be had."""
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_answer(reader, writer, page))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, sock=_bound(address), limit=_LONGEST_HEAD)
    try:
        yield
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


def _bound(address: str) -> socket.socket:
    where = Address.parse(address)
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    both = where.is_dual_stack and socket.has_dualstack_ipv6()
    try:
        return socket.create_server(where, family=family, dualstack_ipv6=both)
    except OSError as error:
        # What Python adds in brackets to the system's words tells the address once more.
        reason = error.strerror.partition(" (")[0] if error.strerror else str(error)
        raise OSError(f"can't serve metrics on {address}: {reason}") from error


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, page: Page) -> None:
    # Whoever breaks off, is too slow or sends too much is not worth an answer.
    with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        try:
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _response(head, page))
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()


async def _response(head: bytes, page: Page) -> bytes:
    method, _, rest = head.partition(b" ")
    kind = CONTENT_TYPE
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if path != PATH.encode():
        status, body = HTTPStatus.NOT_FOUND, f"The metrics are at {PATH}.\n".encode()
    elif method not in (b"GET", b"HEAD"):
        status, body = HTTPStatus.METHOD_NOT_ALLOWED, b"Metrics can be read with GET, and nothing else.\n"
    else:
        openmetrics = _takes_openmetrics(head)
        kind = OPENMETRICS if openmetrics else CONTENT_TYPE
        status, body = HTTPStatus.OK, await page(openmetrics=openmetrics)
    fields = {
        "content-type": kind,
        "content-length": str(len(body)),
        "connection": "close",
        **({"allow": "GET, HEAD"} if status is HTTPStatus.METHOD_NOT_ALLOWED else {}),
    }
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + (body if method != b"HEAD" else b"")


def _takes_openmetrics(head: bytes) -> bool:
    """Whether the request's `accept` names it; Prometheus' does, in front of all others."""
    fields = (line.partition(b":") for line in head.lower().split(b"\r\n")[1:])
    return any(name == b"accept" and b"application/openmetrics-text" in value for name, _, value in fields)

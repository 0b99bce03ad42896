"""The transport to a server that speaks MCP by streamable HTTP: the SDK's, over an HTTP client that keeps bounds.

What the SDK leaves open, and is closed here:

- It takes a whole answer into memory, however long, and unpacks it first.
- It sends notifications one after the other, and everything else waits while a server thinks about one.
- When a call has been given up, its request stays open until the server answers it.
- A failed answer is told from another only by words. Here the connection is given up as soon as it is known to be of
  no use: no server there, a session that is gone, a key that isn't taken (any more).
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client

from extproc.config.files import read_file
from extproc.runner.mcp_servers.gate import Connection

LARGEST_ANSWER = 4 * 1024 * 1024
"""Bytes of an answer, or of an event."""
_CONNECT = 5.0
_ASIDE = 1.0
"""Seconds that a server has for what isn't a request: a notification, or the end of the session."""
_REFUSED = {401, 403}
_GONE = {400, 404, 410}
"""What servers say to a session that they don't know (any more)."""
_SENDABLE = re.compile(r"[!-~]+")
_GIVEN_UP = b'\n\ndata: {"jsonrpc":"2.0","id":0,"error":{"code":0,"message":"given up"}}\n\n'
"""How a stream of events ends that nobody waits for: were it just to end, the SDK would ask for the rest of it."""
_GET_AGAIN = 1.0
"""Seconds between two streams that the SDK asks for, whatever the server wishes: it may end each of them at once,"""
_MOST_STREAMS = 8
"""and as long as it does, the SDK asks for the rest of an answer that nobody waits for any more."""


class KeyFileError(Exception):
    """The key can't be read, or isn't one; the text says why, without it."""


def read_key(path: Path) -> str:
    """The bearer token in the file. Raises KeyFileError."""
    try:
        key = read_file(path).decode().strip()
    except OSError as error:
        raise KeyFileError(f"its key can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        key = ""
    if not _SENDABLE.fullmatch(key):
        raise KeyFileError("its key can't be sent: the file holds nothing, or more than one word of ASCII")
    return key


@asynccontextmanager
async def http_link(url: str, key: str | None, connection: Connection) -> AsyncIterator[Any]:
    """Streams of messages to and from the server."""
    context = await asyncio.to_thread(ssl.create_default_context)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    link = _Link(httpx2.AsyncHTTPTransport(verify=context, limits=limits, trust_env=False), connection)
    headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {key}"} if key else {})
    # A stream may be silent for as long as a call may take; whoever asks has a limit of his own.
    timeout = httpx2.Timeout(_CONNECT, read=None)
    async with (
        httpx2.AsyncClient(transport=link, headers=headers, timeout=timeout, trust_env=False) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=LARGEST_ANSWER) as streams,
    ):
        yield streams


class _Link(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, connection: Connection) -> None:
        self._inner = inner
        self._connection = connection
        self._requests: dict[Any, _Request] = {}
        self._streams: set[_Request] = set()
        self._get_at = 0.0
        self._had_stream = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            if request.method == "GET":
                return await self._get(request)
            message = json.loads(request.content) if request.method == "POST" else {}
            if "id" in message and "method" in message:
                return await self._ask(request, message["id"])
            if message.get("method") == "notifications/cancelled":
                self._give_up(message["params"]["requestId"])
            return await self._tell(request)
        except httpx2.TransportError as error:
            self._connection.lose(f"it can't be reached ({type(error).__name__})")
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _get(self, request: httpx2.Request) -> httpx2.Response:
        """Open a stream: for what the server says of its own accord, or for the rest of an answer."""
        if len(self._streams) >= _MOST_STREAMS:
            return httpx2.Response(405)
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._get_at - loop.time())
        self._get_at = loop.time() + _GET_AGAIN
        response = await self._inner.handle_async_request(request)
        if response.status_code in _GONE and self._had_stream:
            self._connection.lose(f"it answers with HTTP status {response.status_code}")
        self._had_stream = self._had_stream or response.is_success
        stream = _Request()
        self._streams.add(stream)
        return await _checked(response, stream, lambda: self._streams.discard(stream))

    async def _ask(self, request: httpx2.Request, number: Any) -> httpx2.Response:
        asked = self._requests[number] = _Request()
        with asked.until_given_up() as scope:
            response = await self._inner.handle_async_request(request)
        if scope.cancelled_caught:
            return httpx2.Response(202)
        in_session = "mcp-session-id" in request.headers
        if response.status_code in _REFUSED or (in_session and response.status_code in _GONE - {400}):
            self._connection.lose(f"it answers with HTTP status {response.status_code}")
        return await _checked(response, asked, lambda: self._forget(number, asked))

    def _forget(self, number: Any, asked: _Request) -> None:
        if self._requests.get(number) is asked:
            del self._requests[number]

    def _give_up(self, number: Any) -> None:
        if (asked := self._requests.pop(number, None)) is not None:
            asked.give_up()

    async def _tell(self, request: httpx2.Request) -> httpx2.Response:
        """Tell the server something. What it has to say to it makes no difference."""
        with anyio.move_on_after(_ASIDE):
            response = await self._inner.handle_async_request(request)
            try:
                assert isinstance(response.stream, httpx2.AsyncByteStream)
                async for _ in response.stream:  # read, so that the connection can be used again
                    pass
            finally:
                await response.aclose()
            return httpx2.Response(response.status_code)
        return httpx2.Response(202)


class _Request:
    """A request that is under way, until it is given up."""

    def __init__(self) -> None:
        self._given_up = False
        self._scope: anyio.CancelScope | None = None

    def until_given_up(self) -> anyio.CancelScope:
        """What is awaited in it is cancelled then."""
        scope = self._scope = anyio.CancelScope()
        if self._given_up:
            scope.cancel()
        return scope

    def give_up(self) -> None:
        self._given_up = True
        if self._scope is not None:
            self._scope.cancel()


async def _checked(response: httpx2.Response, asked: _Request, on_close: Callable[[], None]) -> httpx2.Response:
    """The answer, no longer than it may be."""
    if response.headers.get("content-encoding", "identity") != "identity":  # nobody asked for that
        await response.aclose()
        return httpx2.Response(502)
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    body = _Body(response.stream, asked, math.inf if is_events else LARGEST_ANSWER, on_close)
    return httpx2.Response(response.status_code, headers=response.headers, stream=body, extensions=response.extensions)


class _Body(httpx2.AsyncByteStream):
    def __init__(
        self, inner: httpx2.AsyncByteStream, asked: _Request, most: float, on_close: Callable[[], None]
    ) -> None:
        self._inner = inner
        self._asked = asked
        self._most = most
        self._on_close = on_close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._inner)
        size = 0
        while True:
            with self._asked.until_given_up() as scope:
                try:
                    chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
            if scope.cancelled_caught:
                yield _GIVEN_UP
                return
            size += len(chunk)
            if size > self._most:
                raise httpx2.StreamError(f"an answer of more than {self._most} bytes")
            yield chunk

    async def aclose(self) -> None:
        self._on_close()
        await self._inner.aclose()

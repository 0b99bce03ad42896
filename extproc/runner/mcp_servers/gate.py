"""Between a transport and the SDK's session: what a server says, as far as it is of use, and no faster than it should.

The session makes a task of every message that nobody asked for, and rejects a whole page of tools for the schema of
one. It doesn't tell either when the connection has ended. All that is seen to here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self

import anyio
from mcp import types
from mcp.shared.message import SessionMessage
from mcp.types import methods
from mcp.types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from extproc.contract.errors import quoted
from extproc.runner.mcp_servers.offer import MOST_TOOLS

MESSAGES_A_SECOND = 500
"""More have to wait: in the transport, then in the server."""
_CHANGED = "notifications/tools/list_changed"
_HEARD = {_CHANGED, "notifications/subscriptions/acknowledged", "notifications/cancelled"}
"""The notifications that have an effect. Nobody wants to know of progress, or the server's own log."""
_MOST_TOOLS_LISTED = 10 * MOST_TOOLS
_MOST_NOTES = 100


class Connection:
    """What is known of a connection to a server."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        """Set when any of the following changes."""
        self._lost = asyncio.Event()
        self.lost: str | None = None
        """Why it is of no use any more."""
        self.tools_changed = False
        self.rejected: dict[str, str] = {}
        """What is wrong with tools that the session wouldn't take."""

    def lose(self, why: str) -> None:
        """The first reason is the one that counts: others follow from it."""
        self.lost = self.lost or why
        self._lost.set()
        self.news.set()

    async def lost_within(self, seconds: float) -> None:
        """Return after so many seconds, or as soon as the connection is lost."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._lost.wait()

    def change_tools(self) -> None:
        """There are others now."""
        self.tools_changed = True
        self.news.set()


@asynccontextmanager
async def gated(transport: AbstractAsyncContextManager[Any], connection: Connection) -> AsyncIterator[Any]:
    """The transport, with a gate in it."""
    async with transport as (incoming, outgoing):
        yield _Gate(incoming, connection), outgoing


class _Gate:
    """A stream of messages from a server."""

    def __init__(self, stream: Any, connection: Connection) -> None:
        self._stream = stream
        self._connection = connection
        self._rate = _Rate(MESSAGES_A_SECOND)

    async def receive(self) -> SessionMessage:
        while True:
            try:
                item = await self._stream.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                self._connection.lose("it has ended the connection")
                raise
            await self._rate.keep()
            if isinstance(item, SessionMessage) and self._passes(item):
                return item

    def _passes(self, item: SessionMessage) -> bool:
        match item.message:
            case types.JSONRPCNotification(method=method):
                if method == _CHANGED:
                    self._connection.change_tools()
                return method in _HEARD
            case types.JSONRPCResponse(result={"tools": [*tools]} as result):
                result["tools"] = [tool for tool in tools[:_MOST_TOOLS_LISTED] if self._is_tool(tool)]
        return True

    def _is_tool(self, tool: Any) -> bool:
        """Whether the session will take it. The latest protocol with a handshake wants the most."""
        try:
            methods.validate_server_result("tools/list", LATEST_HANDSHAKE_VERSION, {"tools": [tool]})
        except ValidationError as error:
            name = tool.get("name") if isinstance(tool, dict) else None
            wrong = ".".join(map(str, error.errors(include_input=False)[0]["loc"][2:]))
            if len(self._connection.rejected) < _MOST_NOTES:
                self._connection.rejected[quoted(str(name))] = wrong or "its definition"
            return False
        return True

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Rate:
    """So many a second, and no more."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._since = clock()
        self._count = 0

    async def keep(self) -> None:
        """Count one; wait for the next second if it is one too many."""
        now = self._clock()
        if now - self._since >= 1:
            self._since, self._count = now, 0
        self._count += 1
        if self._count > self._most:
            await asyncio.sleep(self._since + 1 - now)

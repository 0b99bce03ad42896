"""All MCP servers that are configured."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from extproc.config.tools import ToolServer
from extproc.runner.mcp_servers.server import Server, ServerState
from extproc.runner.tools import ToolSource

_LIBRARIES = ("mcp", "client", "httpx2", "httpcore2")
"""Their loggers: they tell of each request, and with a trace of each line that isn't JSON. What matters we say."""


class ToolServers:
    """The servers, each with a session of its own. They are connected to in the background."""

    def __init__(self, settings: Iterable[ToolServer]) -> None:
        self._settings = tuple(settings)
        self._servers: dict[str, Server] = {}
        self._retiring: dict[asyncio.Task[None], Server] = {}

    async def __aenter__(self) -> Self:
        for name in _LIBRARIES:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self.reconfigure(self._settings)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        retired = dict(self._retiring)
        for retiring in retired:
            retiring.cancel()
        await asyncio.gather(*(server.close() for server in (*self._servers.values(), *retired.values())))

    def source(self, name: str) -> ToolSource:
        """The server of this name. Raises KeyError."""
        return self._servers[name]

    @property
    def states(self) -> tuple[ServerState, ...]:
        """How each is doing, in the configuration's order."""
        return tuple(server.state for server in self._servers.values())

    async def tried(self) -> None:
        """Until each has been connected to, or can't be for now: after ten seconds at most."""
        for server in tuple(self._servers.values()):
            await server.tried()

    def reconfigure(self, settings: Iterable[ToolServer]) -> None:
        """Go on with these. One whose settings are the same keeps its session; one that isn't there any more ends with
        the last of its calls.
        """
        before, self._servers = self._servers, {}
        for each in settings:
            server = before.get(each.name)
            if server is not None and server.settings == each:
                self._servers[each.name] = before.pop(each.name)
            else:
                self._servers[each.name] = Server(each)
        for server in before.values():
            retiring = asyncio.create_task(server.retire())
            self._retiring[retiring] = server
            retiring.add_done_callback(self._retiring.pop)

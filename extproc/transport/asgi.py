"""HTTP of our own, for what isn't gRPC: an ASGI application on a socket that listens already, by uvicorn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn


class _Server(uvicorn.Server):
    """One that leaves signals to whoever runs it, and tells when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def application_served(application: Any, listening: socket.socket, *, keep_alive: int) -> AsyncIterator[None]:
    """Serve inside the block. `keep_alive`: seconds that an idle connection is kept."""
    server = _Server(
        uvicorn.Config(
            application,
            http="h11",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=keep_alive,
            timeout_graceful_shutdown=1,
        )
    )
    serving = asyncio.create_task(server.serve([listening]))
    try:
        await server.ready.wait()
        yield
    finally:
        server.should_exit = True
        await serving

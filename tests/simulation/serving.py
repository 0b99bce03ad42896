"""A processor of a history: it begins, serves at a socket that is none, and is stopped as a signal stops it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, cast

from extproc.exchange.context import ExchangeContext
from extproc.observability.telemetry import Telemetry
from extproc.server.processor import Processor
from extproc.server.workers import Workers

SOCKET = "/processor.sock"


class _Listening:
    """Stands for the socket."""

    family = socket.AF_UNIX

    def getsockname(self) -> str:
        return SOCKET


class Served:
    """A `Processor` that is running."""

    def __init__(
        self, context: ExchangeContext, telemetry: Telemetry, workers: Workers, clock: Callable[[], float]
    ) -> None:
        self.processor = Processor(context, telemetry, workers=workers, clock=clock)
        self._block = AsyncExitStack()
        self._drained: tuple[bool, float] | None = None  # whether all ended, and when nobody waited any more
        self.beside: Callable[[], Awaitable[None]] | None = None
        """Ends what runs beside it."""

    async def begin(self) -> None:
        listening = cast(Any, _Listening())
        await self._block.enter_async_context(
            self.processor.running(f"unix:{SOCKET}", transport="lean", listening=listening)
        )

    async def stop(self, grace: float) -> None:
        """What a signal does: exchanges get their grace, and then the end of the block ends those that are left."""
        self._drained = await self.processor.drain(grace), asyncio.get_running_loop().time()
        if self.beside is not None:
            await self.beside()
        await self._block.aclose()

    def cuts(self, begun: float | None) -> bool:
        """Whether a call that began then, or was never heard of, may be ended now: its grace is over, or it came when
        all others had ended."""
        if self._drained is None:
            return False
        ended, when = self._drained
        return not ended or begun is None or begun >= when

    def under_way(self) -> set[tuple[str, bool]]:
        """The exchanges that there are, and which of them are the gateway's own."""
        return {(call.exchange.id, call.exchange.request.inner) for call in self.processor._running}

    def busy(self) -> set[str]:
        """The exchanges for which something is being done that takes time."""
        return {call.exchange.id for call in self.processor._running if call._work is not None}

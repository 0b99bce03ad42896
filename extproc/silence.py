"""Notices when a backend falls silent in the middle of a stream: no client of today does, and some wait for ever.

A watch costs nothing while messages come: each only leaves its time. A timer looks at that now and then, and is set
anew for when the silence would have lasted too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from extproc.exchange import Exchange
from extproc.wire import ProcessingResponse


class SilenceWatch:
    """Over one exchange; `write` takes what is to be said when it has been silent for too long."""

    def __init__(self, exchange: Exchange, write: Callable[[ProcessingResponse], Awaitable[None]]) -> None:
        self._exchange = exchange
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None
        self._heard = self._loop.time()

    def heard(self) -> None:
        """A message has come, and was answered."""
        self._heard = self._loop.time()
        if self._timer is None and (patience := self._exchange.patience) is not None:
            self._timer = self._loop.call_later(patience, self._look)

    def end(self) -> None:
        """The exchange is over."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        patience = self._exchange.patience
        if patience is None:
            self._timer = None
            return
        left = self._heard + patience - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
            return
        self._timer = None
        self._telling = self._loop.create_task(self._tell())

    async def _tell(self) -> None:
        for reply in self._exchange.silence():
            if isinstance(reply, ProcessingResponse):
                await self._write(reply)

"""Notices when a backend falls silent in the middle of a stream: no client of today does, and some wait for ever.

A watch costs nothing while messages come: each only leaves its time. A timer looks at that now and then, and is set
anew for when the silence would have lasted too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from extproc.exchange import Exchange, Replies


class SilenceWatch:
    """Over one exchange. When it has been silent for too long, `tell` is called, and has to say `replies`."""

    def __init__(self, exchange: Exchange, tell: Callable[[], Awaitable[None]]) -> None:
        self._exchange = exchange
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Future[None] | None = None
        self._heard = self._loop.time()

    def heard(self) -> None:
        """A message has come, and was answered."""
        self._heard = self._loop.time()
        if self._timer is None and (patience := self._exchange.patience) is not None:
            self._timer = self._loop.call_later(patience, self._look)

    def replies(self) -> Replies:
        """What is to be said; nothing if a message has come after all."""
        return self._exchange.silence() if (left := self._left()) is not None and left <= 0 else []

    def end(self) -> None:
        """The exchange is over."""
        if self._timer is not None:
            self._timer.cancel()
        if self._telling is not None:
            self._telling.cancel()

    def _left(self) -> float | None:
        """Seconds of silence that are left; None when it is nobody's fault now."""
        patience = self._exchange.patience
        return None if patience is None else self._heard + patience - self._loop.time()

    def _look(self) -> None:
        left = self._left()
        if left is None:
            self._timer = None
        elif left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._timer = None
            self._telling = asyncio.ensure_future(self._tell())

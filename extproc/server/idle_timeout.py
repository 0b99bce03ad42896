"""Notices when a backend falls silent in the middle of a stream: no client of today does, and some wait for ever.

A watch costs nothing while messages come: each only leaves its time. A timer looks at that now and then, and is set
anew for when the silence would have lasted too long.

Silence is counted only while we listen. When this process has stood still (stopped, starved of its core, or busy with
something else), what the backend has sent meanwhile still waits to be read, and the time says nothing about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from extproc.exchange.machine import Exchange, Inputs
from extproc.exchange.replies import Replies

_BEAT = 0.1
_LATE = 0.1
"""A beat that is later than so many seconds shows that nothing else was done in time either."""
_CATCHING_UP = 1.0
"""Seconds in which what has waited is read, as much as there may be of it; Envoy may have stood still as well."""


class Listening:
    """Measures how long this process has listened: the time of its event loop, less that in which it stood still."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lost = 0.0
        self._caught_up = 0.0
        """When, in the time that this tells, what has waited during the last standstill counts as read."""
        self._beat = self._loop.time()
        self._timer = self._loop.call_later(_BEAT, self._tick)

    def time(self) -> float:
        """Seconds that never pass while nothing is read."""
        now = self._loop.time()
        late = now - self._beat - _BEAT
        if late > _LATE:  # whoever asks may come before the beat that is due
            self._lost += late
            self._beat = now
            self._caught_up = now - self._lost + _CATCHING_UP
        return now - self._lost

    def left(self, until: float) -> float:
        """Seconds until this time; not before all that has waited can have been read."""
        now = self.time()
        return max(until, self._caught_up) - now

    def end(self) -> None:
        """Stop measuring."""
        self._timer.cancel()

    def _tick(self) -> None:
        self.time()
        self._beat = self._loop.time()
        self._timer = self._loop.call_later(_BEAT, self._tick)


class IdleWatch:
    """Over one exchange. When it has been silent for too long, `tell` is called, and has to say `replies`."""

    def __init__(self, exchange: Exchange, inputs: Inputs, tell: Callable[[], None], listening: Listening) -> None:
        """`inputs` are the exchange's."""
        self._exchange = exchange
        self._inputs = inputs
        self._tell: Callable[[], None] | None = tell
        self._listening = listening
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_seconds = 0.0  # that the timer was set by
        self._heard = listening.time()

    def heard(self) -> None:
        """A message has come, and was answered."""
        self._heard = self._listening.time()
        idle_timeout = self._exchange.idle_timeout
        if idle_timeout is not None and (self._timer is None or idle_timeout < self._timer_seconds):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_seconds = idle_timeout
            self._timer = self._loop.call_later(idle_timeout, self._look)

    def replies(self) -> Replies:
        """What is to be said; nothing if a message has come after all."""
        return self._inputs.time_out() if (left := self._left()) is not None and left <= 0 else []

    def end(self) -> None:
        """The exchange is over. Nothing of it is held any more: who tells knows the watch, which would be a cycle."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._tell = None

    def _left(self) -> float | None:
        """Seconds of silence that are left; None when it is nobody's fault now."""
        idle_timeout = self._exchange.idle_timeout
        return None if idle_timeout is None else self._listening.left(self._heard + idle_timeout)

    def _look(self) -> None:
        left = self._left()
        if left is None:
            self._timer = None
        elif left > 0:
            self._timer = self._loop.call_later(left, self._look)
        elif self._tell is not None:
            self._timer = None
            self._tell()

"""How long whatever comes has to wait for the event loop, because it is busy with what came before.

Everything here runs in one loop. From the moment that it wakes to the moment that it waits again it does the work of
all who were ready, and who becomes ready meanwhile waits for as long. That time is measured, of each of its rounds: no
beat that samples it, so no stop is missed, and an idle process isn't woken. What a round was late for its timers comes
to it: then the process stood still while it waited, because a thread had Python's lock, or the system gave the core to
somebody else. It costs two looks at the clock for each round.

uvloop, where that is installed, waits in C, where nobody can look: there a beat tells how late it comes.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

Tell: TypeAlias = Callable[[float], None]
"""Is told the seconds of each round."""
Result = TypeVar("Result")

_BEAT = 0.02


class LoopLag:
    """Makes the loop, and measures it."""

    def __init__(self) -> None:
        self.tell: Tell | None = None
        """Whom to tell, once there is somebody."""

    def run(self, main: Coroutine[Any, Any, Result]) -> Result:
        """Like `asyncio.run`, in such a loop."""
        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            return runner.run(main)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """uvloop's where it is installed, else asyncio's own."""
        try:
            import uvloop
        except ImportError:
            return asyncio.SelectorEventLoop(_TimedSelector(self))
        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        loop.call_soon(self._beat, loop, loop.time())
        return loop

    def _beat(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        if self.tell is not None:
            self.tell(max(0.0, loop.time() - due))
        due = loop.time() + _BEAT
        loop.call_at(due, self._beat, loop, due)


class _TimedSelector(selectors.DefaultSelector):
    """Knows when the loop waits, because it is what the loop waits with."""

    def __init__(self, lag: LoopLag) -> None:
        super().__init__()
        self._lag = lag
        self._began = time.monotonic()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        asked = time.monotonic()
        if self._lag.tell is not None:
            self._lag.tell(asked - self._began)
        ready = super().select(timeout)
        woken = time.monotonic()
        # The selector rounds up to a millisecond; nobody waits for what comes without a limit.
        self._began = woken if not timeout or timeout < 0 else min(woken, asked + timeout + _ROUNDED)
        return ready


_ROUNDED = 0.001

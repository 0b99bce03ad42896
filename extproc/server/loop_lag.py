"""The event loop that the processor runs on: it knows how long it was busy, and can wait for more to come at a time.

**Lag.** Everything runs in one loop. From the moment that it wakes to the moment that it waits again it does the work
of all who were ready, and who becomes ready meanwhile waits for as long. That time is measured, of each of its rounds:
no beat that samples it, so no stop is missed, and an idle process isn't woken. What a round was late for its timers
comes to it: then the process stood still while it waited, because a thread had Python's lock, or the system gave the
core to somebody else. It costs two looks at the clock for each round.

**Gathering.** To be woken costs some 150 us of processor time, the pieces that have come by then 30 us each (measured
with Envoy and 64 streams of 45 tokens a second). So where many streams run and nothing else goes on, the loop sleeps a
little before it looks what has come, as network cards do with their interrupts.

uvloop has no place for either, and brings nothing else: of six runs by turns, with 30 streams, asyncio's own loop took
84, 94 and 95 us a token, and uvloop 95, 104 and 98.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

Tell: TypeAlias = Callable[[float], None]
"""Is told the seconds of each round."""
Gather: TypeAlias = Callable[[], float]
"""Says, at the end of each round, how many seconds what comes next may be left to gather."""
Result = TypeVar("Result")


class LoopLag:
    """Makes the loop, and measures it."""

    def __init__(self) -> None:
        self.tell: Tell | None = None
        """Whom to tell, once there is somebody."""
        self.gather: Gather | None = None
        """Whom to ask, once there is somebody."""

    def run(self, main: Coroutine[Any, Any, Result]) -> Result:
        """Like `asyncio.run`, in such a loop."""
        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            return runner.run(main)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """For `asyncio.Runner`."""
        return asyncio.SelectorEventLoop(_TimedSelector(self))


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
        if self._lag.gather is not None and (seconds := self._lag.gather()) and (timeout is None or timeout > seconds):
            time.sleep(seconds)
            timeout = timeout and timeout - seconds
            asked += seconds
        ready = super().select(timeout)
        woken = time.monotonic()
        # The selector rounds up to a millisecond; nobody waits for what comes without a limit.
        self._began = woken if not timeout or timeout < 0 else min(woken, asked + timeout + _ROUNDED)
        return ready


_ROUNDED = 0.001

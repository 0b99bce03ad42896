"""Shares the event loop's thread among calls: a slice of some milliseconds each time, so that no burst stops the rest.

One read of a socket can bring hundreds of messages, and one message can take milliseconds. What comes is dealt with at
once while the slice lasts; what is left waits in order, and the loop looks at everything else in between.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

SLICE = 0.003
"""Seconds of work between two looks of the loop at what else there is to do."""


class Turns:
    """Of one event loop."""

    __slots__ = ("_loop", "_spent", "_waiting", "clock")

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """`clock` tells seconds, from any beginning: what work takes is measured by it."""
        self.clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Callable[[], None]] = deque()
        self._spent = 0.0

    @property
    def free(self) -> bool:
        """Whether something may be done at once: nobody waits, and the slice isn't used up. Say `spent` then."""
        return not self._waiting

    def spent(self, seconds: float) -> None:
        """So long was worked out of turn."""
        self._spent += seconds
        if self._spent > SLICE and not self._waiting:
            self.later(_nothing)  # until the loop has been round

    def later(self, work: Callable[[], None]) -> None:
        """Do this when those who wait have had their turn, and the loop has looked round."""
        if not self._waiting:
            self._loop.call_soon(self._work)
        self._waiting.append(work)

    async def turn(self) -> None:
        """Wait for one's turn."""
        done = self._loop.create_future()
        self.later(lambda: None if done.done() else done.set_result(None))
        await done

    def _work(self) -> None:
        waiting, clock = self._waiting, self.clock
        began = clock()
        until = began + SLICE
        self._spent = 0.0
        try:
            while True:
                # It stays in the queue while it is done, so that nobody goes before those who wait.
                waiting[0]()
                waiting.popleft()
                if not waiting or clock() >= until:
                    break
        except BaseException:
            waiting.popleft()
            raise
        finally:
            if waiting:
                self._loop.call_soon(self._work)
            else:
                self.spent(clock() - began)  # what is read in this round of the loop comes on top of it


def _nothing() -> None:
    pass

"""A child that serves, kept running: started again when it ends, and when it doesn't answer any more.

It is never given up: what it dies of may pass, as a full disk does, or a port that another program has. Between two
starts there is a pause, twice as long each time, so that a child that can't live keeps nobody busy.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NoReturn

from extproc.supervisor.child import Child
from extproc.supervisor.errors import GatewayError

_START_TIMEOUT = 60.0
"""Seconds: importing alone takes one on a machine that is idle, and twenty on one that isn't."""
_ASK_EVERY = 2.0
_ANSWER, _QUESTIONS = 10.0, 2
"""A child that leaves so many questions in a row unanswered, each for so many seconds, hangs. With one alone it may
have been us who stood still."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
"""Seconds until another start; before the first one there is no pause."""
_WELL = 60.0
"""Seconds after which a child counts as one that can live."""


@dataclass
class Service:
    """How a child is started and asked, and the one that runs now. `begin` once, then `keep_running`."""

    name: str
    start: Callable[[], Awaitable[Child]]
    serving: Callable[[], Coroutine[Any, Any, None]]
    """Returns when it answers, as one that serves."""
    child: Child | None = None

    async def begin(self) -> None:
        """Start it. Its end before it serves is a GatewayError."""
        self.child = await self.start()
        await self.until_ready()

    async def until_ready(self) -> None:
        """Wait until the child, which was started, serves. Raises GatewayError if it doesn't."""
        assert self.child is not None
        if not await self._answers(self.child, _START_TIMEOUT):
            if self.child.ended.done():
                raise GatewayError(f"{self.name} didn't start ({self.child.fate}); its output is above")
            raise GatewayError(f"{self.name} isn't ready after {_START_TIMEOUT:g} seconds; its output is above")

    async def keep_running(self) -> NoReturn:
        """Have it run until this is cancelled."""
        pause, well_since = 0.0, time.monotonic()
        while True:
            trouble = await self._trouble()
            if time.monotonic() - well_since >= _WELL:
                pause = 0.0
            say(f"{self.name} {trouble}; starting it again{f' in {pause:g} s' if pause else ''}")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE) or _FIRST_PAUSE
            try:
                await self.begin()
            except (GatewayError, OSError) as error:  # the system may have no room for another process
                say(str(error))
            else:
                say(f"{self.name} is ready again")
            well_since = time.monotonic()

    async def _trouble(self) -> str:
        """Wait until the child has ended, by itself or because it hangs; what has happened to it."""
        child = self.child
        if child is None:
            return "couldn't be started"
        while not child.ended.done():
            await asyncio.wait((child.ended,), timeout=_ASK_EVERY)
            for _ in range(_QUESTIONS):
                if child.ended.done() or await self._answers(child, _ANSWER):
                    break
            else:
                await child.kill()
                return f"didn't answer for {_QUESTIONS * _ANSWER:g} seconds and was killed"
        return f"ended ({child.fate})"

    async def _answers(self, child: Child, seconds: float) -> bool:
        """Whether it serves within this time; False too when it ends before."""
        asking = asyncio.create_task(self.serving())
        try:
            await asyncio.wait((asking, child.ended), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return asking.done() and not child.ended.done()
        finally:
            asking.cancel()
            await asyncio.wait((asking,))


def say(message: str) -> None:
    """Tell the person at the terminal; stdout is for the guide and the access log."""
    print(f"extproc: {message}", file=sys.stderr, flush=True)

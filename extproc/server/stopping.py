"""How a running command is ended: the first SIGINT, SIGTERM or SIGHUP asks it to finish, the second one insists."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self


class StopSignals:
    """Counts the signals that arrive inside its `with` block, instead of letting them end the process.

    Those that the process was started to ignore (SIGHUP by nohup, SIGINT in the background) stay ignored.
    """

    def __init__(self) -> None:
        wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        self._numbers = [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]
        self._asked = asyncio.Event()
        self._insisted = asyncio.Event()

    def __enter__(self) -> Self:
        for number in self._numbers:
            asyncio.get_running_loop().add_signal_handler(number, self._received)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._numbers:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _received(self) -> None:
        (self._insisted if self._asked.is_set() else self._asked).set()

    async def asked(self) -> None:
        """Wait for the first signal."""
        await self._asked.wait()

    async def insisted(self) -> None:
        """Wait for the second one."""
        await self._insisted.wait()


async def completes(work: Coroutine[Any, Any, None], *, unless: Coroutine[Any, Any, None]) -> bool:
    """Run `work` to its end, or cancel it as soon as `unless` ends. Returns whether it came to its end.

    What `work` raises is raised here.
    """
    working, stopping = asyncio.create_task(work), asyncio.create_task(unless)
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, stopping):
            task.cancel()
            await asyncio.wait((task,))
    if working.cancelled():
        return False
    working.result()
    return True

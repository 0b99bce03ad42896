"""Keeps one worker running: asks it now and then how it is, and has another started when it has died or hangs.

One that has served is started again at once. One that dies before it serves comes after a pause that grows, so that
nobody is kept busy by it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from extproc.observability.telemetry import Telemetry
from extproc.processes.process import WorkerGoneError, WorkerProcess

log = logging.getLogger(__name__)

_BEAT = 1.0
"""Seconds between two questions. What a worker has counted since its last answer is lost if it dies."""
PATIENCE, _QUESTIONS = 5.0, 2
"""A worker that leaves so many questions in a row unanswered, each for so many seconds, hangs. With one alone it may
have been us who stood still."""
_START = 60.0
"""Seconds that a worker has to serve: the first ones wait for imports, a second, or twenty on a busy machine."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0


class Keeper:
    """Of the worker that has one of the fleet's sockets."""

    def __init__(
        self,
        start: Callable[[], Awaitable[WorkerProcess]],
        begins: Callable[[WorkerProcess], None],
        ends: Callable[[WorkerProcess], None],
        telemetry: Telemetry,
        patience: float = PATIENCE,
    ) -> None:
        """`begins` is called with each that is started, and tells it what to go by; `ends` when it has died."""
        self._start = start
        self._begins = begins
        self._ends = ends
        self._telemetry = telemetry
        self._patience = patience
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the first one serves; OSError when it doesn't."""
        self.task = asyncio.create_task(self._keep())
        self.task.add_done_callback(self._tell_bugs)

    async def _keep(self) -> None:
        pause = 0.0
        while True:
            served, trouble = await self._live()
            if not self.begun.done():
                self.begun.set_exception(OSError(f"a worker {trouble}"))
                return
            pause = 0.0 if served else min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            log.error("a worker %s; starting another%s", trouble, f" in {pause:g} s" if pause else "")
            self._telemetry.worker_restarted()
            await asyncio.sleep(pause)

    async def _live(self) -> tuple[bool, str]:
        """One worker, from its start to its end: whether it has served, and what became of it, in words."""
        try:
            worker = await self._start()
        except OSError as error:
            return False, f"can't be started: {error}"
        self._begins(worker)
        served, hangs = False, ""
        try:
            async with asyncio.timeout(_START):
                await worker.ask()
            served = True
            if not self.begun.done():
                self.begun.set_result(None)
            await self._until_hanging(worker)
            hangs = f"didn't answer for {_QUESTIONS * self._patience:g} seconds and was killed"
        except TimeoutError:
            hangs = f"didn't serve after {_START:g} seconds and was killed"
        except WorkerGoneError:
            pass
        if hangs:
            worker.kill()
        fate = await worker.over()
        self._ends(worker)  # what it holds is free when it can't write there any more
        return served, hangs or f"has ended ({fate})"

    async def _until_hanging(self, worker: WorkerProcess) -> None:
        """Raises WorkerGoneError when it ends by itself."""
        unanswered = 0
        while unanswered < _QUESTIONS:
            await asyncio.wait((worker.ended,), timeout=_BEAT)
            try:
                async with asyncio.timeout(self._patience):
                    await worker.ask()
                unanswered = 0
            except TimeoutError:
                unanswered += 1

    def _tell_bugs(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (bug := task.exception()) is not None:
            log.error("bug: a worker isn't kept any more", exc_info=bug)
            if not self.begun.done():
                self.begun.set_exception(bug)

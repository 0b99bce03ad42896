"""The workers of one character: warm, one more than there are calls, and not too many.

A worker that is lost is replaced before it is missed. One that can't be started, or that is lost before it was of any
use, is a failure: the next start waits, longer each time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from extproc.runner.characters.worker import LoadError, Source, Worker

log = logging.getLogger(__name__)

MOST = 4
"""Workers of one character, and so calls that run at once."""
WARM = 2
"""Workers that are there while nothing happens: one for the next call, and one in case that it kills the first."""
_LONGEST_WAIT = 5.0
"""Seconds for a call until a worker has time for it."""
_IDLE = 60.0
"""Seconds after which what is more than warm ends."""
_BURST, _PERIOD = 8, 2.0
"""Starts within so many seconds: the next one waits. A start takes 40 ms of a processor, and a character that loses its
workers again and again is nobody's to pay for but its own."""
_FIRST_DELAY, _LONGEST_DELAY = 0.25, 30.0
"""Seconds from a failure to the next start: twice as long each time."""


class BusyError(Exception):
    """All workers are busy, or none can be started."""


class Pool:
    """Lends a worker to one call at a time."""

    def __init__(self, source: Source, memory: int, first: Worker) -> None:
        self._source, self._memory = source, memory
        self._workers: set[Worker] = set()
        """All that haven't ended, those included that are being killed."""
        self._free: list[Worker] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._starter: asyncio.Task[None] | None = None
        self._failures = 0
        self._starts = deque[float](maxlen=_BURST)
        self._trim_handle: asyncio.TimerHandle | None = None
        self.is_closed = False
        self._add(first)
        self._grow()

    @property
    def pids(self) -> list[int]:
        """Of the processes that there are."""
        return [worker.pid for worker in self._workers]

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[Worker]:
        """Raises BusyError."""
        worker = await self._take()
        try:
            yield worker
        finally:
            self._give_back(worker)

    def close(self) -> None:
        """End all workers, whatever they do. `ended` waits for it."""
        self.is_closed = True
        if self._starter is not None:
            self._starter.cancel()
        if self._trim_handle is not None:
            self._trim_handle.cancel()
        for worker in self._workers:
            worker.kill()
        self._wake()

    async def ended(self) -> None:
        """When all workers of a closed pool have ended."""
        if self._starter is not None:
            await asyncio.wait((self._starter,))
        if self._workers:
            await asyncio.wait([worker.ended for worker in self._workers])

    async def _take(self) -> Worker:
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                while True:
                    if self.is_closed:
                        raise BusyError
                    while self._free:
                        worker = self._free.pop()  # the one that was used last: it may remember, and is in the cache
                        if worker.is_usable:
                            self._grow()
                            return worker
                    turn = asyncio.get_running_loop().create_future()
                    self._waiting.append(turn)
                    self._grow()
                    try:
                        await turn
                    finally:
                        if turn in self._waiting:
                            self._waiting.remove(turn)
        except TimeoutError:
            raise BusyError from None

    def _give_back(self, worker: Worker) -> None:
        if worker.is_usable and not self.is_closed:
            self._failures = 0
            self._free.append(worker)
            self._wake()
            if len(self._usable()) > WARM and self._trim_handle is None:
                self._trim_handle = asyncio.get_running_loop().call_later(_IDLE, self._trim)
        else:
            worker.kill()
            self._grow()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    def _usable(self) -> list[Worker]:
        return [worker for worker in self._workers if worker.is_usable]

    def _grow(self) -> None:
        """Have as many workers started as there should be."""
        if not self.is_closed and self._starter is None and len(self._usable()) < self._wanted():
            self._starter = asyncio.create_task(self._start())

    def _wanted(self) -> int:
        busy = len(self._usable()) - sum(worker.is_usable for worker in self._free)
        return min(MOST, max(WARM, busy + len(self._waiting) + 1))

    async def _start(self) -> None:
        """Start one after the other, until there are enough."""
        try:
            while not self.is_closed and len(self._usable()) < self._wanted():
                if self._failures:
                    await asyncio.sleep(min(_LONGEST_DELAY, _FIRST_DELAY * 2 ** min(self._failures - 1, 10)))
                await self._pause()
                try:
                    worker = await Worker.start(self._source, self._memory)
                except LoadError as error:
                    self._failures += 1
                    log.error("%s: no worker could be started: %s", self._source.file.name, error)
                else:
                    self._add(worker)
                    self._wake()
        finally:
            self._starter = None

    async def _pause(self) -> None:
        """Until another start is due."""
        clock = asyncio.get_running_loop().time
        if len(self._starts) == _BURST:
            await asyncio.sleep(self._starts[0] + _PERIOD - clock())
        self._starts.append(clock())

    def _add(self, worker: Worker) -> None:
        self._workers.add(worker)
        self._free.append(worker)
        worker.ended.add_done_callback(lambda _: self._lost(worker))
        if self.is_closed:
            worker.kill()

    def _lost(self, worker: Worker) -> None:
        self._workers.discard(worker)
        if worker in self._free:
            self._free.remove(worker)
            self._failures += not worker.calls
        self._grow()

    def _trim(self) -> None:
        self._trim_handle = None
        while len(self._usable()) > WARM and self._free:
            self._free.pop(0).kill()

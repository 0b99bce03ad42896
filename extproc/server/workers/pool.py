"""Where heavy effects are performed: in two processes, so that what takes long waits for its like only.

    quick    bodies up to 256 kB, of which the worst takes some 0.1 s
    long     larger ones, of which the worst takes some seconds

What comes on top waits, for so many bytes and so long at most; then there is a 503. Whose turn it is goes by weight:
each client gets its share of the bytes that are read, so that who sends much waits for himself and not others for him.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from extproc.contract.errors import ApiError, overloaded
from extproc.exchange.effects import Heavy, Prepare
from extproc.server.workers.process import WorkerDiedError, WorkerProcess
from extproc.turn.answer import Rewritten
from extproc.turn.upstream import UpstreamRequest

log = logging.getLogger(__name__)

_QUICK = 256 * 1024
MOST_QUICK, MOST_LONG = 32 * 1024 * 1024, 96 * 1024 * 1024
"""Bytes of bodies that are read or wait for it. The processor holds each of them up to three times."""
_LONGEST_WAIT = 55.0
"""Seconds; Envoy was told to wait for 60 (`exchange.PREPARING`)."""
_IDLE = 600.0
"""Seconds after which the worker for long work ends when it has none: it takes 50 MB. The other one stays, because most
requests of agents are its work, and to start it takes half a second."""

Client = str | None
_THREAD = partial(ThreadPoolExecutor, 1)


class Workers:
    """All workers of a processor. None is started before there is something to do."""

    def __init__(
        self,
        process: Callable[[], WorkerProcess] = WorkerProcess,
        thread: Callable[[str], Executor] = _THREAD,
    ) -> None:
        """`process` makes a worker; `thread`, by its name, what waits for one."""
        self._quick = _Lane("quick", MOST_QUICK, process(), thread)
        self._long = _Lane("long", MOST_LONG, process(), thread, idle=_IDLE)

    def perform(self, effect: Heavy) -> Coroutine[Any, Any, UpstreamRequest | Rewritten | ApiError]:
        """What comes of it, or why it can't be had. Raises WorkerBugError.

        It is kept only until a worker has it: who wants its memory back then keeps it no longer either.
        """
        return (self._quick if len(effect.body) <= _QUICK else self._long).perform(effect)

    @property
    def pids(self) -> list[int]:
        """Of the processes that there are."""
        return [pid for lane in (self._quick, self._long) if (pid := lane.process.pid) is not None]

    @property
    def load(self) -> tuple[int, int]:
        """How many bodies are read or wait for it, and their bytes."""
        lanes = (self._quick, self._long)
        return sum(lane.count for lane in lanes), sum(lane.bytes for lane in lanes)

    def close(self) -> None:
        """End them all, whatever they do."""
        self._quick.close()
        self._long.close()


@dataclass(order=True, slots=True)
class _Waiting:
    turn: float
    """By how many bytes its client has had read when this is done: the lowest is next."""
    number: int
    effect: Heavy | None = field(compare=False)
    """None when nobody waits for it any more."""
    result: asyncio.Future[UpstreamRequest | Rewritten | ApiError] = field(compare=False)


class _Lane:
    """One worker and those who wait for it."""

    def __init__(
        self,
        name: str,
        most: int,
        process: WorkerProcess,
        thread: Callable[[str], Executor],
        *,
        idle: float | None = None,
    ) -> None:
        self.process = process
        self.count = 0
        """How many bodies are read or wait for it."""
        self._longest_idle = idle
        self._name = name
        self._most = most
        self._thread = thread(f"worker-{name}")
        self._queue: list[_Waiting] = []
        self._numbers = count()
        self._bytes = Counter[Client]()  # of each client, that are read or wait for it
        self._turns: dict[Client, float] = {}
        self._turn = 0.0  # of what is being read
        self._task: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None

    @property
    def bytes(self) -> int:
        """Of what is read or waits for it."""
        return self._bytes.total()

    async def perform(self, effect: Heavy) -> UpstreamRequest | Rewritten | ApiError:
        client, size = effect.client, len(effect.body)
        waiting = self._bytes.total()
        # Who is known leaves half of the room to others; one that is alone may be as large as it likes. An answer is
        # never too much: its request had its turn, and a model has worked for it.
        full = bool(waiting) and waiting + size > self._most
        is_much = client is not None and self._bytes[client] > 0 and self._bytes[client] + size > self._most / 2
        if isinstance(effect, Prepare) and (full or is_much):
            return _too_much()
        self._bytes[client] += size
        self.count += 1
        turn = self._turns[client] = max(self._turn, self._turns.get(client, 0.0)) + size
        result: asyncio.Future[UpstreamRequest | Rewritten | ApiError] = asyncio.get_running_loop().create_future()
        entry = _Waiting(turn, next(self._numbers), effect, result)
        del effect
        heapq.heappush(self._queue, entry)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                return await result
        except TimeoutError:
            return _too_much()
        finally:
            entry.effect = None
            self.count -= 1
            self._bytes[client] -= size
            if not self._bytes[client]:
                del self._bytes[client]

    async def _work(self) -> None:
        """Until nobody waits."""
        if self._idle is not None:
            self._idle.cancel()
        loop = asyncio.get_running_loop()
        while self._queue:
            entry = heapq.heappop(self._queue)
            effect, entry.effect = entry.effect, None
            if effect is None:
                continue
            self._turn = entry.turn - len(effect.body)
            box = [effect]
            del effect
            try:
                result = await loop.run_in_executor(self._thread, self._perform, box)
            except Exception as error:
                if not entry.result.done():
                    entry.result.set_exception(error)
            else:
                if not entry.result.done():
                    entry.result.set_result(result)
                del result
            del entry
        self._turn = 0.0
        self._turns.clear()
        self._task = None
        if self._longest_idle is not None:
            self._idle = loop.call_later(self._longest_idle, self._thread.submit, self.process.end)

    def _perform(self, box: list[Heavy]) -> UpstreamRequest | Rewritten | ApiError:
        size, without_body = len(box[0].body), replace(box[0], body=b"")
        try:
            return self.process.perform(box)
        except WorkerDiedError as died:
            log.error("the %s worker died while handling %d bytes: %s", self._name, size, died)
            if died.overran:
                return without_body.failed("takes too long to be read")
            return overloaded("The gateway is short of memory. Try again in a moment.")

    def close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        if self._task is not None:
            self._task.cancel()
        self.process.kill()
        self._thread.submit(self.process.end)
        self._thread.shutdown(wait=False)


def _too_much() -> ApiError:
    return overloaded("The gateway is reading as much as it can. Try again in a moment.")

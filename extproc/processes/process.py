"""One worker as its fleet sees it: a process, and what it answers."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import signal
import socket
from collections.abc import Callable
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Self

from extproc.processes.messages import Answer, Ask, FromWorker, GoBy, Link, ToWorker
from extproc.processes.shared import SharedCounts
from extproc.processes.worker import Place, main

PRELOADED = ["extproc.cli", "extproc.processes.preload"]
"""The command's own modules too: each worker goes through them once more, as `multiprocessing` has it."""
_TO_DIE = 1.0
"""Seconds for a process whose link is closed."""


class WorkerGoneError(Exception):
    """The worker has ended, and will not answer."""


def forks() -> ForkServerContext:
    """What starts workers: a process that is forked for each, in a few milliseconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


class WorkerProcess:
    """A process that was started. `over` must follow."""

    def __init__(
        self, place: Place, process: ForkServerProcess, link: Link, hear: Callable[[WorkerProcess, FromWorker], None]
    ) -> None:
        self.place = place
        self.last: Answer | None = None
        """What it has answered last."""
        self._config = -1  # the number of the one that it has
        self._process = process
        self._link = link
        self._hear = hear
        self._asked: dict[int, asyncio.Future[Answer]] = {}
        self._numbers = itertools.count()
        self.ended = asyncio.create_task(self._listen())
        """Done when nothing more will come of it."""

    @classmethod
    async def start(
        cls,
        context: ForkServerContext,
        place: Place,
        listening: socket.socket,
        counts: SharedCounts,
        hear: Callable[[WorkerProcess, FromWorker], None],
    ) -> Self:
        """`hear` is called with all that it says and wasn't asked. Raises OSError when there can be no process."""
        ours, its = socket.socketpair()
        process = context.Process(
            target=main, args=(its, listening, counts, place), name=f"extproc-worker-{place.number}", daemon=True
        )
        try:
            with its:
                await asyncio.to_thread(process.start)
            return cls(place, process, await Link.over(ours), hear)
        except BaseException as error:
            ours.close()
            if isinstance(error, EOFError):  # what is forked has died
                raise OSError("a worker can't be started") from error
            raise

    @property
    def pid(self) -> int:
        assert self._process.pid is not None  # it was started
        return self._process.pid

    def send(self, message: ToWorker) -> None:
        """Say something; to nobody if it has ended."""
        self._link.send(message)

    def go_by(self, message: GoBy) -> None:
        """Send it, without the configuration if that is the one that it has."""
        known = message.number == self._config
        self._config = message.number
        self.send(GoBy(message.number, None if known else message.config, message.keys, message.since))

    async def ask(self, *, when_idle: bool = False) -> Answer:
        """How it is with it, after it has taken all that was sent. Raises WorkerGoneError."""
        if self.ended.done():
            raise WorkerGoneError
        number = next(self._numbers)
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[number] = answered
        self.send(Ask(number, when_idle))
        try:
            return await answered
        finally:
            del self._asked[number]

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()

    async def over(self, patience: float = _TO_DIE) -> str:
        """Wait until the process has ended, for so many seconds, and then kill it; how it has ended, in words."""
        await asyncio.to_thread(self._process.join, patience)
        if self._process.exitcode is None:
            self._process.kill()
            await asyncio.to_thread(self._process.join)
        await self.ended
        self._link.close()
        status = self._process.exitcode
        self._process.close()
        assert status is not None  # it has been waited for
        return f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"

    async def _listen(self) -> None:
        try:
            while True:
                message: FromWorker = await self._link.receive()
                if not isinstance(message, Answer):
                    self._hear(self, message)
                    continue
                self.last = message
                answered = self._asked.get(message.number)
                if answered is not None and not answered.done():
                    answered.set_result(message)
        except EOFError:
            pass
        finally:
            for waiting in self._asked.values():
                if not waiting.done():
                    waiting.set_exception(WorkerGoneError())

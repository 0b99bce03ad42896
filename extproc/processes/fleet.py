"""The processor as several processes: what all else in the control process knows of it.

A worker that dies takes its own exchanges along, and nobody else's. Its socket stays, and who connects meanwhile waits
until the next worker has it; what it has counted still counts, and what it held of clients' shares is free.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from functools import partial

from extproc.config import Config
from extproc.config.recording import Recording
from extproc.exchange.catalogue import ModelInfos
from extproc.exchange.context import ExchangeContext
from extproc.names import worker_address
from extproc.observability.added_metrics import Metrics, added, counted
from extproc.observability.telemetry import Telemetry
from extproc.processes.keeper import PATIENCE, Keeper
from extproc.processes.messages import (
    Answer,
    Ended,
    FromWorker,
    GoBy,
    Health,
    HostSeen,
    LogStream,
    LogStreams,
    Reports,
    Stop,
    ToWorker,
)
from extproc.processes.process import WorkerGoneError, WorkerProcess, forks
from extproc.processes.shared import SharedCounts
from extproc.processes.worker import Place, owner_of
from extproc.server.processor import CONFIG_HEALTH, ENVOY_HEALTH, HOST_HEALTH, PROBE, largest_body
from extproc.transport import Endpoint, Turns, serving
from extproc.transport.health import Health as HealthService
from extproc.transport.lean.server import bound
from extproc.transport.tls import ServerTls
from extproc.wire import SERVICE

_LOOK = 1.0
"""Seconds between two looks at what backends have said."""
_IN_A_MOMENT = 1.0
"""Seconds that a page waits for workers' newest numbers; of who doesn't answer it has those of the last answer."""
_TO_END = 5.0


class Fleet:
    """Workers, and what they have in common: to the rest of the gateway the same as a `Processor`."""

    def __init__(
        self,
        context: ExchangeContext,
        telemetry: Telemetry,
        workers: int,
        recording: Recording | None = None,
        watched: bool = False,
        patience: float = PATIENCE,
    ) -> None:
        """`telemetry` is what this process counts itself; `recording` is where exchanges are recorded, and `watched`
        whether they are shown to a watcher, whatever configurations say. `patience`: how many seconds a worker has to
        answer."""
        self._patience = patience
        self.context = context
        self.largest_body = largest_body(context.config)
        self.workers = workers
        self._telemetry = telemetry
        self._recording = recording
        self._watched = watched
        self._processes: dict[int, WorkerProcess] = {}
        """By number; one that is just being started again is missing."""
        self._configs = {0: context.config}
        """Those that exchanges may go by, by number; the last one is in force."""
        self._starts = itertools.count()
        self._reports: ModelInfos = {}
        """What workers know of backends."""
        self._follows: dict[WorkerProcess, bool] = {}
        self._log_streams: dict[WorkerProcess, int] = {}
        self._over: Metrics = ()
        """What the dead have counted."""
        self._serving: dict[str, bool] = {}
        self._health = HealthService()
        self._draining = False

    @property
    def exchanges(self) -> int:
        """How many were under way when the workers were last asked, within the last second."""
        return sum(each.last.exchanges for each in self._processes.values() if each.last is not None)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers that there are now."""
        return [each.pid for each in self._processes.values()]

    def uses(self, config: Config) -> bool:
        """Whether an exchange may be under way that goes by this very configuration."""
        numbers = {number for number, known in self._configs.items() if known is config}
        answers = [each.last for each in self._processes.values()]
        return any(answer is not None and not numbers.isdisjoint(answer.configs) for answer in answers)

    async def go_by(self, context: ExchangeContext) -> None:
        """Have exchanges that begin from now on go by this: none goes by anything else when this returns."""
        if context.config is not self.context.config:
            number = max(self._configs) + 1
            self._configs = {each: config for each, config in self._configs.items() if self.uses(config)}
            self._configs |= {number - 1: self.context.config, number: context.config}
        self.context = context
        for worker in self._processes.values():
            worker.go_by(self._to_go_by())
        await self._ask_all()

    async def page(self, *, openmetrics: bool = False) -> bytes:
        """The metrics of all together."""
        from extproc.observability.exposition import pieces_of, whole

        return await whole(pieces_of(await self.metrics(), openmetrics=openmetrics))

    async def metrics(self) -> Metrics:
        """The same, before they are written."""
        await self._learn()
        theirs = [each.last.metrics for each in self._processes.values() if each.last is not None]
        return added(self._telemetry.metrics, theirs, self._over)

    async def under_way(self) -> int:
        """How many exchanges are under way now."""
        await self._learn()
        return self.exchanges

    @asynccontextmanager
    async def running(
        self, address: str, health_address: str | None = None, *, healthy: bool = True, tls: ServerTls | None = None
    ) -> AsyncIterator[None]:
        """Serve inside the block, worker number n at `names.worker_address(address, n)`: see `Processor.running`.

        Raises OSError also when a worker can't be started.
        """
        self._set_health({"": healthy, SERVICE: healthy, ENVOY_HEALTH: healthy, CONFIG_HEALTH: True, HOST_HEALTH: True})
        if tls is not None:
            tls.context()  # what is wrong with its files is told once, and not by each worker
        with ExitStack() as sockets:
            addresses = [worker_address(address, number) for number in range(self.workers)]
            listening = [sockets.enter_context(bound(each)) for each in addresses]
            counts, context = SharedCounts(self.workers), forks()

            async def start(number: int) -> WorkerProcess:
                expects_log = self.context.concurrency.expects_log
                place = Place(
                    number, next(self._starts), addresses[number], tls, expects_log, self._recording, self._watched
                )
                return await WorkerProcess.start(context, place, listening[number], counts, self._heard)

            keepers = [
                Keeper(
                    partial(start, number),
                    self._begins,
                    partial(self._ends, counts=counts),
                    self._telemetry,
                    self._patience,
                )
                for number in range(self.workers)
            ]
            tasks = [asyncio.create_task(self._tell_reports()), *(keeper.task for keeper in keepers)]
            try:
                await asyncio.gather(*(keeper.begun for keeper in keepers))
                async with AsyncExitStack() as served:
                    if health_address is not None:
                        probed = Endpoint(health_address, self._health.services, PROBE)
                        await served.enter_async_context(serving("lean", probed, Turns()))
                    yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                await self._stop()

    async def drain(self, grace: float) -> bool:
        """See `Processor.drain`."""
        self._draining = True
        self._set_health(dict.fromkeys(("", SERVICE, ENVOY_HEALTH), False))
        try:
            async with asyncio.timeout(grace):
                while True:
                    await self._ask_all(when_idle=True)
                    await self._ask_all()
                    if not self.exchanges:  # all at the same time
                        return True
        except TimeoutError:
            return False

    def show_health(self) -> None:
        """Tell that all is in place."""
        self._set_health({"": True, SERVICE: True})

    def show_envoy_health(self) -> None:
        """Tell that Envoy has taken what it was given."""
        self._set_health({ENVOY_HEALTH: not self._draining})

    def show_config_health(self, *, valid: bool) -> None:
        """Tell whether the files on disk are in force."""
        self._set_health({CONFIG_HEALTH: valid})

    def _set_health(self, serving: dict[str, bool]) -> None:
        self._serving |= serving
        for service, serves in serving.items():
            self._health.set(service, serving=serves)
        self._tell_all(Health(self._serving))

    # What workers say, and what becomes of them

    def _begins(self, worker: WorkerProcess) -> None:
        """One has been started: it learns what all the others know."""
        worker.go_by(self._to_go_by())
        worker.send(Health(self._serving))
        worker.send(LogStreams(sum(self._log_streams.values()), lost=False))
        worker.send(Reports(self._reports))
        self._processes[worker.place.number] = worker

    def _ends(self, worker: WorkerProcess, counts: SharedCounts) -> None:
        """One has ended, and isn't asked any more."""
        del self._processes[worker.place.number]
        counts.clear(worker.place.number)
        if worker.last is not None:
            self._over = counted(self._over, worker.last.metrics)
        self._follows.pop(worker, None)
        lost = self._log_streams.pop(worker, 0)
        self._tell_all(LogStreams(sum(self._log_streams.values()), lost=lost > 0))
        self._look_at_hosts()

    def _heard(self, worker: WorkerProcess, message: FromWorker) -> None:
        if self._processes.get(worker.place.number) is not worker:
            return  # it has ended since
        match message:
            case HostSeen(follows):
                self._follows[worker] = follows
                self._look_at_hosts()
            case LogStream(opened):
                self._log_streams[worker] = self._log_streams.get(worker, 0) + (1 if opened else -1)
                self._tell_all(LogStreams(sum(self._log_streams.values()), lost=not opened))
            case Ended(leases):
                for each in self._processes.values():
                    if its := tuple(lease for lease in leases if owner_of(lease) == each.place.start):
                        each.send(Ended(its))
            case Answer():
                pass

    def _look_at_hosts(self) -> None:
        self._set_health({HOST_HEALTH: all(self._follows.values())})

    def _to_go_by(self) -> GoBy:
        context = self.context
        return GoBy(max(self._configs), context.config, context.keys, context.since)

    def _tell_all(self, message: ToWorker) -> None:
        for worker in self._processes.values():
            worker.send(message)

    async def _ask_all(self, *, when_idle: bool = False) -> None:
        """Done when all have answered that haven't ended meanwhile."""
        asked = [worker.ask(when_idle=when_idle) for worker in self._processes.values()]
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, BaseException) and not isinstance(answer, WorkerGoneError):
                raise answer

    async def _learn(self) -> None:
        """Have what is newest of all that answer in a moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_IN_A_MOMENT):
                await self._ask_all()

    async def _tell_reports(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            if self._reports != self.context.reports:
                self._reports = dict(self.context.reports)
                self._tell_all(Reports(self._reports))

    async def _stop(self) -> None:
        workers = list(self._processes.values())
        self._tell_all(Stop())
        if workers:
            await asyncio.wait([worker.ended for worker in workers], timeout=_TO_END)
            await asyncio.gather(*(worker.over(_TO_END) for worker in workers))

"""A worker: a `Processor` in a process of its own, which goes by what its fleet says, and ends when the fleet does."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import assert_never

from extproc.config import Config
from extproc.config.recording import Recording
from extproc.diagnosis.live import LiveDiagnosis, in_a_thread
from extproc.exchange.catalogue import ModelInfo
from extproc.exchange.concurrency import Concurrency
from extproc.exchange.context import ExchangeContext
from extproc.observability.logs import log_to
from extproc.observability.open_telemetry import PROCESSOR
from extproc.observability.telemetry import Telemetry
from extproc.processes.messages import (
    Answer,
    Ask,
    Ended,
    GoBy,
    Health,
    HostSeen,
    Link,
    LogStream,
    LogStreams,
    Reports,
    Stop,
    ToWorker,
)
from extproc.processes.shared import CountsOf, SharedCounts
from extproc.recording.recordings import Recordings
from extproc.server.garbage import collect_all_when_quiet, collect_in_small_steps
from extproc.server.loop_lag import LoopLag
from extproc.server.processor import Processor
from extproc.tracing.tracers import Tracers
from extproc.tracing.tracers import make_ready as make_tracing_ready
from extproc.transport.tls import ServerTls
from extproc.turn.call_quality import CallQuality
from extproc.turn.memory import Memory
from extproc.turn.modes import make_ready
from extproc.turn.steering import Steering

log = logging.getLogger(__name__)

_LEASES = 36
"""Bits of a lease's number that count one worker's leases; before them stands whose it is. Envoy's log has 53 in all:
enough for 131,072 starts of workers, and for each of these to give a thousand leases a second for two years."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a worker is started as, for its whole life."""

    number: int
    """From 0 on; the one that is started when this one has died has the same."""
    start: int
    """No other worker of this fleet has the same, before or after."""
    address: str
    tls: ServerTls | None
    expects_log: bool
    """Envoy is configured to tell when requests end (`Concurrency.expects_log`)."""
    recording: Recording | None
    """Where exchanges are recorded, whatever the configuration says of it."""
    watched: bool = False
    """They are shown to a watcher, whatever the configuration says of it."""


def owner_of(lease: int) -> int:
    """The `start` of the worker that has given it out."""
    return lease >> _LEASES


def main(end: socket.socket, listening: socket.socket, counts: SharedCounts, place: Place) -> None:
    """The process. `end` is its side of the link, `listening` the socket where Envoy comes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the fleet says when it is time
    threading.Thread(target=_end_with_parent, daemon=True).start()
    log_to(sys.stderr)
    try:
        lag = LoopLag()
        lag.run(_serve(end, listening, counts, place, lag))
    except OSError as error:
        log.error("%s", error)
        sys.exit(1)
    except Exception as bug:
        # What `multiprocessing` would print has the text of the exception, which can quote a request.
        log.error("bug: a worker has ended", exc_info=bug)
        sys.exit(1)


def _end_with_parent() -> None:
    """Whatever the event loop does meanwhile: nobody else would ever end it, or take its socket from it."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # it was started by one
    parent.join()
    os._exit(1)


async def _serve(
    end: socket.socket, listening: socket.socket, counts: SharedCounts, place: Place, lag: LoopLag
) -> None:
    link = await Link.over(end)
    with suppress(EOFError):  # the fleet is gone, and so are we in a moment
        first = await link.receive()
        worker = _Worker(first, link, counts, place)
        lag.tell, lag.gather = worker.telemetry.lagged, worker.processor.gather
        collect_in_small_steps()
        async with worker.processor.running(place.address, healthy=False, tls=place.tls, listening=listening):
            quiet = asyncio.create_task(collect_all_when_quiet(lambda: worker.processor.exchanges))
            try:
                while not isinstance(message := await link.receive(), Stop):
                    await worker.take(message)
            finally:
                quiet.cancel()
                await worker.tracers.close()


class _Worker:
    """The processor, and what it goes by."""

    def __init__(self, first: GoBy, link: Link, counts: SharedCounts, place: Place) -> None:
        assert first.config is not None  # it has none yet
        self._link = link
        self._configs = {first.number: first.config}
        """Those that exchanges may go by."""
        self._reports: dict[str, Mapping[str, ModelInfo]] = {}
        self._waiting = set[asyncio.Task[None]]()
        concurrency = Concurrency(elsewhere=CountsOf(counts, place.number), first=(place.start << _LEASES) + 1)
        concurrency.expects_log = place.expects_log
        recordings = Recordings(place.recording, watched=place.watched)
        recordings.open(first.config)
        self.tracers = Tracers(PROCESSOR)
        self.tracers.spans(first.config.tracing)
        self.telemetry = Telemetry(first.config)
        memory = Memory()
        quality, steering = CallQuality(), Steering()
        self.telemetry.shows(memory, quality, steering)
        self.processor = Processor(
            ExchangeContext(
                first.config,
                first.keys,
                self._reports,
                concurrency=concurrency,
                memory=memory,
                quality=quality,
                steering=steering,
                advice=LiveDiagnosis(self.telemetry, look=in_a_thread),
                since=first.since,
            ),
            self.telemetry,
            recordings.of,
            ends=_Ends(concurrency, place.start, link),
            on_hosts=lambda follow: link.send(HostSeen(follow)),
            trace=self.tracers.over,
        )

    async def take(self, message: ToWorker) -> None:
        """Do what the fleet says."""
        concurrency = self.processor.context.concurrency
        match message:
            case GoBy():
                await self._go_by(message)
            case Reports(by_backend):
                self._reports.clear()
                self._reports.update(by_backend)
            case Health(serving):
                self.processor.set_health(serving)
            case LogStreams(number, lost):
                concurrency.logs = number
                if lost:
                    concurrency.forget_passed()
            case Ended(leases):
                concurrency.ended(leases)
            case Ask(number, when_idle):
                if when_idle:
                    waiting = asyncio.create_task(self._answer_when_idle(number))
                    self._waiting.add(waiting)
                    waiting.add_done_callback(self._waiting.discard)
                else:
                    self._answer(number)
            case Stop():
                pass
            case _:
                assert_never(message)

    async def _go_by(self, message: GoBy) -> None:
        context = self.processor.context
        config: Config = message.config or context.config
        if message.config is not None:
            self._configs[message.number] = config
            await asyncio.to_thread(make_ready, config.models)
            await asyncio.to_thread(make_tracing_ready, config)
            self.telemetry.configured(config, "")
        await self.processor.go_by(replace(context, config=config, keys=message.keys, since=message.since))

    async def _answer_when_idle(self, number: int) -> None:
        await self.processor.until_idle()
        self._answer(number)

    def _answer(self, number: int) -> None:
        in_use = {each: config for each, config in self._configs.items() if self.processor.uses(config)}
        current = max(self._configs)
        self._configs = {**in_use, current: self._configs[current]}
        answer = Answer(number, self.processor.exchanges, frozenset(in_use), self.telemetry.metrics)
        self._link.send(answer)


class _Ends:
    """What Envoy's log tells this worker, of requests of all of them (`server.access_log.Ends`)."""

    def __init__(self, concurrency: Concurrency, start: int, link: Link) -> None:
        self._concurrency = concurrency
        self._start = start
        self._link = link

    def log_opened(self) -> None:
        self._link.send(LogStream(opened=True))

    def log_closed(self) -> None:
        self._link.send(LogStream(opened=False))

    def ended(self, numbers: Iterable[int]) -> None:
        others = []
        for number in numbers:
            if owner_of(number) == self._start:
                self._concurrency.release(number)
            else:
                others.append(number)
        if others:
            self._link.send(Ended(tuple(others)))

"""The processor as a process of its own: from its address to its last exchange."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from extproc.backends.replicas import hidden_replicas
from extproc.backends.reports import BackendReports
from extproc.config import Config, ConfigError
from extproc.config.recording import Recording
from extproc.control.envoy_admin import EnvoyAdmin
from extproc.control.key_reloading import keys_file, read_keys
from extproc.control.last_in_force import LastInForce
from extproc.control.publishing import EnvoyFiles
from extproc.control.reloading import INTERVAL, Reloading, Source
from extproc.control.serving import Serving
from extproc.control.watched import Watched
from extproc.diagnosis.live import LiveDiagnosis, in_a_thread
from extproc.exchange.api_keys import GRACE, ApiKeys
from extproc.exchange.context import ExchangeContext
from extproc.observability.export import MetricsExport
from extproc.observability.logs import line
from extproc.observability.metrics_page import metrics_served
from extproc.observability.open_telemetry import PROCESSOR
from extproc.observability.telemetry import Telemetry
from extproc.recording.recordings import Recordings
from extproc.server.cores import worker_count
from extproc.server.garbage import collect_all_when_quiet, collect_in_small_steps
from extproc.server.loop_lag import LoopLag
from extproc.server.processor import Processor
from extproc.server.stopping import StopSignals, completes
from extproc.tracing.tracers import Tracers
from extproc.transport.tls import ServerTls, is_open_to_others
from extproc.turn.memory import Memory

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ForEnvoy:
    """How an Envoy is kept up to date that reads its configuration from files."""

    directory: Path
    admin: str | None = None
    """Its admin interface, `/path` or `host:port`, where it can be asked what it has taken."""
    listen: str | None = None
    """Where it listens, instead of where the configuration says."""


@dataclass(frozen=True, slots=True)
class Options:
    """The whole command line."""

    config: Path
    address: str
    """Where the processor listens: `host:port` or `unix:/path`."""
    grace: float
    """How many seconds exchanges get to finish when the processor is asked to stop."""
    health: str | None = None
    """Where the health service is served besides."""
    metrics: str | None = None
    """Where the metrics are served, until the very end."""
    envoy: ForEnvoy | None = None
    interval: float = INTERVAL
    """Seconds between two looks at the files."""
    recording: Recording | None = None
    """Where exchanges are recorded, whatever the configuration says of it."""
    keys_grace: float = GRACE
    """Seconds that API keys hold when there are none any more in their file."""
    tls: ServerTls | None = None
    """For what connects to `address`."""
    sockets: Path | None = None
    """The directory of the sockets between Envoy and us, instead of where the configuration says."""
    workers: int | Literal["auto"] | None = None
    """In how many processes exchanges run, instead of what the configuration says."""
    watched: bool = False
    """Exchanges are shown to `extproc watch`, whatever the configuration says of it."""


def run(options: Options) -> int:
    """`serve` in an event loop of its own."""
    lag = LoopLag()
    return lag.run(serve(options, lag))


async def serve(options: Options, lag: LoopLag) -> int:
    """Serve until a signal comes; returns the exit status. `lag` measures the loop that this runs in.

    Then health turns to not-serving and exchanges under way get their grace to finish. A second signal ends them at
    once. Where the file is broken, what was last in force is served, if it is known. Raises ConfigError, and OSError
    when an address can't be had or Envoy's files can't be written.
    """
    if options.tls is None and is_open_to_others(options.address):
        log.warning(
            "%s can be reached from other machines, without TLS: anyone on the path can read requests and clients' "
            "keys, and anyone who connects is treated as Envoy. Give --tls-certificate, --tls-key and --tls-client-ca, "
            "or see to it that only Envoy gets there.",
            options.address,
        )
    listen = options.envoy.listen if options.envoy else None
    source = Source(Watched(options.config), listen, options.sockets, options.workers)
    last = LastInForce(options.envoy.directory) if options.envoy else None
    beginning = _beginning(source, last)
    config = beginning.config
    _tell_missing_sockets(config)
    telemetry = Telemetry(config, beginning.source.digest)
    lag.tell = telemetry.lagged
    reports = BackendReports(lambda: processor.context.config)
    context = ExchangeContext(config, beginning.keys, reports.by_backend, since=int(time.time()))
    context.concurrency.expects_log = options.envoy is not None
    workers = worker_count(config.workers)
    tracers = Tracers(PROCESSOR)
    processor = _processor(context, telemetry, workers, options, lag, tracers)
    envoy = None
    if options.envoy is not None:
        envoy = EnvoyFiles(options.envoy.directory, EnvoyAdmin(options.envoy.admin) if options.envoy.admin else None)
    collect_in_small_steps()
    with StopSignals() as signals:
        async with AsyncExitStack() as served:
            served.push_async_callback(tracers.close)
            if options.metrics is not None:
                await served.enter_async_context(metrics_served(options.metrics, processor.page))
            export = MetricsExport(PROCESSOR, processor.metrics, lambda: processor.context.config.metrics)
            await served.enter_async_context(export.running())
            # An Envoy that runs already is served while its files are made; one that waits for our health finds them.
            running = processor.running(options.address, options.health, healthy=envoy is None, tls=options.tls)
            await served.enter_async_context(running)
            if envoy is not None:
                begun = await _begin_envoy(envoy, beginning, last)
                if begun is not beginning:
                    beginning = begun
                    await processor.go_by(replace(processor.context, config=beginning.config, keys=beginning.keys))
                    telemetry.configured(beginning.config, beginning.source.digest)
                processor.show_health()
            reloading = Reloading(
                source,
                beginning.keys_file,
                processor,
                telemetry,
                envoy,
                on_change=reports.ask_again,
                last=last,
                refusal=beginning.refusal,
                keys_grace=options.keys_grace,
            )
            work = [
                reports.run(),
                reloading.run(options.interval),
                collect_all_when_quiet(lambda: processor.exchanges),
            ]
            if envoy is not None:  # else it isn't Envoy that goes by a backend's addresses
                work.append(_tell_hidden_replicas(beginning.config))
            if envoy is not None and last is not None:
                taken = _when_taken(envoy, processor, beginning, last)
                if envoy.can_be_asked:
                    work.append(taken)
                else:
                    await taken
            await served.enter_async_context(_beside(*work))
            # On its standard output: whoever runs it beside others, as `up` does, need not show it.
            several = f", with {workers} workers" if workers > 1 else ""
            print(line("the processor is ready on %s%s", options.address, several, logger=log), flush=True)
            await signals.asked()
            if count := await processor.under_way():
                log.info("stopping; exchanges still running: %d", count)

            async def drain() -> None:
                if not await processor.drain(options.grace):
                    left = await processor.under_way()
                    log.warning("exchanges cut off after %g seconds: %d", options.grace, left)

            return 0 if await completes(drain(), unless=signals.insisted()) else 1


def _processor(
    context: ExchangeContext, telemetry: Telemetry, workers: int, options: Options, lag: LoopLag, tracers: Tracers
) -> Serving:
    """In this process if it is the only worker, which needs nobody to look after it. Raises ConfigError."""
    if workers == 1:
        recording = Recordings(options.recording, watched=options.watched)
        recording.open(context.config)
        memory = Memory()
        telemetry.shows(memory, context.quality, context.steering)
        tracers.spans(context.config.tracing)
        context = replace(context, memory=memory, advice=LiveDiagnosis(telemetry, look=in_a_thread))
        processor = Processor(context, telemetry, recording.of, trace=tracers.over)
        lag.gather = processor.gather
        return processor
    if context.config.transport != "lean":
        raise ConfigError(f"{workers} workers need `transport: lean`: gRPC's library can't share its sockets")
    from extproc.processes.fleet import Fleet  # hardly anybody else needs `multiprocessing`

    return Fleet(context, telemetry, workers, options.recording, options.watched)


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What the processor begins with."""

    source: Source
    config: Config
    keys_file: Watched | None
    keys: ApiKeys | None
    refusal: str | None = None
    """Why it isn't what the file says."""


def _beginning(source: Source, last: LastInForce | None) -> _Beginning:
    """What the file says, or if that can't be used, what was last in force. Raises ConfigError.

    A file that can't be read is somebody's slip: the copy doesn't stand for it. A file that asks for API keys, or
    for tokens, is never passed over for a copy that lets everybody in. Other files that it names are Envoy's to read:
    in a pod the processor doesn't see them.
    """
    identifies_clients = False
    _ = source.file.content  # or it can't be read
    try:
        config = source.read()
        identifies_clients = config.identifies_clients
        return _read(source, config)
    except ConfigError as refusal:
        copy = _copy(last, source, identifies_clients=identifies_clients) if last is not None else None
        if copy is None:
            raise
        log.error("the configuration is refused, what was last in force is used instead: %s", refusal)
        return replace(copy, refusal=str(refusal))


def _copy(last: LastInForce, source: Source, *, identifies_clients: bool) -> _Beginning | None:
    """What was last in force, if it is there and can be used, and may stand for a file that `identifies_clients`."""
    copy = replace(source, file=Watched(last.path))
    with suppress(ConfigError):
        config = copy.read()
        if config.identifies_clients or not identifies_clients:
            return _read(copy, config)
    return None


def _read(source: Source, config: Config) -> _Beginning:
    source.check_files(config)
    file = keys_file(config)
    return _Beginning(source, config, file, read_keys(file))


async def _begin_envoy(envoy: EnvoyFiles, beginning: _Beginning, last: LastInForce | None) -> _Beginning:
    """Write Envoy's files; what the processor goes on with. Raises OSError.

    On a full disk it may be that a changed configuration can't be written, but that all is there for the one that was
    last in force: better that than a processor that ends, and is started again, and ends.
    """
    try:
        envoy.publish_keys(beginning.keys)
        await envoy.begin(beginning.config)
    except OSError as error:
        copy = None
        if last is not None and beginning.refusal is None:
            identifies_clients = beginning.config.identifies_clients
            copy = _copy(last, beginning.source, identifies_clients=identifies_clients)
        if copy is None or copy.config == beginning.config:
            raise
        envoy.publish_keys(copy.keys)
        await envoy.begin(copy.config)
        refusal = f"Envoy's files can't be written: {error}"
        log.error("the configuration is refused, what was last in force is used instead: %s", refusal)
        return replace(copy, refusal=refusal)
    return beginning


async def _when_taken(envoy: EnvoyFiles, processor: Serving, beginning: _Beginning, last: LastInForce) -> None:
    """Only what Envoy goes by too is in force, and worth a copy. What was taken after it has its own by then."""
    await envoy.until_taken()
    if processor.context.config is beginning.config:
        last.keep(beginning.source.file.content)
    processor.show_envoy_health()


def _tell_missing_sockets(config: Config) -> None:
    if any(model.retry for model in config.all_models) and not config.sockets.is_dir():
        log.warning(
            "no call is asked for a second time, although there are models with `retry`: Envoy takes that by a socket "
            "in the directory %s (`sockets`), which isn't there",
            config.sockets,
        )


async def _tell_hidden_replicas(config: Config) -> None:
    for complaint in await hidden_replicas(config):
        log.warning("%s", complaint)


@asynccontextmanager
async def _beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these until the end of the block."""
    tasks = [asyncio.create_task(each) for each in work]
    for task in tasks:
        task.add_done_callback(_tell_bugs)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _tell_bugs(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (bug := task.exception()) is not None:
        log.error("bug: a background task has ended", exc_info=bug)

"""The runner as a process: from its socket to the end of its last run.

It reads the same file as the processor, for what runs need of it: models, characters, tool servers, and limits. It sees
no key of any backend. A change applies to the runs to come; what can't be used leaves all as it was.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from extproc.config import Config, ConfigError
from extproc.control.reloading import INTERVAL, Source
from extproc.control.watched import Watched
from extproc.observability.export import MetricsExport
from extproc.observability.logs import line
from extproc.observability.metrics_page import metrics_served
from extproc.observability.open_telemetry import RUNNER
from extproc.observability.run_metrics import RunMetrics
from extproc.runner.characters import Character, Characters, State
from extproc.runner.mcp_servers import ToolServers
from extproc.runner.plan import Plan, problems_of
from extproc.runner.rounds import connections_to
from extproc.runner.service import Runner, Terms
from extproc.server.stopping import StopSignals, completes
from extproc.tracing.tracers import Tracers
from extproc.transport.asgi import application_served

log = logging.getLogger(__name__)

_BACKLOG = 2048
_KEEP_ALIVE = 15
"""Seconds that an idle connection is kept: longer than Envoy keeps its own."""


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """The whole command line."""

    config: Path
    grace: float
    """How many seconds runs get to end when the runner is asked to stop."""
    metrics: str | None = None
    """Where the metrics are served."""
    sockets: Path | None = None
    """The directory of the sockets, instead of where the configuration says."""
    interval: float = INTERVAL
    """Seconds between two looks at the files."""


async def serve_runs(options: RunnerOptions) -> int:
    """Serve until a signal comes; returns the exit status.

    Then runs under way get their grace to end; a second signal ends them at once. Raises ConfigError, and OSError when
    the socket can't be had.
    """
    for library in ("httpx2", "uvicorn"):  # which tell of each request, and of every start and end
        logging.getLogger(library).setLevel(logging.WARNING)
    source = Source(Watched(options.config), sockets=options.sockets)
    config = source.read()
    source.check_installed(config)
    metrics = RunMetrics()
    tools = _Tools(config, metrics)
    with StopSignals() as signals:
        async with AsyncExitStack() as served:
            if options.metrics is not None:
                await served.enter_async_context(metrics_served(options.metrics, metrics.page_in_turns))
            export = MetricsExport(RUNNER, metrics.metrics_in_turns, lambda: tools.config.metrics)
            await served.enter_async_context(export.running())
            connections = await served.enter_async_context(connections_to(config.inner_socket))
            await served.enter_async_context(tools.running())
            tracers = Tracers(RUNNER)
            served.push_async_callback(tracers.close)
            tracers.spans(config.tracing)
            runner = Runner(tools.terms, connections, metrics, tracers)
            await served.enter_async_context(_listening(runner, config.runner_socket))
            following = asyncio.create_task(_follow(source, tools, options.interval))
            served.callback(following.cancel)
            print(line("the runner is ready on unix:%s", config.runner_socket, logger=log), flush=True)
            await signals.asked()
            if runner.under_way:
                log.info("stopping; runs still under way: %d", runner.under_way)

            async def drain() -> None:
                # New ones are still taken meanwhile: Envoy may not have been told yet.
                try:
                    await asyncio.wait_for(runner.until_idle(), options.grace)
                except TimeoutError:
                    log.warning("runs cut off after %g seconds: %d", options.grace, runner.under_way)

            return 0 if await completes(drain(), unless=signals.insisted()) else 1


class _Tools:
    """Characters and tool servers, as the configuration in force has them."""

    def __init__(self, config: Config, metrics: RunMetrics) -> None:
        self.config = config
        """What is in force."""
        self._metrics = metrics
        self._servers = ToolServers(config.tool_servers)
        self._characters: Characters | None = None
        self._left: list[Characters] = []  # all that were ever opened
        self._told: set[str] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have all of them there inside the block."""
        async with self._servers:
            try:
                await self._open_characters(self.config)
                await self._servers.tried()
                self.tell()
                yield
            finally:
                for left in self._left:
                    await left.close()

    async def _open_characters(self, config: Config) -> None:
        """Load all of them, and only then let go of those of before, which runs may still use."""
        opened = None
        if config.characters is not None:
            opened = Characters(config.characters, config.runs.character_memory)
            self._left.append(opened)
            await opened.start()
        for character in self._characters or ():
            character.retire()
        self._characters = opened

    async def reconfigure(self, config: Config) -> None:
        """Go by another configuration; runs under way keep what they use."""
        before = self.config
        memory = (before.runs.character_memory, config.runs.character_memory)
        if before.characters != config.characters or memory[0] != memory[1]:
            await self._open_characters(config)
        self.config = config
        self._servers.reconfigure(config.tool_servers)

    async def look(self) -> None:
        """Whether any of the files of characters has changed."""
        if self._characters is not None:
            await self._characters.look()

    def terms(self) -> Terms:
        """For a run that begins now."""
        usable = {character.character_name: character for character in self._usable()}
        servers = {server.name: self._servers.source(server.name) for server in self.config.tool_servers}
        return Terms(self.config, usable, servers, self._held)

    @contextmanager
    def _held(self, planned: Plan) -> Iterator[None]:
        """Keep the code that a run began with until it has ended."""
        with ExitStack() as held:
            for source in planned.sources.values():
                if isinstance(source, Character):
                    held.enter_context(source.used())
            yield

    def _usable(self) -> Iterator[Character]:
        """The characters that are well, and have a model and servers."""
        for character in self._characters or ():
            if character.state is not State.FAILED_VALIDATION and not problems_of(character, self.config):
                yield character

    def tell(self) -> None:
        """What is wrong with characters here and now, each once; and how many there are."""
        problems: set[str] = set()
        by_state = {state.value: 0 for state in State}
        for character in self._characters or ():
            found = problems_of(character, self.config) if character.state is not State.FAILED_VALIDATION else []
            state = State.FAILED_VALIDATION if found else character.state
            by_state[state.value] += 1
            problems |= {f"{character.file.name}: {problem}" for problem in found}
        for problem in sorted(problems - self._told):
            log.error("the character is disabled: %s", problem)
        self._told = problems
        self._metrics.show_characters(by_state)
        self._metrics.show_servers({state.name: state.connected for state in self._servers.states})


async def _follow(source: Source, tools: _Tools, interval: float) -> None:
    """Take what changes on disk, until cancelled."""
    is_pending, told = False, ""
    while True:
        await asyncio.sleep(interval)
        problem = ""
        try:
            is_pending |= await source.file.changed()
            if is_pending:
                config = source.read()
                source.check_installed(config)
                await tools.reconfigure(config)
                is_pending = False
                log.info("the configuration has been read again")
            await tools.look()
        except ConfigError as refusal:
            is_pending = False
            problem = f"the configuration is refused, what was in force stays: {refusal}"
        except OSError as error:  # it may pass: a change that waits for it is tried again
            problem = f"characters can't be looked at: {error}"
        except Exception as bug:
            problem = f"bug: {type(bug).__name__}"
        if problem and problem != told:
            log.error("%s", problem)
        told = problem
        tools.tell()


def _bound(path: Path) -> socket.socket:
    """A socket for nobody but our own user and group. Raises OSError."""
    with socket.socket(socket.AF_UNIX) as attempt:
        attempt.setblocking(False)
        if attempt.connect_ex(str(path)) in (0, errno.EAGAIN):
            raise OSError(f"can't listen on unix:{path}: somebody does already")
    with suppress(FileNotFoundError):
        path.unlink()  # of one that has ended
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(str(path))
        path.chmod(0o660)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(f"can't listen on unix:{path}: {error.strerror}") from error
    return listening


@asynccontextmanager
async def _listening(runner: Runner, path: Path) -> AsyncIterator[None]:
    """Serve inside the block. Raises OSError when the socket can't be had."""
    async with application_served(runner.application, _bound(path), keep_alive=_KEEP_ALIVE):
        yield

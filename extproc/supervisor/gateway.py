"""The gateway's life: children in the order of their start, the watch over them, and their end.

    start    the scripted vLLM if wanted, the processor, the runner if tools run on our side, then Envoy: nobody gets in
             before all are ready
    watch    processor, runner and Envoy are started again when they end or hang; without the scripted vLLM there is no
             going on
    finish   no new connections, requests under way come to their end, then Envoy ends, then the runner, then the
             processor

Envoy's and the processor's sockets, and the files by which the processor keeps Envoy up to date with the configuration,
lie in one private directory.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import yaml

from extproc.backends.fetch import fetch
from extproc.config import Address, Config, ConfigError, parse, reachable
from extproc.config.loading import decoded
from extproc.config.recording import Recording
from extproc.control.envoy_admin import EnvoyAdmin
from extproc.control.publishing import EnvoyFiles
from extproc.control.watched import Watched
from extproc.names import HEALTH_PATH
from extproc.server.cores import worker_count
from extproc.server.descriptors import connections_that_fit, descriptor_limit
from extproc.supervisor.binary import validate
from extproc.supervisor.child import DEVNULL, PIPE, Child
from extproc.supervisor.errors import GatewayError
from extproc.supervisor.options import FromFile, Options
from extproc.supervisor.service import Service, say
from extproc.transport.asking import is_serving

_SCRIPTED_VLLM = "scripted_vllm"
"""A package of its own, of which nothing is imported here and which need not be installed."""
_POLL = 0.05
_LOOK = 1.0
"""Seconds between two looks at the configuration."""
_END_TIMEOUT = 5.0
"""For a child that has nothing left to do."""
_SOCKET_PATH_BYTES = 100
"""The system's limit is 104 or 108, with a terminating NUL."""
_ENVOY_LOG = '{"time": "%Y-%m-%dT%T.%e%z", "level": "%l", "logger": "envoy.%n", "message": "%j"}'
"""The same JSON lines as the processor's."""


class Gateway:
    """The children and what they share. `kill` must follow, whatever happened."""

    def __init__(self, directory: Path) -> None:
        self._bootstrap = directory / "envoy.yaml"
        self._whole = directory / "whole.yaml"
        self._for_envoy = directory / "envoy"
        self._configuration = directory / "extproc.yaml"
        self.sockets = directory
        """Where all of them are."""
        self._listen: str | None = None
        self._processor_socket = directory / "processor.sock"
        self._admin_socket = directory / "admin.sock"
        if len(os.fsencode(self._processor_socket)) > _SOCKET_PATH_BYTES:
            raise GatewayError(f"the path of {directory} is too long for sockets; set TMPDIR to a shorter one")
        self._admin = EnvoyAdmin(str(self._admin_socket))
        self._metrics: str | None = None
        self._workers = 1
        self._recording: Recording | None = None
        self._envoy = Service("Envoy", self._start_envoy, self._admin.until_ready)
        self._processor = Service(
            "the processor", self._start_processor, lambda: _until_serving(self._processor_socket)
        )
        self._runner = Service("the runner", self._start_runner, lambda: _until_accepting(directory / "runner.sock"))
        self._watcher = Service("the page", self._start_watcher, lambda: _until_watching(self._watch))
        self._watch: Address | None = None
        self.page: str | None = None
        """Where the page is that shows exchanges, with its token."""
        self._runs_tools = False
        self._binary = ""
        self._quiet = False
        self._scripted: Child | None = None

    async def start_scripted_vllm(self, model: str) -> Address:
        """Start the scripted vLLM on a port of its own, and tell where it is."""
        if find_spec(_SCRIPTED_VLLM) is None:
            raise GatewayError(
                "the scripted vLLM isn't installed (it is a separate package); install its wheel by its path "
                "(in a checkout: `pip install ./scripted_vllm`), or name a server with --backend URL"
            )
        options = ("--port", "0", "--pace", "0.02", "--think", "--model", model)
        self._scripted = await Child.start_python(_SCRIPTED_VLLM, *options, stdout=PIPE)
        line = await self._scripted.first_line()
        found = re.search(r"http://([^/]+)/", line)
        if found is None:
            await self._scripted.stop(_END_TIMEOUT)
            raise GatewayError(f"the scripted vLLM didn't start ({self._scripted.fate}); its output is above")
        return Address.parse(found[1])

    async def start(self, config: Config, envoy: str, options: Options) -> None:
        """Start the processor and Envoy with `config`; done when both are ready for requests.

        Where it comes from a file, they follow what happens to the file.
        """
        self._metrics = options.metrics
        self._listen = options.listen
        self._recording = options.recording
        self._watch = reachable(Address.parse(options.watch)) if options.watch is not None else None
        if isinstance(options.source, FromFile):
            self._configuration = options.source.path.absolute()
        else:
            self._configuration.write_text(yaml.safe_dump(config.model_dump(mode="json")), encoding="utf-8")
        self._workers = worker_count(options.workers or config.workers)
        config = config.model_copy(update={"sockets": self.sockets, "workers": self._workers})
        self._binary, self._quiet = envoy, options.quiet
        # The processor finds them as it would make them: what makes them takes seconds to import, here for both.
        await EnvoyFiles(self._for_envoy, None).begin(config)
        if self._watch is not None:
            await self._watcher.begin()
        self._processor.child = await self._start_processor()
        self._write_bootstraps(config)
        await asyncio.to_thread(validate, envoy, self._whole)
        self._runs_tools = config.runs_tools
        if self._runs_tools:
            await self._runner.begin()
        await self._processor.until_ready()
        await self._envoy.begin()

    async def watch(self) -> None:
        """Keep the two running. Raises GatewayError when the gateway can't go on; never returns."""
        lives = [self._processor.keep_running(), self._envoy.keep_running(), self._run_tools()]
        if self._watch is not None:
            lives.append(self._watcher.keep_running())
        tasks = [asyncio.create_task(life) for life in lives]
        try:
            waited_for = [*tasks, self._scripted.ended] if self._scripted is not None else tasks
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()  # raises: it never returns
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        assert self._scripted is not None
        raise GatewayError(f"the scripted vLLM ended ({self._scripted.fate}); stopping everything")

    async def _run_tools(self) -> NoReturn:
        """Keep the runner running, from when the configuration first asks for it."""
        file = Watched(self._configuration)
        while not self._runs_tools:
            await asyncio.sleep(_LOOK)
            if await file.changed():
                with suppress(ConfigError):  # which the processor tells
                    self._runs_tools = _parsed(file).runs_tools
        if self._runner.child is None:
            with suppress(GatewayError, OSError):  # it is tried again
                await self._runner.begin()
        await self._runner.keep_running()

    async def finish(self, grace: float) -> None:
        """Let requests under way come to their end, for at most `grace` seconds; then end the children."""
        if self._envoy.child:
            with suppress(OSError):  # Envoy has just ended: then there is nothing to wait for.
                await self._admin.stop_accepting()
                try:
                    await asyncio.wait_for(self._admin.until_idle(), grace)
                except TimeoutError:
                    say(f"some requests didn't end within {grace:g} seconds and were cut off")
        for child in self._children():
            await child.stop(_END_TIMEOUT)

    async def kill(self) -> None:
        """End whatever still runs, at once."""
        for child in self._children():
            await child.kill()

    def _children(self) -> list[Child]:
        """In the order of their end."""
        services = (self._envoy, self._runner, self._processor, self._watcher)
        return [child for child in (*(service.child for service in services), self._scripted) if child]

    async def _start_envoy(self) -> Child:
        from extproc.envoy.dynamic import ENVOY_ARGUMENTS

        return await Child.start(
            self._binary,
            *("-c", str(self._bootstrap)),
            *ENVOY_ARGUMENTS,
            "--disable-hot-restart",  # Two of them on one machine would fight over its shared memory.
            *("--log-level", "warning", "--component-log-level", "main:error"),  # It warns of every SIGTERM.
            *("--log-format", _ENVOY_LOG),
            *("--file-flush-interval-msec", "200"),  # People watch the access log.
            stdout=DEVNULL if self._quiet else None,
        )

    async def _start_processor(self) -> Child:
        return await Child.start_python(
            "extproc",
            "serve",
            *("--config", str(self._configuration)),
            *("--listen", f"unix:{self._processor_socket}"),
            *("--envoy", str(self._for_envoy)),
            *("--envoy-admin", str(self._admin_socket)),
            *("--sockets", str(self.sockets)),
            *("--workers", str(self._workers)),  # as many as Envoy is told of, whatever becomes of the file
            *(("--envoy-listen", self._listen) if self._listen is not None else ()),
            *(("--metrics", self._metrics) if self._metrics is not None else ()),
            *(_record_options(self._recording) if self._recording is not None else ()),
            *(("--watch",) if self._watch is not None else ()),
            *("--grace", str(_END_TIMEOUT)),  # It is asked to end when Envoy has ended.
            stdout=DEVNULL,
        )

    async def _start_runner(self) -> Child:
        return await Child.start_python(
            "extproc",
            "runner",
            *("--config", str(self._configuration)),
            *("--sockets", str(self.sockets)),
            *("--grace", str(_END_TIMEOUT)),
            stdout=DEVNULL,
        )

    async def _start_watcher(self) -> Child:
        assert self._watch is not None  # else nobody wants one
        child = await Child.start_python(
            "extproc",
            "watch",
            *("--config", str(self._configuration)),
            *("--sockets", str(self.sockets)),
            *("--listen", str(self._watch)),
            stdout=PIPE,
        )
        line = await child.first_line()
        again, self.page = self.page is not None, line.rpartition(" ")[2] or self.page
        if again:
            say(f"the page is now at {self.page}")
        return child

    def _write_bootstraps(self, config: Config) -> None:
        """The one that Envoy is started with, and one with all in it, which it can check beforehand."""
        from extproc.envoy.bootstrap import bootstrap, to_yaml  # A second: only now.
        from extproc.envoy.overload import MAX_CONNECTIONS
        from extproc.envoy.sources import Directory

        processor, admin = str(self._processor_socket), str(self._admin_socket)
        connections = min(MAX_CONNECTIONS, connections_that_fit(descriptor_limit()))  # Envoy's limit is ours
        for file, told in ((self._whole, config), (self._bootstrap, Directory(str(self._for_envoy)))):
            made = bootstrap(told, processor=processor, workers=self._workers, admin=admin, connections=connections)
            file.write_text(to_yaml(made), encoding="utf-8")


def _parsed(file: Watched) -> Config:
    """Raises ConfigError."""
    return parse(decoded(file.content, source=str(file.path)), source=str(file.path))


def _record_options(recording: Recording) -> Sequence[str]:
    return "--record", str(recording.directory), "--record-files", str(recording.files)


async def _until_accepting(path: Path) -> None:
    """Wait until the runner answers on this socket."""
    while True:
        with suppress(OSError):
            streams = await asyncio.open_unix_connection(str(path))
            if (await fetch(streams, "GET", HEALTH_PATH, host="runner")).status == HTTPStatus.OK:
                return
        await asyncio.sleep(_POLL)


async def _until_watching(address: Address | None) -> None:
    """Wait until the page is there, for those who know its token."""
    assert address is not None  # it has been started
    while True:
        with suppress(OSError):
            streams = await asyncio.open_connection(*address)
            if (await fetch(streams, "GET", "/", host=str(address))).status == HTTPStatus.FORBIDDEN:
                return
        await asyncio.sleep(_POLL)


async def _until_serving(socket: Path) -> None:
    """Wait until the processor on this socket reports that it is serving."""
    while True:
        with suppress(OSError):  # it isn't there yet, or has just ended
            if await is_serving(str(socket)):
                return
        await asyncio.sleep(_POLL)

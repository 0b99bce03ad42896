"""The control of a history: files that somebody writes, rightly or not, the real watch over them, and an Envoy that
takes what it is given from its own files, in its own time, and may refuse it.

The files are real ones in a directory of the process; their times are virtual. What the operator writes is numbered, so
that it can be told what may be in force.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from extproc.config import Backend, Config, ConfigError
from extproc.control.envoy_admin import EnvoyAdmin
from extproc.control.last_in_force import LastInForce
from extproc.control.process import _begin_envoy, _Beginning, _beginning, _when_taken
from extproc.control.publishing import EnvoyFiles
from extproc.control.reloading import Reloading, Source
from extproc.control.watched import Watched
from extproc.observability.telemetry import Telemetry
from extproc.server.processor import Processor
from tests.simulation.checking import check
from tests.simulation.configurations import BACKENDS, settings, version_of
from tests.simulation.plans import KEYS, TEAM_KEYS, lines_of, owner

ADMIN = "/admin.sock"
_FILES = {
    "clusters.yaml": "cluster_manager.cds",
    "routes.yaml": "http.own.rds.openai",
    "listener.yaml": "listener_manager.lds",
}
_TAKES = (0.0, 0.001, 0.03, 0.3, 0.9)
"""Seconds until Envoy goes by a file: less than those that an Envoy gets that can't be asked."""
_SETTLED = 40.0
"""Seconds in which what is well on disk has to be in force."""


_kept: list[tempfile.TemporaryDirectory[str]] = []


@cache
def _directory() -> Path:
    """Of this process."""
    made = tempfile.TemporaryDirectory(prefix="simulation-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    _kept.append(made)
    return Path(made.name)


_GRACE = 20.0
"""Seconds that keys hold when there are none any more."""
_SOON = 3.0
"""Seconds in which a change of the keys has to be in force, whatever else is wrong."""


class SimulatedEnvoy:
    """What Envoy goes by, of the files in its directory."""

    def __init__(self, directory: Path, rng: random.Random, losses: random.Random) -> None:
        """`losses` decides which questions get no answer; never two, one after the other, or Envoy can't be asked."""
        self._directory = directory
        self._rng = rng
        self._losses = losses
        self._lost = False
        self._taken: dict[str, str] = {}
        """Versions, by file."""
        self._rejected = dict.fromkeys(_FILES, 0)
        self.clusters: frozenset[str] = frozenset()
        self.refuses: str | None = None
        """A backend that it can't take."""
        self.answers = True
        """Its admin interface does."""

    def changed(self, name: str) -> None:
        """A file has been renamed to this name."""
        if name in _FILES:
            asyncio.get_running_loop().call_later(self._rng.choice(_TAKES), self._look, name)

    def _look(self, name: str) -> None:
        """As measured (docs/envoy.md): at each rename, though the text be the same, and a refusal counts again.

        Of clusters it takes those that it can, and forgets those that aren't there, even if it refuses the file.
        """
        try:
            text = (self._directory / name).read_text(encoding="utf-8")
        except OSError:
            return
        if name == "clusters.yaml":
            told = frozenset(re.findall(r"^  name: (b\d+)$", text, re.MULTILINE))
            self.clusters = told - {self.refuses}
            if self.clusters != told:
                self._rejected[name] += 1
                return
        self._taken[name] = text.partition("\n")[0].removeprefix("version_info: ")

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Its admin interface, by HTTP/1.1."""
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            self._lost = not self._lost and self._losses.random() < 0.1
            if self.answers and not self._lost:
                body = "".join(self._stats()).encode()
                head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
                writer.write(head.encode() + body)
                await asyncio.sleep(0.001)
        writer.close()

    def _stats(self) -> list[str]:
        told = [f'{_FILES[name]}.version_text: "{version}"\n' for name, version in self._taken.items()]
        told += [f"{_FILES[name]}.update_rejected: {many}\n" for name, many in self._rejected.items()]
        return [*told, "cluster_manager.warming_clusters: 0\n"]


_MADE: dict[tuple[str, tuple[str, ...]], dict[str, str]] = {}


class _Files(EnvoyFiles):
    """Those of a disk that may be full, and that Envoy watches."""

    def __init__(self, directory: Path, envoy: SimulatedEnvoy, full: Callable[[], bool]) -> None:
        super().__init__(directory, EnvoyAdmin(ADMIN))
        self._envoy = envoy
        self._full = full

    def _put(self, name: str, text: str) -> None:
        if self._full():
            raise OSError(28, "No space left on device")
        super()._put(name, text)
        self._envoy.changed(name)

    def _put_back(self, name: str, text: str) -> None:
        super()._put_back(name, text)
        self._envoy.changed(name)

    async def _made(self, config: Config, leaving: Sequence[Backend]) -> dict[str, str]:
        told = config.model_dump_json(exclude={"models"}), tuple(backend.name for backend in leaving)
        if told not in _MADE:  # a file's text hangs on nothing else, and is half a second's work
            _MADE[told] = await super()._made(config, leaving)
        else:
            await asyncio.to_thread(lambda: None)
        return dict(_MADE[told])

    def _purpose(self, config: object) -> str:
        return str(config)  # the real one reads our own source, which doesn't change in between


class Control:
    """Everything that has to do with files in one history."""

    def __init__(self, rng: random.Random, losses: random.Random, *, team: bool, aliases: bool) -> None:
        self._rng = rng
        self._team = team
        self._aliases = aliases
        self._loop = asyncio.get_running_loop()
        self._folder = folder = _directory()
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        self._file, self._keys = folder / "extproc.yaml", folder / "keys"
        self._tick = 0
        self.version = 0
        """The last that was written."""
        self.well: dict[int, bool] = {}
        """Which versions there were, and whether they can be in force."""
        self._last_seen = 0
        self._full = False
        self._keys_there: tuple[str, ...] = ()
        self._keys_since = 0.0
        self.envoy = SimulatedEnvoy(folder / "envoy", rng, losses)
        self._task: asyncio.Task[None] | None = None
        self._taken: asyncio.Task[None] | None = None
        self._late: list[asyncio.TimerHandle] = []
        self._processor: Processor
        self._write_keys(KEYS[:-1])
        self._write_config(self._settings(0), version=0)

    # The processor's side

    def beginning(self) -> _Beginning:
        """What a processor that starts now begins with; a file that can't be used is put right first."""
        self.source = Source(Watched(self._file))
        self._last = LastInForce(self._folder / "envoy")
        try:
            begun = _beginning(self.source, self._last)
            if begun.config.transport != "lean":
                raise ConfigError("it is the other transport's")  # which has sockets of its own
        except ConfigError:
            self.put_right()
            self.source = Source(Watched(self._file))
            begun = _beginning(self.source, self._last)
        if begun.refusal is None:  # what needs another processor has one now
            self.well[version_of(begun.config)] = True
        return begun

    async def begin(self, beginning: _Beginning, processor: Processor, telemetry: Telemetry) -> None:
        """Watch, beside a processor that has begun with this."""
        self._processor = processor
        self._full, self.envoy.refuses, self.envoy.answers = False, None, True
        files = _Files(self._folder / "envoy", self.envoy, lambda: self._full)
        begun = await _begin_envoy(files, beginning, self._last)
        processor.show_health()
        reloading = Reloading(
            self.source,
            begun.keys_file,
            processor,
            telemetry,
            files,
            on_change=lambda: None,
            last=self._last,
            refusal=begun.refusal,
            keys_grace=_GRACE,
        )
        self._task = asyncio.create_task(reloading.run(self._rng.choice((0.5, 1.0))))
        self._taken = asyncio.create_task(_when_taken(files, processor, begun, self._last))
        await self._taken  # an Envoy that has no configuration sends nothing

    async def end(self) -> None:
        for task in filter(None, (self._task, self._taken)):
            task.cancel()
            await asyncio.wait((task,))
            if not task.cancelled():
                task.result()

    # The operator's side

    def anything(self) -> None:
        """Somebody does something to a file, or to what the processor and Envoy need."""
        rng = self._rng
        match rng.choice(
            ("good", "good", "good", "slow", "broken", "keys", "keys", "no keys", "full", "deaf", "refuses")
        ):
            case "good":
                self._next()
            case "slow":
                self._next(slowly=True)
            case "broken":
                self._write_config(rng.choice(_BROKEN)(self._settings(self.version + 1)), version=None)
            case "keys":
                self._write_keys(rng.choice((KEYS[:2], KEYS[:1], KEYS[1:2])), spoilt=rng.random() < 0.3)
            case "no keys":
                self._write_keys(())
            case "full":
                self._full = not self._full
            case "deaf" if self.envoy.refuses is None:
                self.envoy.answers = not self.envoy.answers
            case "refuses" if self.envoy.answers:
                place = f"b{(self.version + 1) % BACKENDS}"
                self.envoy.refuses = place if self.envoy.refuses is None and place not in self.envoy.clusters else None

    def _next(self, *, slowly: bool = False) -> None:
        self.version += 1
        text = self._settings(self.version)
        if slowly:  # half of it first
            self._write_config(text[: self._rng.randrange(len(text))], version=None)
            self.well[self.version] = True
            version = self.version
            self._late.append(self._loop.call_later(0.03, lambda: self._write_config(text, version=version)))
        else:
            self._write_config(text, version=self.version)

    def _write_config(self, text: str, *, version: int | None) -> None:
        for late in self._late:
            late.cancel()
        self._late.clear()
        if version is not None:
            self.well[version] = True
        self._write(self._file, text)

    def _settings(self, version: int) -> str:
        return settings(version, self._keys, team=self._team, aliases=self._aliases)

    def _write_keys(self, keys: tuple[str, ...], *, spoilt: bool = False) -> None:
        if keys and self._team:
            keys += TEAM_KEYS
        lines = lines_of(keys)
        self._write(self._keys, "\n".join([*lines, "what is this"] if spoilt else lines))
        if not (keys == () == self._keys_there):
            self._keys_there, self._keys_since = keys, self._loop.time()

    def _write(self, path: Path, text: str) -> None:
        new = path.with_suffix(".written")
        new.write_text(text)
        self._tick += 1_000_000
        os.utime(new, ns=(self._tick, self._tick))
        new.replace(path)

    def put_right(self) -> None:
        """Whatever was wrong isn't any more."""
        self._full, self.envoy.refuses, self.envoy.answers = False, None, True
        self._next()
        self._write_keys(KEYS[:-1])

    # What may be

    def look(self) -> None:
        """What is in force now must be one that was written and can be, and never an older one."""
        version = version_of(self._processor.context.config)
        check(self.well.get(version), f"version {version} is in force, which can't be")
        check(version >= self._last_seen, f"version {version} is in force again, behind {self._last_seen}")
        self._last_seen = version
        keys, there = self._processor.context.keys, self._keys_there
        assert keys is not None
        if self._loop.time() - self._keys_since > _SOON + (0.0 if there else _GRACE):
            names = {*map(owner, there)}
            check(
                keys.names == names, f"the keys of {set(keys.names)} are in force, and in the file are those of {names}"
            )

    async def settled(self) -> None:
        """What is on disk now is well: in time it has to be in force."""
        self.put_right()
        await asyncio.sleep(_SETTLED)
        self.look()
        in_force = self._processor.context
        check(
            version_of(in_force.config) == self.version, f"version {self.version} isn't in force, nor why it can't be"
        )
        backends = {backend.name for backend in in_force.config.backends}
        check(backends == self.envoy.clusters, f"Envoy has {self.envoy.clusters} and needs {backends}")


def _without(name: str) -> Callable[[str], str]:
    return lambda text: "\n".join(line for line in text.splitlines() if not line.startswith(name))


_BROKEN: tuple[Callable[[str], str], ...] = (
    lambda text: text + "unheard_of: 1\n",
    lambda text: text.replace("tools: native", "tools: magic"),
    lambda text: text + "\tnot yaml: [\n",
    lambda text: text.replace("backend: b", "backend: nobody"),
    lambda text: text + "transport: grpcio\n",
    lambda text: text.replace("limits: {", "limits: {max_body_bytes: 900000000, "),
    lambda _: "",
    _without("backends"),
)

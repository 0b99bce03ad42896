"""Takes what changes on disk while the processor runs: the configuration file, and the file of API keys.

Both are looked at once a second, by content: whether somebody wrote into them, renamed another over them, or swapped a
symbolic link on the way to them, as Kubernetes does with a ConfigMap. No exchange that is under way notices: it keeps
the terms that it began with. What can't be used leaves all as it was, and is told once in the log, and by metrics and
health for as long as it lies there. The reason may pass without the file being touched: a file that it names comes a
second later, an address is free again, a disk has room. So what could be read is tried again until it takes.

A change is taken in this order: Envoy learns the new backends, routes and listener; then new exchanges go by the new
configuration; then, when the last exchange of the old one has ended, Envoy forgets what only that one used. An Envoy
that has its configuration from elsewhere can't follow. Then a change that it would have to know of is refused as a
whole: in force in one half of the gateway, it would only break things.

What is in force is kept as a copy beside Envoy's files. A processor that finds a broken file when it is started again
begins with that, and the file is a change that was refused.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from extproc.api_keys import ApiKeys
from extproc.config import Backend, Config, ConfigError, parse
from extproc.last_in_force import LastInForce
from extproc.publishing import EnvoyFiles, RefusedByEnvoyError
from extproc.server import Processor
from extproc.telemetry import File, Telemetry

log = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds between two looks."""
_SETTLING = 0.05
"""A file that is being written is looked at again after so many seconds, until it stays as it is,"""
_RESTLESS = 1.0
"""or for so many: one that never rests must not keep the others from being looked at."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0
"""Seconds between two tries of a configuration that was refused, twice as many each time: a try may keep Envoy busy."""


class Watched:
    """A file, and what was in it when it was last looked at."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content = _look(path)

    async def changed(self) -> bool:
        """Whether it holds something else now. It may still be written to: then wait a while for it to be complete."""
        before, self._content = self._content, await asyncio.to_thread(_look, self.path)
        if self._content == before:
            return False
        until = time.monotonic() + _RESTLESS
        while (now := await self._looked_again()) != self._content:
            self._content = now
            if time.monotonic() >= until:
                break  # the next look sees the rest
        return self._content != before

    async def _looked_again(self) -> bytes | str:
        await asyncio.sleep(_SETTLING)
        return await asyncio.to_thread(_look, self.path)

    @property
    def content(self) -> bytes:
        """Raises ConfigError when it couldn't be read."""
        if isinstance(self._content, str):
            raise ConfigError(f"{self.path}: can't be read: {self._content}")
        return self._content


def _look(path: Path) -> bytes | str:
    """What is in the file, or why that can't be told."""
    try:
        return path.read_bytes()
    except OSError as error:
        return error.strerror or str(error)


@dataclass(frozen=True, slots=True)
class Source:
    """The configuration file, and where it is to be understood otherwise than it says."""

    file: Watched
    listen: str | None = None
    """Where Envoy listens, instead of where the file says."""

    def read(self) -> Config:
        """What the file says. Raises ConfigError with the line and the field."""
        name = str(self.file.path)
        try:
            text = self.file.content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{name}: can't be read: {error}") from error
        config = parse(text, source=name)
        return config if self.listen is None else config.model_copy(update={"listen": self.listen})

    @property
    def digest(self) -> str:
        """A name for what is in the file, short enough for a label."""
        return sha256(self.file.content).hexdigest()[:12]


def read_keys(file: Watched | None) -> ApiKeys | None:
    """The keys in the file. Raises ConfigError with the line."""
    return ApiKeys.parse(file.content, source=str(file.path)) if file is not None else None


def keys_file(config: Config) -> Watched | None:
    """The file of keys that a configuration names."""
    return Watched(config.api_keys) if config.api_keys is not None else None


class _Candidate:
    """A configuration that could be read, and isn't in force yet."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.told: set[str] = set()
        """Why it was refused so far; each reason is told once."""
        self._named = sorted(set(_paths(config.model_dump())))
        self._states: Mapping[Path, object] | None = None
        self._pause = _FIRST_PAUSE
        self._again = 0.0

    async def due(self) -> bool:
        """Whether to try it now: for the first time, when a file that it names has changed, or after a pause."""
        states, now = await asyncio.to_thread(_states, self._named), time.monotonic()
        if states != self._states:
            self._states, self._pause = states, _FIRST_PAUSE
        elif now < self._again:
            return False
        self._again = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


def _paths(value: Any) -> Iterator[Path]:
    """All files that are named in settings."""
    match value:
        case Path():
            yield value
        case dict():
            for each in value.values():
                yield from _paths(each)
        case tuple() | list():
            for each in value:
                yield from _paths(each)


def _states(paths: Iterable[Path]) -> Mapping[Path, object]:
    """For each file what differs when it has changed, or come."""
    return {path: _state(path) for path in paths}


def _state(path: Path) -> object:
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_size, found.st_mtime_ns


class Reloading:
    """The watch over the files. `run` it beside the processor, which has begun with what was in them."""

    def __init__(
        self,
        source: Source,
        keys: Watched | None,
        processor: Processor,
        telemetry: Telemetry,
        envoy: EnvoyFiles | None,
        on_change: Callable[[], None],
        last: LastInForce | None = None,
        refusal: str | None = None,
    ) -> None:
        """With a `refusal` the processor has begun with what was `last` in force, for this reason."""
        self._source = source
        self._keys_file = keys
        self._processor = processor
        self._telemetry = telemetry
        self._envoy = envoy
        self._on_change = on_change
        self._last = last
        self._refusal = refusal
        self._left: list[Config] = []
        """Configurations that exchanges may still go by, the oldest first."""
        self._candidate: _Candidate | None = None
        """What the file says, as long as it could be taken and isn't."""
        self._valid: dict[File, bool] = {"config": True, "api_keys": True}

    async def run(self, interval: float = INTERVAL) -> None:
        """Look at the files every so many seconds, until cancelled."""
        if self._refusal is not None:
            await self._show("config", valid=False)
            with suppress(ConfigError):  # which has been told
                self._candidate = _Candidate(self._source.read())
                self._candidate.told.add(self._refusal)
        while True:
            await asyncio.sleep(interval)
            try:
                await self._look()
            except Exception:  # a bug here is none in any exchange: those go on
                log.exception("bug: what changed on disk may not be in force")

    async def _look(self) -> None:
        if await self._source.file.changed():
            await self._read_config()
        if self._candidate is not None and await self._candidate.due():
            await self._take_config(self._candidate)
        if self._keys_file is not None and await self._keys_file.changed():
            await self._tell("api_keys", self._take_keys(self._keys_file))
        await self._forget()

    async def _read_config(self) -> None:
        self._candidate = None
        try:
            self._candidate = _Candidate(await asyncio.to_thread(self._source.read))
        except ConfigError as error:
            await self._tell("config", str(error))

    async def _take_config(self, candidate: _Candidate) -> None:
        try:
            await self._put_in_force(candidate.config)
        except (ConfigError, RefusedByEnvoyError, OSError) as error:
            refusal = str(error)
            if refusal not in candidate.told:
                candidate.told.add(refusal)
                await self._tell("config", refusal)
            return
        self._candidate = None
        log.info("the configuration is in force as it is now: %s", self._source.digest)
        await self._tell("config", None)
        if self._last is not None:
            self._last.keep(self._source.file.content)
        self._telemetry.configured(candidate.config, self._source.digest)

    async def _put_in_force(self, config: Config) -> None:
        """Have new exchanges go by it. Raises ConfigError, RefusedByEnvoyError or OSError when that can't be."""
        terms = self._processor.terms
        if config.api_keys == terms.config.api_keys:
            watched, keys = self._keys_file, terms.keys  # which have changes of their own
        else:
            watched = await asyncio.to_thread(keys_file, config)
            keys = read_keys(watched)
            self._publish_keys(keys)
        await self._prepare(config)  # though it be the old one: what was refused may have left traces
        if config == terms.config:
            return
        self._processor.terms = replace(terms, config=config, keys=keys, since=int(time.time()))
        self._left.append(terms.config)
        self._keys_file = watched
        self._on_change()
        if keys is not terms.keys:
            await self._show("api_keys", valid=True)

    def _take_keys(self, file: Watched) -> str | None:
        try:
            keys = read_keys(file)
        except ConfigError as error:
            return str(error)
        self._processor.terms = replace(self._processor.terms, keys=keys)
        self._publish_keys(keys)
        log.info("the API keys are in force as they are now")
        return None

    async def _tell(self, file: File, refusal: str | None) -> None:
        if refusal is not None:
            what = "configuration" if file == "config" else "file of API keys"
            log.error("the changed %s is refused, what was there before stays in force: %s", what, refusal)
        await self._show(file, valid=refusal is None)
        self._telemetry.reloaded(file, valid=refusal is None)

    async def _show(self, file: File, *, valid: bool) -> None:
        self._valid[file] = valid
        await self._processor.show_config_health(valid=all(self._valid.values()))
        self._telemetry.show_validity(file, valid=valid)

    # Envoy's part

    def _publish_keys(self, keys: ApiKeys | None) -> None:
        """Have Envoy refuse what the processor would refuse anyway: that it learns late harms nobody but a new key."""
        if self._envoy is not None:
            try:
                self._envoy.publish_keys(keys)
            except OSError as error:
                log.warning("Envoy goes on with the API keys as they were, for its files can't be written: %s", error)

    async def _prepare(self, config: Config) -> None:
        """Have Envoy know all that `config` needs, and still all that is in use."""
        old = self._processor.terms.config
        if self._envoy is not None:
            await self._envoy.offer(config, _leaving(config, [*self._left, old]))
        elif changed := ", ".join(_changes_for_envoy(old, config)):
            raise ConfigError(
                f"{self._source.file.path}: Envoy has to know of these changes too, and can't learn of them from here: "
                f"{changed}; make its bootstrap anew with `extproc envoy`, and restart Envoy and the processor with it "
                "(with `serve --envoy DIRECTORY` neither is needed)"
            )

    async def _forget(self) -> None:
        """Have Envoy drop the backends that were left when their last exchange has ended."""
        in_use = [config for config in self._left if self._processor.uses(config)]
        if len(in_use) == len(self._left):
            return
        self._left = in_use
        if self._envoy is not None:
            config = self._processor.terms.config
            try:
                await self._envoy.settle(config, _leaving(config, in_use))
            except OSError as error:
                log.warning("Envoy keeps backends that nobody uses, for its files can't be written: %s", error)


def _leaving(config: Config, left: list[Config]) -> list[Backend]:
    """The backends of configurations that were left, as the last of them knew each, that `config` has no more."""
    known = {backend.name: backend for each in left for backend in each.backends}
    return [backend for name, backend in known.items() if name not in config.backends_by_name]


_NOT_FOR_ENVOY = {"models", "api_keys", "recording", "withheld", "media_urls", "allowed_origins"}
"""Settings that Envoy's configuration doesn't depend on, but for whether there are keys at all,"""
_NOT_FOR_LISTENER = {"silence_seconds"}
"""one of the limits,"""
_NOT_FOR_CLUSTERS = {"structured_outputs", "parameters"}
"""and those of a backend. Whatever isn't named here counts as Envoy's."""


def _changes_for_envoy(old: Config, new: Config) -> list[str]:
    """The settings that differ and that Envoy goes by too."""
    before, after = _for_envoy(old), _for_envoy(new)
    return [name for name, value in after.items() if before[name] != value]


def _for_envoy(config: Config) -> dict[str, Any]:
    told = config.model_dump(exclude=_NOT_FOR_ENVOY | {"backends"})
    told["backends"] = [backend.model_dump(exclude=_NOT_FOR_CLUSTERS) for backend in config.backends]
    told["limits"] = config.limits.model_dump(exclude=_NOT_FOR_LISTENER)
    told["api_keys"] = config.api_keys is not None
    told["allowed_origins"] = config.origins
    return told

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
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from extproc.config import Backend, Config, ConfigError, parse
from extproc.config.loading import check_files, decoded, fault, named_files
from extproc.control.key_reloading import KeyReloading, keys_file, read_keys
from extproc.control.last_in_force import LastInForce
from extproc.control.publishing import EnvoyFiles, RefusedByEnvoyError
from extproc.control.serving import Serving
from extproc.control.watched import Watched
from extproc.exchange.api_keys import GRACE, ApiKeys
from extproc.installing import by_pip
from extproc.observability.open_telemetry import is_installed
from extproc.observability.telemetry import File, Telemetry
from extproc.tracing.tracers import make_ready as make_tracing_ready
from extproc.turn.modes import make_ready

log = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds between two looks."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0
"""Seconds between two tries of a configuration that was refused, twice as many each time: a try may keep Envoy busy."""


@dataclass(frozen=True, slots=True)
class Source:
    """The configuration file, and where it is to be understood otherwise than it says."""

    file: Watched
    listen: str | None = None
    """Where Envoy listens, instead of where the file says."""
    sockets: Path | None = None
    """The same for the directory of sockets,"""
    workers: int | Literal["auto"] | None = None
    """and for the number of workers."""

    def read(self) -> Config:
        """What the file says. Raises ConfigError with the line and the field."""
        config = parse(self._text, source=str(self.file.path))
        instead = {"listen": self.listen, "sockets": self.sockets, "workers": self.workers}
        return config.model_copy(update={name: value for name, value in instead.items() if value is not None})

    def check_files(self, config: Config) -> None:
        """Raises ConfigError when a file that `config`, which was read here, names is one that can't be read, or when
        it asks for what isn't installed."""
        check_files(config, self._text, source=str(self.file.path))
        self.check_installed(config)

    def check_installed(self, config: Config) -> None:
        """Raises ConfigError when `config`, which was read here, asks for traces or metrics, and nothing is installed
        that sends them."""
        for name, settings in (("tracing", config.tracing), ("metrics", config.metrics)):
            if settings is not None and not is_installed():
                raise self.fault(name, message=f"it needs OpenTelemetry's SDK: {by_pip('otel')}")

    def fault(self, *location: str, message: str) -> ConfigError:
        """For what the file says at this place."""
        return fault(location, message, self._text, source=str(self.file.path))

    @property
    def _text(self) -> str:
        return decoded(self.file.content, source=str(self.file.path))

    @property
    def digest(self) -> str:
        """A name for what is in the file, short enough for a label."""
        return sha256(self.file.content).hexdigest()[:12]


class _Candidate:
    """A configuration that could be read, and isn't in force yet."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.told: set[str] = set()
        """Why it was refused so far; each reason is told once."""
        self._named = sorted({path for _, path in named_files(config)})
        self._states: Mapping[Path, object] | None = None
        self._pause = _FIRST_PAUSE
        self._again = 0.0

    async def due(self) -> bool:
        """Whether to try it now: for the first time, when a file that it names has changed, or after a pause."""
        states, now = await asyncio.to_thread(_states, self._named), asyncio.get_running_loop().time()
        if states != self._states:
            self._states, self._pause = states, _FIRST_PAUSE
        elif now < self._again:
            return False
        self._again = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


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
        processor: Serving,
        telemetry: Telemetry,
        envoy: EnvoyFiles | None,
        on_change: Callable[[], None],
        last: LastInForce | None = None,
        refusal: str | None = None,
        keys_grace: float = GRACE,
    ) -> None:
        """With a `refusal` the processor has begun with what was `last` in force, for this reason.

        `keys_grace`: how many seconds keys hold when there are none any more in their file.
        """
        self._source = source
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
        self._keys_kept_back = ""
        """Why Envoy hasn't the keys in force, if it hasn't."""
        self._valid: dict[File, bool] = {"config": True, "api_keys": True}
        self._keys = KeyReloading(keys, processor, telemetry, self._show_keys, self._publish_keys, keys_grace)

    async def run(self, interval: float = INTERVAL) -> None:
        """Look at the files every so many seconds, until cancelled."""
        await self._keys.begin()
        if self._refusal is not None:
            await self._show("config", valid=False)
            with suppress(ConfigError):  # which has been told
                self._candidate = _Candidate(self._source.read())
                self._candidate.told.add(self._refusal)
        # Side by side: Envoy may take its time with a configuration, and a key that is taken back must not wait for it.
        await asyncio.gather(_again_and_again(self._look, interval), _again_and_again(self._keys.look, interval))

    async def _look(self) -> None:
        if await self._source.file.changed():
            await self._read_config()
        if self._candidate is not None and await self._candidate.due():
            await self._take_config(self._candidate)
        await self._forget()

    async def _read_config(self) -> None:
        self._candidate = None
        try:
            config = await asyncio.to_thread(self._source.read)
            await asyncio.to_thread(make_ready, config.models)
            await asyncio.to_thread(make_tracing_ready, config)
            self._candidate = _Candidate(config)
        except ConfigError as error:
            await self._tell(str(error))

    async def _take_config(self, candidate: _Candidate) -> None:
        try:
            await self._put_in_force(candidate.config)
        except (ConfigError, RefusedByEnvoyError, OSError) as error:
            refusal = str(error)
            if refusal not in candidate.told:
                candidate.told.add(refusal)
                await self._tell(refusal)
            return
        self._candidate = None
        log.info("the new configuration is in force: %s", self._source.digest)
        await self._tell(None)
        if self._last is not None:
            self._last.keep(self._source.file.content)
        self._telemetry.configured(candidate.config, self._source.digest)

    async def _put_in_force(self, config: Config) -> None:
        """Have new exchanges go by it. Raises ConfigError, RefusedByEnvoyError or OSError when that can't be."""
        await asyncio.to_thread(self._source.check_files, config)
        if config.limits.max_body_bytes > self._processor.largest_body:
            raise self._source.fault(
                "limits",
                "max_body_bytes",
                message=f"more than {self._processor.largest_body} needs another processor: restart it",
            )
        old = self._processor.context.config
        if config.transport != old.transport:
            raise self._source.fault("transport", message="another transport needs another processor: restart it")
        if config.workers != old.workers:
            raise self._source.fault("workers", message="another number of workers needs another processor: restart it")
        same_keys = config.api_keys == old.api_keys  # which have changes of their own, even while this is done
        watched = None if same_keys else await asyncio.to_thread(keys_file, config)
        keys = read_keys(watched)
        try:
            if not same_keys and self._envoy is not None:
                self._envoy.publish_keys(keys)
            await self._prepare(config)  # though it be the old one: what was refused may have left traces
        except (ConfigError, RefusedByEnvoyError, OSError):
            if not same_keys:
                self._keys.tell_envoy()
            raise
        if config == old:
            return
        context = self._processor.context
        if not same_keys:
            self._keys.watch(watched)
        await self._processor.go_by(
            replace(context, config=config, keys=context.keys if same_keys else keys, since=int(time.time()))
        )
        self._left.append(old)
        self._on_change()
        if not same_keys:
            await self._keys.moved()

    async def _tell(self, refusal: str | None) -> None:
        if refusal is not None:
            log.error("the changed configuration is refused, the previous one stays in force: %s", refusal)
        await self._show("config", valid=refusal is None)
        self._telemetry.reloaded("config", valid=refusal is None)

    async def _show_keys(self, valid: bool) -> None:
        await self._show("api_keys", valid=valid)

    async def _show(self, file: File, *, valid: bool) -> None:
        self._valid[file] = valid
        self._processor.show_config_health(valid=all(self._valid.values()))
        self._telemetry.show_validity(file, valid=valid)

    # Envoy's part

    def _publish_keys(self, keys: ApiKeys | None) -> bool:
        """Have Envoy refuse what the processor would refuse anyway: that it learns late harms nobody but a new key.

        Whether it learns of them; if not, this is tried again and again, and each reason is told once.
        """
        reason = ""
        try:
            if self._envoy is not None:
                self._envoy.publish_keys(keys)
        except OSError as error:
            reason = str(error)
        if reason and reason != self._keys_kept_back:
            log.warning("Envoy keeps the previous API keys, because its files can't be written: %s", reason)
        elif self._keys_kept_back and not reason:
            log.info("Envoy has the API keys that are in force")
        self._keys_kept_back = reason
        return not reason

    async def _prepare(self, config: Config) -> None:
        """Have Envoy know all that `config` needs, and still all that is in use."""
        old = self._processor.context.config
        if self._envoy is not None:
            await self._envoy.offer(config, _leaving(config, [*self._left, old]))
        elif changed := ", ".join(changes_for_envoy(old, config)):
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
            config = self._processor.context.config
            try:
                await self._envoy.settle(config, _leaving(config, in_use))
            except OSError as error:
                log.warning(
                    "Envoy keeps backends that are no longer used, because its files can't be written: %s", error
                )


async def _again_and_again(look: Callable[[], Awaitable[None]], interval: float) -> None:
    while True:
        await asyncio.sleep(interval)
        try:
            await look()
        except Exception:  # a bug here is none in any exchange: those go on
            log.exception("bug: what changed on disk may not be in force")


def _leaving(config: Config, left: list[Config]) -> list[Backend]:
    """The backends of configurations that were left, as the last of them knew each, that `config` has no more."""
    known = {backend.name: backend for each in left for backend in each.backends}
    return [backend for name, backend in known.items() if name not in config.backends_by_name]


_NOT_FOR_ENVOY = {
    *("models", "aliases", "teams", "api_keys", "recording", "watch", "metrics", "withheld", "media_urls"),
    *("allowed_origins", "characters", "tool_servers", "runs", "transport", "workers", "count_every_answer"),
}
"""Settings that Envoy's configuration doesn't depend on, but for whether there are keys, how often teams may ask,
which kinds of limits a service counts for, tools that run on our side, and requests of the gateway's own,"""
_NOT_FOR_LISTENER = {"silence_seconds", "concurrent_requests", "tokens_per_minute", "tokens_per_day"}
"""some of the limits, whose numbers of tokens are known to the service that counts them,"""
_NOT_FOR_CLUSTERS = {"structured_outputs", "parameters", "max_batch_requests", "priority_scheduling"}
"""and those of a backend. Whatever isn't named here counts as Envoy's."""


def changes_for_envoy(old: Config, new: Config) -> list[str]:
    """The settings that differ and that Envoy goes by too."""
    before, after = _for_envoy(old), _for_envoy(new)
    return [name for name, value in after.items() if before[name] != value]


def _for_envoy(config: Config) -> dict[str, Any]:
    told = config.model_dump(exclude=_NOT_FOR_ENVOY | {"backends"})
    told["backends"] = [backend.model_dump(exclude=_NOT_FOR_CLUSTERS) for backend in config.backends]
    kinds = config.global_limit_kinds
    told["limits"] = config.limits.model_dump(exclude=_NOT_FOR_LISTENER), {k for k, whose in kinds if whose == "client"}
    told["api_keys"] = config.api_keys is not None
    told["teams"] = config.rates_of_teams, {kind for kind, whose in kinds if whose == "team"}
    told["other_paths"] = config.other_paths, config.routes_by_model
    told["allowed_origins"] = config.allowed_origins
    told["characters"] = config.runs_tools
    told["models"] = config.asks_itself
    return told

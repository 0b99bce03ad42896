"""Takes what changes in the file of API keys, whatever else is wrong on disk: a key that is taken back is out.

A line that can't be read is left out, and all others hold. When there is no key in the file any more, or no file, it
may be somebody's slip, or the moment between two files: the old keys hold for a grace period, and then none does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from extproc.config import Config, ConfigError
from extproc.config.files import shown
from extproc.control.serving import Serving
from extproc.control.watched import Watched
from extproc.exchange.api_keys import GRACE, ApiKeys
from extproc.observability.telemetry import Telemetry

log = logging.getLogger(__name__)


def read_keys(file: Watched | None) -> ApiKeys | None:
    """The keys in the file. Raises ConfigError when there is none."""
    if file is None:
        return None
    keys = ApiKeys.parse(file.content)
    if not keys:
        reason = f"{shown(file.path, 'api_keys')}: holds no keys, so no client could get in"
        raise ConfigError("\n".join((*keys.complaints(str(file.path)), reason)))
    return keys


def keys_file(config: Config) -> Watched | None:
    """The file of keys that a configuration names."""
    return Watched(config.api_keys, "api_keys") if config.api_keys is not None else None


class KeyReloading:
    """The watch over the file that the configuration in force names, if it names one."""

    def __init__(
        self,
        file: Watched | None,
        processor: Serving,
        telemetry: Telemetry,
        show: Callable[[bool], Awaitable[None]],
        publish: Callable[[ApiKeys | None], bool],
        grace: float = GRACE,
    ) -> None:
        """`show` is told whether the file is in force as it is; `publish` tells Envoy of keys, and whether it could."""
        self.file = file
        self._processor = processor
        self._telemetry = telemetry
        self._show = show
        self._publish = publish
        self._published = True
        self._grace = grace
        self._closes: float | None = None
        """When nobody comes in any more."""

    async def begin(self) -> None:
        """Tell of the keys that the processor has begun with."""
        if self.file is not None and (keys := self._processor.context.keys) is not None:
            await self._tell(self.file, keys)

    def watch(self, file: Watched | None) -> None:
        """Another file, or none, is about to be in force with its keys: the configuration changes. Then say `moved`."""
        self.file, self._closes = file, None

    async def moved(self) -> None:
        """It is in force."""
        self.tell_envoy()  # anew: the old file may have changed while Envoy learned of the new one
        await self._tell(self.file, self._processor.context.keys)

    def tell_envoy(self) -> None:
        """Of the keys that are in force, and again later if that can't be now."""
        self._published = self._publish(self._processor.context.keys)

    async def look(self) -> None:
        """Take what has changed, and close when it is time."""
        file = self.file
        if file is None:
            return
        if await file.changed() and file is self.file:  # it may have moved meanwhile
            try:
                keys = read_keys(file)
            except ConfigError as error:
                await self._missing(str(error))
            else:
                self._closes = None
                await self._put_in_force(keys)
                log.info("the new API keys are in force")
                self._telemetry.reloaded("api_keys", valid=True)
                await self._tell(file, keys)
        if self._closes is not None and asyncio.get_running_loop().time() >= self._closes:
            self._closes = None
            await self._put_in_force(ApiKeys())
            log.error("every request is refused now: there has been no API key for %g seconds", self._grace)
            self._telemetry.show_keys(missing=True, closed=True)
        if not self._published:  # a disk may have room again
            self.tell_envoy()

    async def _put_in_force(self, keys: ApiKeys | None) -> None:
        await self._processor.go_by(replace(self._processor.context, keys=keys))
        self.tell_envoy()

    async def _missing(self, reason: str) -> None:
        closed = not self._processor.context.keys
        if self._closes is None and not closed:
            self._closes = asyncio.get_running_loop().time() + self._grace
            log.error("no API keys: the last ones stay valid for %g seconds, then every request is refused: %s",
                      self._grace, reason)  # fmt: skip
        else:
            log.error("there is still no API key: %s", reason)
        self._telemetry.reloaded("api_keys", valid=False)
        self._telemetry.show_keys(missing=True, closed=closed)
        await self._show(False)

    async def _tell(self, file: Watched | None, keys: ApiKeys | None) -> None:
        unreadable = keys.unreadable if keys is not None else ()
        if file is not None and keys is not None:
            for complaint in keys.complaints(str(file.path)):
                log.warning("%s", complaint)
        self._telemetry.show_keys(unreadable=len(unreadable))
        await self._show(not unreadable)

"""Gives Envoy its part of the configuration, in the order in which nothing breaks.

    offer    the new backends beside those that are still in use, then the routes and the listener; wait until Envoy
             goes by them. The processor may choose the new backends from then on
    settle   leave out the backends that nobody uses any more

Envoy answers 503 for a backend that it doesn't know yet. Where its admin interface can be reached, it is asked when it
is ready; elsewhere it is given UNSEEN seconds, which is a hundred times what it takes unless it has to look up a name
that can't be found, or to wait for a server's first health check.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from extproc.config import Backend, Config
from extproc.envoy_admin import EnvoyAdmin, Taken

log = logging.getLogger(__name__)

UNSEEN = 1.0
_PATIENCE = 15.0
"""For an Envoy that says that it isn't ready: a health check without an answer takes this long."""
_POLL = 0.02


class RefusedByEnvoyError(Exception):
    """Envoy can't go by a file. Its log tells why; the files are as they were before."""


class EnvoyFiles:
    """The files in one directory, which only this object writes."""

    def __init__(self, directory: Path, admin: EnvoyAdmin | None) -> None:
        self._directory = directory
        self._admin = admin
        self._written: dict[str, str] = {}

    async def begin(self, config: Config) -> None:
        """Write all of them, for an Envoy that starts later or runs already. Raises OSError."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for name, text in (await self._made(config, ())).items():
            self._write(name, text)

    async def offer(self, config: Config, leaving: Sequence[Backend]) -> None:
        """Have Envoy go by `config`, and keep the backends that are `leaving` too.

        Raises OSError when the files can't be written, and RefusedByEnvoyError.
        """
        before = dict(self._written)
        try:
            for name, text in (await self._made(config, leaving)).items():
                await self._replace(name, text)
        except (OSError, RefusedByEnvoyError):
            for name, text in before.items():
                self._write(name, text)
            raise

    async def settle(self, config: Config, leaving: Sequence[Backend]) -> None:
        """Keep no other backends than those of `config` and these. Raises OSError."""
        from extproc.envoy.dynamic import LISTENER, ROUTES, backend_files

        made = await asyncio.to_thread(backend_files, config, leaving, str(self._directory))
        for name, text in made.items():
            self._write(name, text)
        for name in self._written.keys() - made.keys() - {ROUTES, LISTENER}:  # secrets of backends that are gone
            (self._directory / name).unlink(missing_ok=True)
            del self._written[name]

    async def _made(self, config: Config, leaving: Sequence[Backend]) -> dict[str, str]:
        # Takes half a second to import, and 13 MB: only where there is an Envoy to be told.
        from extproc.envoy.dynamic import files

        return await asyncio.to_thread(files, config, leaving, str(self._directory))

    async def _replace(self, name: str, text: str) -> None:
        from extproc.envoy.dynamic import VERSIONED, version_of

        if self._written.get(name) == text:
            return
        if name not in VERSIONED:
            self._write(name, text)
            return
        before = await self._taken()
        self._write(name, text)
        if before is None:
            await asyncio.sleep(UNSEEN)
        else:
            await self._until_taken(name, version_of(text), before.refusals)

    async def _until_taken(self, name: str, version: str, refusals: int) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                while (now := await self._taken()) is not None:
                    if version in now.versions.values() and not now.warming:
                        return
                    if now.refusals > refusals and version not in now.versions.values():
                        raise RefusedByEnvoyError(f"Envoy refuses {name}; its log tells why")
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            log.warning("Envoy isn't ready with %s after %g seconds; going on without waiting", name, _PATIENCE)

    async def _taken(self) -> Taken | None:
        """What Envoy goes by; None when it can't be asked, as when it has yet to start."""
        if self._admin is None:
            return None
        try:
            return await self._admin.taken()
        except OSError as error:
            log.warning("Envoy's admin interface doesn't answer: %s", error)
            return None

    def _write(self, name: str, text: str) -> None:
        if self._written.get(name) == text:
            return
        new = self._directory / f".{name}.new"
        new.write_text(text, encoding="utf-8")
        os.replace(new, self._directory / name)
        self._written[name] = text

"""Asks the backends, now and then and behind everything else, what they say of their models.

No exchange waits for it. What a backend has said is kept while it doesn't answer; a backend that never has is one that
nothing is known of.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from extproc.backends.client import ask
from extproc.backends.fetch import fetch
from extproc.config import Address, Backend, Config
from extproc.exchange.catalogue import ModelInfo, ModelInfos, read_reports
from extproc.names import MODELS_PATH, RUNNER

log = logging.getLogger(__name__)

_PATIENCE = 5.0
_RUNNER_AGAIN = 1.0
_PATIENT = 15
"""Times that the runner isn't there, until that is told: it may be starting."""
_AGAIN = 30.0
"""Seconds until all are asked again: a backend that is up now may tell more, and one may serve something else."""


class BackendReports:
    """What the backends of the configuration in force have said so far."""

    def __init__(self, config: Callable[[], Config]) -> None:
        self._config = config
        self._reports: dict[str, Mapping[str, ModelInfo]] = {}
        self._changed = asyncio.Event()

    @property
    def by_backend(self) -> ModelInfos:
        """A view, which changes while they are asked."""
        return self._reports

    def ask_again(self) -> None:
        """Ask all of them soon: there is another configuration."""
        self._changed.set()

    async def run(self) -> None:
        """Ask them until cancelled."""
        await asyncio.gather(self._ask_backends(), self._ask_runner())

    async def _ask_runner(self) -> None:
        """Which characters there are. It is next door, and they come and go with their files."""
        missed = 0
        while True:
            config = self._config()
            if not config.runs_tools:
                self._reports.pop(RUNNER, None)
            else:
                try:
                    self._reports[RUNNER] = await _characters(config)
                    missed = 0
                except (OSError, ValueError) as error:
                    missed += 1
                    if missed == _PATIENT:
                        log.warning(
                            "characters and tool servers can't be used: start `extproc runner`, which doesn't answer "
                            "on unix:%s (%s)",
                            config.runner_socket,
                            type(error).__name__,
                        )
            await asyncio.sleep(_RUNNER_AGAIN)

    async def _ask_backends(self) -> None:
        while True:
            self._changed.clear()
            backends = self._config().backends
            for gone in self._reports.keys() - {RUNNER} - {backend.name for backend in backends}:
                del self._reports[gone]
            await asyncio.gather(*map(self._ask, backends))
            try:
                await asyncio.wait_for(self._changed.wait(), _AGAIN)
            except TimeoutError:
                continue

    async def _ask(self, backend: Backend) -> None:
        """Ask its servers in turn until one answers: all of them serve the same."""
        for address in backend.endpoints:
            try:
                self._reports[backend.name] = await reports_of(backend, address)
            except (OSError, ValueError) as error:
                # Envoy's health checks and metrics tell of backends that are down; this is for those who look closely.
                log.debug("the backend %r at %s doesn't tell its models: %s", backend.name, address, error)
            else:
                return


async def _characters(config: Config) -> Mapping[str, ModelInfo]:
    """Raises OSError, and ValueError when that is no list of models."""
    async with asyncio.timeout(_PATIENCE):
        streams = await asyncio.open_unix_connection(str(config.runner_socket))
        answer = await fetch(streams, "GET", MODELS_PATH, host="runner")
    return read_reports(answer.body)


async def reports_of(backend: Backend, address: Address) -> Mapping[str, ModelInfo]:
    """What one of its servers says. Raises OSError, and ValueError when that is no list of models."""
    answer = await ask(backend, address, "GET", MODELS_PATH, timeout=_PATIENCE)
    if answer.status != 200:
        raise ValueError(f"it answers {answer.status}")
    return read_reports(answer.body)

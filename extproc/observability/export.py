"""The metrics on their way to a collector, now and then and once more at the end.

They are collected in the event loop, as for the page, and translated and sent in a thread: no exchange waits for that.
One batch is on its way at a time; what a collector doesn't take isn't kept, because the next batch says it all again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from extproc.config.metrics import Metrics as Settings
from extproc.observability.added_metrics import Metrics
from extproc.observability.open_telemetry import LEAVING_SECONDS

if TYPE_CHECKING:
    from extproc.observability.otlp_sender import Sender

log = logging.getLogger(__name__)

_LOOK = 1.0
"""Seconds between two looks at the settings."""


class MetricsExport:
    """Of one process, as the settings in force want it."""

    def __init__(
        self, service: str, metrics: Callable[[], Awaitable[Metrics]], settings: Callable[[], Settings | None]
    ) -> None:
        """`service` is what the process is called, unless its environment says otherwise; `metrics` gives all that it
        shows, counted from now on."""
        self._service = service
        self._metrics = metrics
        self._settings = settings
        self._since = time.time_ns()
        self._sender: Sender | None = None
        self._leaving = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send them inside the block, and once more behind it, if that doesn't take long."""
        task = asyncio.create_task(self._run())
        task.add_done_callback(_tell_bugs)
        try:
            yield
        finally:
            self._leaving.set()
            await asyncio.wait({task}, timeout=LEAVING_SECONDS)
            task.cancel()
            await asyncio.wait({task})
            if self._sender is not None:
                self._sender.close()

    async def _run(self) -> None:
        last = False
        while not last:
            last = await self._due()
            if (sender := await self._followed(self._settings())) is not None:
                await asyncio.to_thread(sender.send, await self._metrics())

    async def _due(self) -> bool:
        """Wait until they are to be sent. Whether that is for the last time."""
        began = time.monotonic()
        while not self._leaving.is_set():
            settings = self._settings()
            left = began + settings.interval_seconds - time.monotonic() if settings is not None else _LOOK
            if left <= 0:
                return False
            with suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), min(left, _LOOK))
        return True

    async def _followed(self, settings: Settings | None) -> Sender | None:
        """What sends them by these settings."""
        if self._sender is not None and (settings is None or settings.collector != self._sender.address):
            self._sender.close()
            self._sender = None
        if self._sender is None and settings is not None:
            self._sender = await asyncio.to_thread(_sender, settings.collector, self._service, self._since)
            log.info("metrics go to %s", settings.collector)
        return self._sender


def _sender(collector: str, service: str, since: int) -> Sender:
    """The SDK takes some 0.2 s to be imported."""
    from extproc.observability.otlp_sender import Sender

    return Sender(collector, service, since)


def _tell_bugs(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (bug := task.exception()) is not None:
        log.error("bug: metrics aren't sent any more", exc_info=bug)

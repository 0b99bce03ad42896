"""`extproc watch --tui` as a process: the terminal, with the page beside it where one is wanted, and its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

from extproc.server.stopping import StopSignals
from extproc.watch.collecting import Collected, collecting
from extproc.watch.tui.app import WatchApp
from extproc.watch.watched import Exchanges

PageServed: TypeAlias = Callable[[Exchanges], AbstractAsyncContextManager[str]]
"""Serves the page of them inside its block, and yields its URL."""


async def watch_in_terminal(collected: Collected, gateway: str, folder: Path, page: PageServed | None = None) -> int:
    """Until the user or a signal ends it; returns the exit status. Raises OSError when an address can't be had.

    `page` serves the page too, of the exchanges that it is given.
    """
    async with AsyncExitStack() as stack:
        exchanges = await stack.enter_async_context(collecting(collected))
        url = await stack.enter_async_context(page(exchanges)) if page is not None else None
        app = WatchApp(exchanges, gateway, folder, url)
        with StopSignals() as signals, _told_by(app):
            stopping = asyncio.create_task(_exit(app, signals))
            try:
                await app.run_async()
            finally:
                stopping.cancel()
    return app.return_code or 0


async def _exit(app: WatchApp, signals: StopSignals) -> None:
    """A signal is an end like any other: the terminal is left as it was."""
    await signals.asked()
    app.exit()


@contextmanager
def _told_by(app: WatchApp) -> Iterator[None]:
    """Inside the block the log is told in the terminal's view, as it would be written over it."""
    handler, root = _Told(app), logging.getLogger()
    before, root.handlers = root.handlers, [handler]
    try:
        yield
    finally:
        root.handlers = before


class _Told(logging.Handler):
    def __init__(self, app: WatchApp) -> None:
        super().__init__(logging.WARNING)
        self._app = app

    def emit(self, record: logging.LogRecord) -> None:
        worse = record.levelno >= logging.ERROR
        self._app.notify(record.getMessage(), severity="error" if worse else "warning", markup=False)

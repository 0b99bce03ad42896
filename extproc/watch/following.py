"""What changes, for whoever draws it: gathered for a moment, as a model writes faster than anybody reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from extproc.watch.viewed import Viewed, viewed
from extproc.watch.watched import Exchanges, Listener, Watched

GATHER = 0.1
"""Seconds between two changes that are told."""
QUIET = 15.0
"""Seconds after which it is told that nothing has changed."""
_COSTLY = 8
"""An exchange that goes on is read again after so many times as long as reading it took."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Of the list."""

    changed: list[Watched]
    gone: list[str]


async def changes(exchanges: Exchanges) -> AsyncGenerator[Changes | None]:
    """All that there are, and from then on what changes; None when nothing has for QUIET seconds."""
    woken = asyncio.Event()
    listener = Listener(woken.set)
    exchanges.listen(listener)
    try:
        yield Changes(exchanges.all(), [])
        while True:
            if not await _woken(woken):
                yield None
                continue
            woken.clear()
            changed, gone = list(listener.changed), list(listener.gone)
            listener.changed.clear()
            listener.gone.clear()
            yield Changes([found for each in changed if (found := exchanges.get(each)) is not None], gone)
            await asyncio.sleep(GATHER)
    finally:
        exchanges.unlisten(listener)


async def followed(exchanges: Exchanges, watched: Watched) -> AsyncGenerator[Viewed | None]:
    """One of them whenever there is more of it, to its end or until it is gone; None when nothing has changed for
    QUIET seconds."""
    woken = asyncio.Event()
    listener = Listener(woken.set)
    exchanges.listen(listener)
    seen = -1
    try:
        while True:
            ended, known = watched.ended is not None, watched.changes
            if known != seen:
                began, seen = time.monotonic(), known
                yield await asyncio.to_thread(viewed, watched)
                await asyncio.sleep(max(GATHER, _COSTLY * (time.monotonic() - began)))
            if ended and watched.changes == seen and watched.ended is not None:
                # What else is found out of it (`Exchanges.read`) is no part of its lanes.
                return
            if watched.changes == seen and not await _woken(woken):
                yield None
            woken.clear()
            listener.changed.clear()
            if exchanges.get(watched.summary.id) is not watched:
                return
    finally:
        exchanges.unlisten(listener)


async def _woken(woken: asyncio.Event) -> bool:
    try:
        await asyncio.wait_for(woken.wait(), QUIET)
    except TimeoutError:
        return False
    return True

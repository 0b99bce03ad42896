"""What processors show, as it comes by a socket of our own: kept, and looked at closely when it has ended."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from extproc.recording.document import RecordingError
from extproc.recording.frames import FrameError, Frames
from extproc.transport.lean.server import bound
from extproc.watch.lanes import Lanes, lanes
from extproc.watch.watched import Exchanges, Watched

log = logging.getLogger(__name__)

_PIECE = 256 * 1024
_LOOK = 5.0
"""Seconds between two looks at what has become too old."""
_BACKLOG = 200
"""Exchanges that may wait for being looked at closely. Of those that had to give way the list tells no names of tools
and no repairs; opened, they are whole."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What is taken, and how much of it is kept."""

    socket: Path
    """Where processors come."""
    most_bytes: int
    most_seconds: float


@asynccontextmanager
async def collecting(options: Collected) -> AsyncIterator[Exchanges]:
    """Take what processors show inside the block. Raises OSError when the socket can't be had."""
    ended = deque[Watched](maxlen=_BACKLOG)
    some = asyncio.Event()

    def read(watched: Watched) -> None:
        ended.append(watched)
        some.set()

    exchanges = Exchanges(options.most_bytes, options.most_seconds, read)
    async with _feeds(options.socket, exchanges):
        tasks = [asyncio.create_task(_forget(exchanges)), asyncio.create_task(_read(exchanges, ended, some))]
        try:
            yield exchanges
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def _read(exchanges: Exchanges, ended: deque[Watched], some: asyncio.Event) -> None:
    """Look closely at those that have ended, one after the other, the newest first."""
    while True:
        await some.wait()
        while ended:
            watched = ended.pop()
            if (made := await asyncio.to_thread(_lanes, watched)) is not None:
                exchanges.read(watched, made)
        some.clear()


def _lanes(watched: Watched) -> Lanes | None:
    try:
        return lanes(watched.document())
    except (RecordingError, ValueError):
        return None  # who opens it is told in words


async def _forget(exchanges: Exchanges) -> None:
    while True:
        await asyncio.sleep(_LOOK)
        exchanges.forget_old()


@asynccontextmanager
async def _feeds(path: Path, exchanges: Exchanges) -> AsyncIterator[None]:
    """Let processors come to this socket inside the block: those of our own user alone. Raises OSError."""
    with _for_us_alone(), bound(f"unix:{path}") as listening:
        serving = await asyncio.start_unix_server(
            lambda reader, writer: _fed(exchanges, reader, writer), sock=listening
        )
        try:
            yield
        finally:
            serving.close()


@contextmanager
def _for_us_alone() -> Iterator[None]:
    """What is made inside the block is for nobody but our own user. (All of this process is made by then.)"""
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)


async def _fed(exchanges: Exchanges, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One processor, as long as it is there."""
    connection, frames = exchanges.connected(), Frames()
    try:
        while data := await reader.read(_PIECE):
            for frame in frames.feed(data):
                exchanges.take(connection, frame)
    except (FrameError, KeyError, TypeError, ValueError) as error:
        log.error("a processor says what can't be read: %s", type(error).__name__)
    except OSError:
        pass
    finally:
        exchanges.disconnected(connection)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

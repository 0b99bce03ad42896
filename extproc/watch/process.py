"""`extproc watch` as a process: where processors come, where browsers come, and its end."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import secrets
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from extproc.config import Address, reachable
from extproc.recording.document import RecordingError
from extproc.recording.frames import FrameError, Frames
from extproc.server.stopping import StopSignals
from extproc.transport.asgi import application_served
from extproc.transport.lean.server import bound
from extproc.watch.application import application
from extproc.watch.guard import Guard
from extproc.watch.lanes import Lanes, lanes
from extproc.watch.watched import Exchanges, Watched

log = logging.getLogger(__name__)

_PIECE = 256 * 1024
_LOOK = 5.0
"""Seconds between two looks at what has become too old."""
_KEEP_ALIVE = 15
_BACKLOG = 200
"""Exchanges that may wait for being looked at closely. Of those that had to give way the list tells no names of tools
and no repairs; opened, they are whole."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The whole command line."""

    socket: Path
    """Where processors come."""
    listen: Address
    """Where browsers come."""
    gateway: str
    """The gateway's URL, for commands."""
    most_bytes: int
    most_seconds: float
    token: str | None = None
    """Instead of one that is made."""


def is_loopback(address: Address) -> bool:
    """Whether nobody comes to it from another machine."""
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return address.host == "localhost"


async def watch(options: WatchOptions) -> int:
    """Serve until a signal comes; returns the exit status. Raises OSError when an address can't be had."""
    token = options.token or secrets.token_urlsafe(24)
    with StopSignals() as signals:
        async with watching(options, token) as (address, _):
            print(f"extproc watch: http://{address}/?token={token}", flush=True)
            await signals.asked()
    return 0


@asynccontextmanager
async def watching(options: WatchOptions, token: str) -> AsyncIterator[tuple[Address, Exchanges]]:
    """Take what processors show, and serve the page, inside the block; yields where browsers find it."""
    ended = deque[Watched](maxlen=_BACKLOG)
    some = asyncio.Event()

    def read(watched: Watched) -> None:
        ended.append(watched)
        some.set()

    exchanges = Exchanges(options.most_bytes, options.most_seconds, read)
    with bound(str(options.listen) if options.listen.port else f"{options.listen.host}:0") as listening:
        address = Address(options.listen.host, listening.getsockname()[1])
        guard = Guard(application(exchanges, options.gateway), token, _hosts(address), f"extproc_watch_{address.port}")
        async with _feeds(options.socket, exchanges), application_served(guard, listening, keep_alive=_KEEP_ALIVE):
            tasks = [asyncio.create_task(_forget(exchanges)), asyncio.create_task(_read(exchanges, ended, some))]
            try:
                yield reachable(address), exchanges
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
        return None  # the page says it in words


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


def _hosts(address: Address) -> list[str]:
    """By which names a browser on this machine finds it; on others, by the address that it was told to listen on."""
    names = [str(address), str(reachable(address))]
    if is_loopback(address) or reachable(address) != address:
        names += [f"localhost:{address.port}"]
    return [name.lower() for name in names]

"""Listens, and accepts what comes."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress

from extproc.config import Address
from extproc.transport.lean.connection import ClientConnection, Connections
from extproc.transport.serving import Endpoint
from extproc.transport.turns import Turns

_BACKLOG = 1024
"""Connections that wait to be accepted: an Envoy has one or some from each of its threads, and they come at once."""
_LAST_WORDS = 1.0
"""Seconds that clients have to take their leave when the server stops."""


@asynccontextmanager
async def serving_lean(endpoint: Endpoint, turns: Turns) -> AsyncIterator[int]:
    """See `transport.serving`."""
    loop = asyncio.get_running_loop()
    connections = Connections()
    if endpoint.watch is not None:
        endpoint.watch(connections.load)

    def accepted() -> ClientConnection:
        return ClientConnection(endpoint.services, endpoint.largest, turns, connections)

    context = endpoint.tls.context() if endpoint.tls is not None else None
    async with AsyncExitStack() as opened:
        listening = endpoint.listening or opened.enter_context(bound(endpoint.address))
        is_path = listening.family == socket.AF_UNIX
        if not is_path:
            server = await loop.create_server(accepted, sock=listening, ssl=context, backlog=_BACKLOG)
        elif sys.version_info >= (3, 13):  # it would remove the path, which other processes may have too
            server = await loop.create_unix_server(accepted, sock=listening, backlog=_BACKLOG, cleanup_socket=False)
        else:
            server = await loop.create_unix_server(accepted, sock=listening, backlog=_BACKLOG)
        try:
            yield 1 if is_path else listening.getsockname()[1]
        finally:
            server.close()
            await connections.end(_LAST_WORDS)


@contextmanager
def bound(address: str) -> Iterator[socket.socket]:
    """A socket that listens there inside the block, and whose path is gone behind it. Raises OSError."""
    path = address.removeprefix("unix:") if address.startswith("unix:") else None
    with _listening(address) as listening:
        made = os.stat(path) if path is not None else None
        try:
            yield listening
        finally:
            if path is not None and made is not None:
                _remove(path, made)


def _listening(address: str) -> socket.socket:
    if address.startswith("unix:"):
        return _unix(address)
    host, port = Address.parse(address) if not address.endswith(":0") else (address[:-2].strip("[]"), 0)
    try:
        ((family, kind, protocol, _, where), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # those that are accepted have it too
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listening.bind(where)
            listening.listen(_BACKLOG)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        raise OSError(f"can't listen on {address}: is it in use? ({error.strerror})") from error
    listening.setblocking(False)
    return listening


def _unix(address: str) -> socket.socket:
    path = address.removeprefix("unix:")
    if accepts(path):
        raise OSError(f"can't listen on {address}: somebody does already")
    listening = socket.socket(socket.AF_UNIX)
    try:
        with suppress(FileNotFoundError):  # of one that has died
            os.unlink(path)
        listening.bind(path)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(f"can't listen on {address}: is its directory missing? ({error.strerror or error})") from error
    listening.setblocking(False)
    return listening


def accepts(path: str) -> bool:
    """Whether somebody listens on this socket."""
    with socket.socket(socket.AF_UNIX) as attempt:
        attempt.setblocking(False)  # one that is full accepts too, and would keep us waiting
        try:
            return attempt.connect_ex(path) in (0, errno.EAGAIN)
        except OSError:  # the path is too long for one
            return False


def _remove(path: str, made: os.stat_result) -> None:
    """The socket, unless another has taken its place."""
    with suppress(OSError):
        found = os.stat(path)
        if (found.st_ino, found.st_dev) == (made.st_ino, made.st_dev):
            os.unlink(path)

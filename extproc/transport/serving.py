"""Which transport serves, and where."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from extproc.transport.call import Services
from extproc.transport.tls import ServerTls
from extproc.transport.turns import Turns

Transport: TypeAlias = Literal["lean", "grpcio"]


Load: TypeAlias = Callable[[], tuple[int, int, int]]
"""How many connections there are now, calls that are open on them, and bytes that clients haven't taken."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What is served at one address."""

    address: str
    """`host:port` or `unix:/path`."""
    services: Services
    largest: int
    """Bytes of the largest message that is taken."""
    tls: ServerTls | None = None
    listening: socket.socket | None = None
    """A socket that somebody else has bound to `address`, and will remove from there; only `lean` takes one."""
    watch: Callable[[Load], None] | None = None
    """Is told by what the load of the connections is read; only `lean` knows it."""


@asynccontextmanager
async def serving(transport: Transport, endpoint: Endpoint, turns: Turns) -> AsyncIterator[int]:
    """Serve inside the block; yields the port, 1 for a unix socket. Raises OSError when the address can't be had.

    Leaving the block ends the calls that are under way.
    """
    serve: AbstractAsyncContextManager[int]
    if transport == "lean":
        from extproc.transport.lean.server import serving_lean

        serve = serving_lean(endpoint, turns)
    else:
        from extproc.transport.grpcio import serving_grpcio  # half a second, and 20 MB

        serve = serving_grpcio(endpoint, turns)
    async with serve as port:
        yield port

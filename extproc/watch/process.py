"""`extproc watch` as a process: what is shown, where browsers come, and its end."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from extproc.config import Address, reachable
from extproc.server.stopping import StopSignals
from extproc.transport.asgi import application_served
from extproc.transport.lean.server import bound
from extproc.watch.application import application
from extproc.watch.collecting import Collected, collecting
from extproc.watch.guard import Guard
from extproc.watch.watched import Exchanges

_KEEP_ALIVE = 15


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Where the page is, and who gets to see it."""

    listen: Address
    """Where browsers come."""
    gateway: str
    """The gateway's URL, for commands."""
    token: str | None = None
    """Instead of one that is made."""


def is_loopback(address: Address) -> bool:
    """Whether nobody comes to it from another machine."""
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return address.host == "localhost"


async def watch(collected: Collected, options: PageOptions) -> int:
    """Serve until a signal comes; returns the exit status. Raises OSError when an address can't be had."""
    with StopSignals() as signals:
        async with collecting(collected) as exchanges, page_served(exchanges, options) as url:
            print(f"extproc watch: {url}", flush=True)
            await signals.asked()
    return 0


@asynccontextmanager
async def page_served(exchanges: Exchanges, options: PageOptions) -> AsyncIterator[str]:
    """Serve the page inside the block; yields the URL that browsers find it by, with the token.

    Raises OSError when the address can't be had.
    """
    token = options.token or secrets.token_urlsafe(24)
    with bound(str(options.listen) if options.listen.port else f"{options.listen.host}:0") as listening:
        address = Address(options.listen.host, listening.getsockname()[1])
        guard = Guard(application(exchanges, options.gateway), token, _hosts(address), f"extproc_watch_{address.port}")
        async with application_served(guard, listening, keep_alive=_KEEP_ALIVE):
            yield f"http://{reachable(address)}/?token={token}"


def _hosts(address: Address) -> list[str]:
    """By which names a browser on this machine finds it; on others, by the address that it was told to listen on."""
    names = [str(address), str(reachable(address))]
    if is_loopback(address) or reachable(address) != address:
        names += [f"localhost:{address.port}"]
    return [name.lower() for name in names]

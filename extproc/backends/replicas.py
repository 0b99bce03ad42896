"""How many servers a backend's addresses stand for, as far as that can be known here and now.

Envoy balances, checks and ejects what it has addresses of. A Kubernetes Service with an address of its own (ClusterIP)
hides its pods behind one: then there is one replica, whatever is behind it, and affinity, health checks and ejection do
nothing. A headless one has the pods' addresses.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

from extproc.config import Address, Backend, Config

_PATIENCE = 2.0
"""Seconds, to look up a name."""

Lookup = Callable[[Address], Awaitable[frozenset[str]]]


async def looked_up(address: Address, patience: float = _PATIENCE) -> frozenset[str]:
    """The IP addresses that Envoy finds for it: those of IPv4, if there are any.

    Empty when that can't be told within `patience` seconds.
    """
    found: Future[frozenset[str]] = Future()

    def ask() -> None:
        result = _resolved(address)
        with suppress(InvalidStateError):  # nobody waits any more
            found.set_result(result)

    # Not in a thread of the loop's, which would be waited for at its end: resolvers take as long as they like.
    threading.Thread(target=ask, daemon=True).start()
    try:
        async with asyncio.timeout(patience):
            return await asyncio.wrap_future(found)
    except TimeoutError:
        return frozenset()


def _resolved(address: Address) -> frozenset[str]:
    try:
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # UnicodeError: no name at all, such as one with a part that is too long
        return frozenset()
    by_family = {family: frozenset(str(at[0]) for of, *_, at in found if of == family) for family, *_ in found}
    return by_family.get(socket.AF_INET) or by_family.get(socket.AF_INET6) or frozenset()


async def hidden_replicas(config: Config, lookup: Lookup = looked_up) -> list[str]:
    """A sentence for each backend whose replicas, as it is set up, are not what Envoy can tell from each other."""
    complaints = await asyncio.gather(*(_complaint(backend, lookup) for backend in config.backends))
    return [complaint for complaint in complaints if complaint is not None]


async def _complaint(backend: Backend, lookup: Lookup) -> str | None:
    expected = len(backend.endpoints)
    if expected == 1 and not backend.affinity:
        return None
    found = await asyncio.gather(*map(lookup, backend.endpoints))
    if not all(found):
        return None  # what isn't there yet may be anything
    servers = {(host, at.port) for at, hosts in zip(backend.endpoints, found, strict=True) for host in hosts}
    addresses = ", ".join(backend.address)
    if len(servers) == 1:
        (host, _) = next(iter(servers))
        resolved = f"to {host} alone"
        wanted = "affinity is on" if expected == 1 else f"{expected} replicas are named"
        why = "that is one replica for Envoy, so that affinity, health checks and ejection do nothing"
    elif len(servers) < expected:
        resolved = f"to only {len(servers)} servers"
        wanted, why = f"{expected} replicas are named", "some of them are the same"
    else:
        return None
    return (
        f"the backend {backend.name!r}: {wanted}, but {addresses} resolves {resolved}, as far as can be seen here: "
        f"{why}. Name each replica, or one name that has the addresses of all: in Kubernetes that of a headless "
        "Service (clusterIP: None), with the pods' port."
    )

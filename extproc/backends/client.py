"""Asks a backend's servers directly, with the key and the TLS that the configuration has for them.

For what Envoy has no part in: what the servers report of themselves, and the one retry of a demanded call. So
what Envoy knows and decides doesn't count here: retries go to any replica, whatever its health checks and
ejections say, without affinity, and beside `max_requests`; there are never more than RETRIES of them at once
instead. As in Envoy another replica is asked when one can't be reached or answers 503, but also when one ends the
connection without a word.

A retry carries the exchange's `x-request-id`, but no `traceparent` or `tracestate`: `CallBackend` has none. So it
isn't part of the client's trace.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import NamedTuple

from extproc.backends.fetch import Answer, NoAnswerError, Streams, fetch
from extproc.config import Address, Backend
from extproc.config.files import check_file, read_file
from extproc.exchange.effects import BackendResponse, CallBackend
from extproc.names import CHAT_PATH

log = logging.getLogger(__name__)

RETRIES = 32
"""How many may be under way in a processor."""
REPLICAS = 3
"""How many get the request at most, as many as from Envoy: a backend that is full must not be asked all over."""
_CONNECT = 2.0
"""Seconds, to look up a name, and to open a connection: a replica that is gone often says nothing at all."""
_NOT_NOW = 503
_SENDABLE = re.compile(r"[!-~]([ -~]*[!-~])?")
"""Header values that need no care: printable ASCII."""
_NONE: Mapping[str, str] = MappingProxyType({})

_under_way = asyncio.Semaphore(RETRIES)


async def ask(
    backend: Backend,
    address: Address,
    method: str,
    path: str,
    *,
    timeout: float,  # noqa: ASYNC109 - includes the connection's opening
) -> Answer:
    """What one of its servers answers. Raises OSError, and ValueError for a key or a name that can't be sent."""
    async with asyncio.timeout(timeout):
        access = await asyncio.to_thread(_access, backend)
        streams = await _connect(backend, address, access)
        return await fetch(streams, method, path, host=_host(backend, address), headers=access.headers)


async def call_again(effect: CallBackend) -> BackendResponse | None:
    """Perform the effect, unless too many are being performed: then there is no answer."""
    if _under_way.locked():
        log.warning("no retry: %d retries are under way already", RETRIES, extra={"exchange": effect.request_id})
        return None
    async with _under_way:
        try:
            async with asyncio.timeout(effect.timeout):
                return await _ask_replicas(effect)
        except (OSError, ValueError) as error:  # the time is up; nobody answers; a file is missing, or is no text
            log.warning("the retry failed: %s", type(error).__name__, extra={"exchange": effect.request_id})
    return None


async def _ask_replicas(effect: CallBackend) -> BackendResponse:
    """Ask one after the other until one has something to say. Raises OSError and ValueError."""
    backend = effect.backend
    access = await asyncio.to_thread(_access, backend)
    headers = {"content-type": "application/json", **access.headers}
    if _SENDABLE.fullmatch(effect.request_id):
        headers["x-request-id"] = effect.request_id
    asked, said = 0, None
    async with aclosing(_reached(backend, access)) as reached:
        async for address, streams in reached:
            asked += 1
            try:
                host = _host(backend, address)
                said = await fetch(streams, "POST", CHAT_PATH, host=host, headers=headers, body=effect.body)
            except NoAnswerError as error:
                log.debug("the backend %r at %s: %s", backend.name, address, error)
            else:
                if said.status != _NOT_NOW:
                    break
            if asked == REPLICAS:
                break
    if said is None:
        raise NoAnswerError(f"no server of the backend {backend.name!r} answers")
    return BackendResponse(said.status, said.body)


async def _reached(backend: Backend, access: _Access) -> AsyncGenerator[tuple[Address, Streams], None]:
    """Connections to its replicas, each as it is asked for, in any order; who takes one has to close it."""
    endpoints = list(backend.endpoints)
    random.shuffle(endpoints)
    for address in endpoints:
        for host in await _hosts(address):
            try:
                async with asyncio.timeout(_CONNECT):
                    streams = await _connect(backend, address, access, host)
            except OSError as error:  # also what TLS and the network have to say, and TimeoutError
                log.debug("the backend %r can't be reached at %s: %s", backend.name, host, error)
                continue
            yield address, streams


async def _hosts(address: Address) -> list[str]:
    """All that the name of a server stands for, in any order: none if it can't be looked up."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_CONNECT):
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: no name at all, such as one with a part that is too long
        log.debug("%s can't be looked up: %s", address, error)
        return []
    hosts = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    random.shuffle(hosts)
    return hosts


class _Access(NamedTuple):
    """What a backend's servers want of their clients, as the files say now."""

    headers: Mapping[str, str]
    tls: ssl.SSLContext | None


def _access(backend: Backend) -> _Access:
    """Reads files, perhaps all of the system's certificates: tens of milliseconds, which no stream should wait for."""
    headers = _NONE
    if backend.api_key is not None:
        headers = {"authorization": f"Bearer {read_file(backend.api_key).decode().strip()}"}
    if backend.tls is not None and backend.tls.ca is not None:
        check_file(backend.tls.ca)
    return _Access(headers, ssl.create_default_context(cafile=backend.tls.ca) if backend.tls is not None else None)


def _host(backend: Backend, address: Address) -> str:
    return backend.tls.sni if backend.tls is not None and backend.tls.sni is not None else str(address)


async def _connect(backend: Backend, address: Address, access: _Access, host: str | None = None) -> Streams:
    """`host`: the one of those that the server's name stands for."""
    if backend.tls is None:
        return await asyncio.open_connection(host or address.host, address.port)
    name = backend.tls.sni or address.host
    return await asyncio.open_connection(host or address.host, address.port, ssl=access.tls, server_hostname=name)

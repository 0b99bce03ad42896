"""Asks one of a backend's servers directly what it reports of itself, with the key and the TLS that the settings have.

What clients ask goes through Envoy, a retry included (`extproc.backends.again`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from extproc.backends.fetch import Answer, Streams, fetch
from extproc.config import Address, Backend
from extproc.config.files import check_file, read_file

_NONE: Mapping[str, str] = MappingProxyType({})


async def ask(
    backend: Backend,
    address: Address,
    method: str,
    path: str,
    *,
    timeout: float,  # noqa: ASYNC109 - includes the connection's opening
) -> Answer:
    """What it answers. Raises OSError, and ValueError for a key or a name that can't be sent."""
    async with asyncio.timeout(timeout):
        access = await asyncio.to_thread(_access, backend)
        streams = await _connect(backend, address, access)
        return await fetch(streams, method, path, host=_host(backend, address), headers=access.headers)


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


async def _connect(backend: Backend, address: Address, access: _Access) -> Streams:
    if backend.tls is None:
        return await asyncio.open_connection(*address)
    name = backend.tls.sni or address.host
    return await asyncio.open_connection(*address, ssl=access.tls, server_hostname=name)

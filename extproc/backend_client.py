"""Asks a backend's servers directly, with the key and the TLS that the configuration has for them.

For what Envoy has no part in: what the servers report of themselves, and the one second try of a demanded call.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Mapping
from types import MappingProxyType

from extproc.config import Address, Backend
from extproc.effects import AskBackend, BackendSaid
from extproc.fetch import Answer, Streams, fetch

log = logging.getLogger(__name__)

_CHAT = "/v1/chat/completions"
_NONE: Mapping[str, str] = MappingProxyType({})


async def ask(
    backend: Backend,
    address: Address,
    method: str,
    path: str,
    *,
    timeout: float,  # noqa: ASYNC109 - includes the connection's opening
    headers: Mapping[str, str] = _NONE,
    body: bytes = b"",
) -> Answer:
    """What one of its servers answers. Raises OSError."""
    headers = dict(headers)
    if backend.api_key is not None:
        key = await asyncio.to_thread(backend.api_key.read_text, encoding="utf-8")
        headers["authorization"] = f"Bearer {key.strip()}"
    host = backend.tls.sni if backend.tls is not None and backend.tls.sni is not None else str(address)
    opened = _opened(backend, address)
    return await fetch(opened, method, path, host=host, timeout=timeout, headers=headers, body=body)


async def ask_again(effect: AskBackend) -> BackendSaid | None:
    """Perform the effect: any of the servers will do, and those that can't be reached are passed over."""
    headers = {"content-type": "application/json", "x-request-id": effect.request_id}
    servers = list(effect.backend.endpoints)
    random.shuffle(servers)
    try:
        async with asyncio.timeout(effect.timeout):
            for address in servers:
                try:
                    answer = await ask(
                        effect.backend,
                        address,
                        "POST",
                        _CHAT,
                        timeout=effect.timeout,
                        headers=headers,
                        body=effect.body,
                    )
                except ConnectionError:
                    continue
                return BackendSaid(answer.status, answer.body)
    except (OSError, ValueError) as error:  # TimeoutError is an OSError, and a key file that is no text a ValueError
        log.warning("no second answer: %s", type(error).__name__, extra={"exchange": effect.request_id})
    return None


async def _opened(backend: Backend, address: Address) -> Streams:
    if backend.tls is None:
        return await asyncio.open_connection(address.host, address.port)
    # Reads a file, or all of the system's certificates: tens of milliseconds, which no stream should wait for.
    context = await asyncio.to_thread(ssl.create_default_context, cafile=backend.tls.ca)
    name = backend.tls.sni or address.host
    return await asyncio.open_connection(address.host, address.port, ssl=context, server_hostname=name)

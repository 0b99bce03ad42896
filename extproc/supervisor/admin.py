"""Envoy's admin interface, as far as its life needs it. Behaviour measured with Envoy 1.40."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

from extproc.supervisor.fetch import Answer, fetch

_TIMEOUT = 5.0
_POLL = 0.05

_UNFINISHED = "downstream_(rq_active|cx_tx_bytes_buffered)$"
"""Requests that are not answered yet, and bytes of answers that clients have not taken yet."""


class EnvoyAdmin:
    """The interface on a unix socket. Its methods raise OSError when Envoy isn't there."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def until_ready(self) -> None:
        """Wait until Envoy accepts requests."""
        while True:
            with suppress(OSError):  # Envoy has yet to open the socket.
                if (await self._ask("GET", "/ready")).status == 200:
                    return
            await asyncio.sleep(_POLL)

    async def stop_accepting(self) -> None:
        """Close the listening sockets and let everything under way go on.

        `drain_listeners` alone leaves idle connections open for further requests; with a failed health check Envoy
        closes each of them behind its next answer. Its `graceful` variant goes on accepting for ten minutes.
        """
        await self._ask("POST", "/healthcheck/fail")
        await self._ask("POST", "/drain_listeners")

    async def until_idle(self) -> None:
        """Wait until every request is answered and the last byte was handed to the system."""
        while True:
            answer = await self._ask("GET", f"/stats?format=json&filter={_UNFINISHED}")
            # The question itself is counted too, under http.admin.
            gauges = [stat for stat in json.loads(answer.body)["stats"] if not stat["name"].startswith("http.admin.")]
            if not any(gauge["value"] for gauge in gauges):
                return
            await asyncio.sleep(_POLL)

    async def _ask(self, method: str, path: str) -> Answer:
        opening = asyncio.open_unix_connection(str(self._socket))
        return await fetch(opening, method, path, host="admin", timeout=_TIMEOUT)

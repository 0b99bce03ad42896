"""Envoy's admin interface, as far as its life and its configuration need it. Behaviour measured with Envoy 1.40."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from extproc.backends.fetch import Answer, Streams, fetch
from extproc.config import Address

_TIMEOUT = 5.0
_POLL = 0.05

_UNFINISHED = "downstream_(rq_active|cx_tx_bytes_buffered)$"
"""Requests that are not answered yet, and bytes of answers that clients have not taken yet."""
_TAKEN = (
    r"\.(cds|lds|rds\.openai)\.(version_text|update_rejected)$|^cluster_manager\.warming_clusters$"
    r"|^sds\..+\.update_(attempt|rejected)$"
)
"""What of its files Envoy goes by, how often it refused one, and clusters that it has yet to make ready."""
_NOT_OF_FILES = ("sds.", "cluster_manager.warming_clusters")


class Tries(NamedTuple):
    """How often Envoy has read the file that names a secret, and how often in vain."""

    all: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """What Envoy has made of the files that it reads its clusters, its routes and its listener from."""

    versions: dict[str, str]
    """By the interface they come by: `cds`, `rds` and `lds`."""
    refused: dict[str, int]
    """By the same, how many of those that it ever read it refused, wholly or in part."""
    secrets: dict[str, Tries]
    """The files of keys and certificates, by the names of the secrets."""
    warming: int
    """Clusters that it knows and can't use yet: their names are being looked up, or their servers' health."""

    @property
    def refusals(self) -> int:
        return sum(self.refused.values())


class EnvoyAdmin:
    """The interface at a unix socket (`/path`) or a port (`host:port`); its methods raise OSError if it isn't there."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def until_ready(self) -> None:
        """Wait until Envoy accepts requests."""
        while True:
            with suppress(OSError):  # Envoy has yet to open the socket.
                if (await self._ask("GET", "/ready")).status == 200:
                    return
            await asyncio.sleep(_POLL)

    async def stop_accepting(self) -> None:
        """Close the sockets that clients come by and let everything under way go on, which may ask by the inner one.

        `drain_listeners` alone leaves idle connections open for further requests; with a failed health check Envoy
        closes each of them behind its next answer. Its `graceful` variant goes on accepting for ten minutes.
        """
        await self._ask("POST", "/healthcheck/fail")
        await self._ask("POST", "/drain_listeners?inboundonly")

    async def until_idle(self) -> None:
        """Wait until every request is answered and the last byte was handed to the system."""
        while True:
            answer = await self._ask("GET", f"/stats?format=json&filter={_UNFINISHED}")
            # The question itself is counted too, under http.admin.
            gauges = [stat for stat in json.loads(answer.body)["stats"] if not stat["name"].startswith("http.admin.")]
            if not any(gauge["value"] for gauge in gauges):
                return
            await asyncio.sleep(_POLL)

    async def taken(self) -> Taken:
        """What Envoy goes by now."""
        answer = await self._ask("GET", f"/stats?filter={quote(_TAKEN)}")
        stats = dict(re.findall(r"^(\S+): (.*)$", answer.body.decode(), re.MULTILINE))
        of_files = [(*_interface(name), value) for name, value in stats.items() if not name.startswith(_NOT_OF_FILES)]
        versions = {interface: value.strip('"') for interface, what, value in of_files if what == "version_text"}
        refused = {interface: int(value) for interface, what, value in of_files if what == "update_rejected"}
        secrets = {
            found[1]: Tries(int(tries), int(stats.get(f"sds.{found[1]}.update_rejected", 0)))
            for name, tries in stats.items()
            if (found := re.fullmatch(r"sds\.(.+)\.update_attempt", name))
        }
        return Taken(versions, refused, secrets, int(stats.get("cluster_manager.warming_clusters", 0)))

    async def _ask(self, method: str, path: str) -> Answer:
        async with asyncio.timeout(_TIMEOUT):
            return await fetch(await self._open(), method, path, host="admin")

    async def _open(self) -> Streams:
        if self._address.startswith("/"):
            return await asyncio.open_unix_connection(self._address)
        host, port = Address.parse(self._address)
        return await asyncio.open_connection(host, port)


def _interface(name: str) -> tuple[str, str]:
    """`cds`, `rds` or `lds`, and what the number of that name says of it."""
    *_, interface, what = name.replace(".rds.openai.", ".rds.").split(".")
    return interface, what

"""What a fleet and its workers say to each other: pickled, for both are this very program.

A worker hears, in this order: `GoBy`, `Health`, `LogStreams`, and then anything. It takes one message after the other,
so its answer to `Ask` says that it has taken all that came before.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from extproc.config import Config
from extproc.exchange.api_keys import ApiKeys
from extproc.exchange.catalogue import ModelInfo
from extproc.observability.added_metrics import Metrics

_LENGTH = struct.Struct("!Q")


@dataclass(frozen=True, slots=True)
class GoBy:
    """Have new exchanges go by this."""

    number: int
    """The configuration's: they are counted."""
    config: Config | None
    """None: the worker has it, from the last message."""
    keys: ApiKeys | None
    since: int


@dataclass(frozen=True, slots=True)
class Reports:
    """What backends have said of their models."""

    by_backend: Mapping[str, Mapping[str, ModelInfo]]


@dataclass(frozen=True, slots=True)
class Health:
    """What the health service says, by service."""

    serving: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class LogStreams:
    """How many of Envoy's threads tell when requests end, whichever worker they tell it."""

    number: int
    lost: bool
    """One has gone that might have told of requests."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The requests of these leases are over; they may be another worker's."""

    leases: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """For an `Answer` with the same number."""

    number: int
    when_idle: bool = False
    """Not before no exchange is under way."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End, with all that still runs."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How it is with a worker."""

    number: int
    exchanges: int
    """How many are under way."""
    configs: frozenset[int]
    """The numbers of the configurations that these go by."""
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class HostSeen:
    """Whether Envoy follows overrides, as far as this worker knows."""

    follows: bool


@dataclass(frozen=True, slots=True)
class LogStream:
    """One of Envoy's threads tells a worker when requests end, or has stopped to."""

    opened: bool


ToWorker: TypeAlias = GoBy | Reports | Health | LogStreams | Ended | Ask | Stop
FromWorker: TypeAlias = Answer | HostSeen | LogStream | Ended


class Link:
    """One end of the connection between the two."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Self:
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send(self, message: ToWorker | FromWorker) -> None:
        """Without waiting; to nobody if the other side is gone."""
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        if not self._writer.is_closing():
            self._writer.write(_LENGTH.pack(len(data)) + data)

    async def receive(self) -> Any:
        """The other side's next message. Raises EOFError when it is gone."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return pickle.loads(await self._reader.readexactly(length))  # noqa: S301 - our own program's
        except OSError as error:
            raise EOFError from error

    def close(self) -> None:
        self._writer.close()

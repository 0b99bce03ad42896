"""What an attack is: a name, what it takes, the gateway it is meant for, and a coroutine."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

from tests.attacks import http1

BODY_LIMIT = 16 * 1024 * 1024
"""`limits.max_body_bytes` as deploy/k8s ships it."""
READ = 65_536


@dataclass(frozen=True, slots=True)
class Needs:
    """The gateway that an attack is meant for, where it isn't the shipped one."""

    keys: bool = True
    """Whether clients have to show a key."""
    tls: bool = False
    nofile: int | None = None
    """`ulimit -n` of the gateway, soft and hard; None leaves what the shell has."""
    max_body_bytes: int = BODY_LIMIT
    max_requests: int | None = None
    """Of the backend that the honest clients use; None leaves the default."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where an attack goes, and with what."""

    host: str
    port: int
    key: str
    """A valid one that no honest client has. Attacks without a key don't use it."""


@dataclass(slots=True)
class Tally:
    """What the attacker did and saw."""

    connections: int = 0
    refused: int = 0
    """Connections that didn't come about."""
    sent: int = 0
    """Bytes that the system took."""
    requests: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """Statuses; `closed` for none."""

    def json(self) -> dict[str, Any]:
        return {**asdict(replace(self, answers=Counter())), "answers": dict(self.answers)}


class Attack(ABC):
    """One way to do harm. `run` goes on until it is cancelled, or until it has nothing left to do."""

    name: ClassVar[str]
    means: ClassVar[str]
    """Bytes, connections, key or not: for the table."""
    needs: ClassVar[Needs] = Needs()

    def __init__(self, target: Target) -> None:
        self.target = target
        self.tally = Tally()

    @abstractmethod
    async def run(self) -> None: ...

    @contextlib.asynccontextmanager
    async def connection(
        self, buffer: int | None = None
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A TCP connection, gone without a goodbye at the end. Raises OSError.

        `buffer` bounds what is read ahead of the caller.
        """
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(self.target.host, self.target.port, limit=buffer or READ), 5
            )
        except OSError:
            self.tally.refused += 1
            raise
        self.tally.connections += 1
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def send(self, writer: asyncio.StreamWriter, payload: bytes) -> None:
        """In pieces, so that one who doesn't read is noticed by the tally."""
        for at in range(0, len(payload), READ):
            piece = payload[at : at + READ]
            writer.write(piece)
            await writer.drain()
            self.tally.sent += len(piece)

    async def answer(self, reader: asyncio.StreamReader, *, bodiless: bool = False) -> str:
        """Read a whole answer; its status, which is counted. A connection that ends instead raises OSError."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            status = http1.status(head)
            lower = head.lower()
            if b"transfer-encoding: chunked" in lower:
                while size := int(await reader.readuntil(b"\r\n"), 16):
                    await reader.readexactly(size + 2)
                await reader.readexactly(2)
            elif b"content-length: " in lower and not bodiless:
                await reader.readexactly(int(lower.split(b"content-length: ")[1].split(b"\r\n")[0]))
        except (OSError, EOFError):
            self.tally.answers["closed"] += 1
            raise ConnectionResetError from None
        self.tally.answers[status] += 1
        return status

    async def together(self, count: int, work: Callable[[int], Awaitable[None]], pause: float = 0.1) -> None:
        """So many at once, each started again when it ends, `pause` seconds later."""

        async def again(number: int) -> None:
            while True:
                with contextlib.suppress(OSError, EOFError):
                    await work(number)
                await asyncio.sleep(pause)

        await asyncio.gather(*(again(number) for number in range(count)))

"""Unix sockets that lead nowhere out of the event loop: who listens at which path, and connections of two ends.

What is written at one end comes out at the other in a later round of the loop, in one piece or in several.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

Talk: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Network:
    """Of one event loop."""

    def __init__(self) -> None:
        self._servers: dict[str, Callable[[], asyncio.BaseProtocol]] = {}
        self.rng = random.Random(0)

    def serve(self, path: str, accepted: Callable[[], asyncio.BaseProtocol]) -> _Server:
        """`accepted` makes a protocol for each connection."""
        self._servers[path] = accepted
        return _Server(self, path)

    def talk(self, path: str, talk: Talk) -> None:
        """The same for a server that is a coroutine, as `asyncio.start_server` knows them."""

        def accepted() -> asyncio.BaseProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(), talk)

        self._servers[path] = accepted

    def close(self, path: str) -> None:
        """Nobody listens there any more."""
        self._servers.pop(path, None)

    def accept(self, path: str) -> Any:
        """The protocol of whoever listens there, which somebody else will speak with. Raises ConnectionRefusedError."""
        if path not in self._servers:
            raise ConnectionRefusedError(111, "Connection refused")
        return self._servers[path]()

    def connect(self, path: str, connecting: Callable[[], Any]) -> tuple[asyncio.Transport, Any]:
        """Raises ConnectionRefusedError."""
        protocol = self.accept(path)
        ours, theirs = End(self.rng), End(self.rng)
        ours.other, theirs.other = theirs, ours
        ours.protocol, theirs.protocol = connecting(), protocol
        theirs.protocol.connection_made(theirs)
        ours.protocol.connection_made(ours)
        return ours, ours.protocol


class _Server:
    """What `create_unix_server` returns."""

    def __init__(self, network: Network, path: str) -> None:
        self._network = network
        self._path = path

    def close(self) -> None:
        self._network.close(self._path)


class End(asyncio.Transport):
    """One end of a connection."""

    other: End
    protocol: Any

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._rng = rng
        self._closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closed or not data:
            return
        cut = self._rng.randrange(len(data) + 1)
        for piece in filter(None, (bytes(data[:cut]), bytes(data[cut:]))):
            self._loop.call_soon(self.other._came, piece)

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self.other._ended)
            self._loop.call_soon(self.protocol.connection_lost, None)

    abort = close

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def _came(self, piece: bytes) -> None:
        if not self._closed:
            self.protocol.data_received(piece)

    def _ended(self) -> None:
        if not self._closed:
            self.protocol.eof_received()
            self.close()

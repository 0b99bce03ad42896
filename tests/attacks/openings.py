"""Many connections at once: opened without waiting for each other, and looked after."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator


class Connections:
    """Plain TCP connections to one address, held open and silent."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._held: list[socket.socket] = []
        self.opened = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[socket.socket]:
        return iter(list(self._held))

    async def open(self, count: int) -> None:
        """Open so many more; those that don't come about are counted."""
        loop = asyncio.get_running_loop()
        for _ in range(count):
            attempt = socket.socket()
            attempt.setblocking(False)
            try:
                await asyncio.wait_for(loop.sock_connect(attempt, self._address), 2)
            except OSError:
                attempt.close()
                self.refused += 1
            else:
                self._held.append(attempt)
                self.opened += 1

    def write(self, payload: bytes) -> int:
        """Send the same to all; returns how many bytes the system took."""
        taken = 0
        for connection in self._held:
            with contextlib.suppress(OSError):
                taken += connection.send(payload)
        return taken

    def drop_closed(self) -> int:
        """Forget the ones that the other side has closed; returns how many those were."""
        kept = []
        for connection in self._held:
            try:
                gone = connection.recv(4096) == b""
            except BlockingIOError:
                gone = False
            except OSError:
                gone = True
            if gone:
                connection.close()
            else:
                kept.append(connection)
        closed = len(self._held) - len(kept)
        self._held = kept
        return closed

    def close(self) -> None:
        for connection in self._held:
            connection.close()
        self._held = []

"""The connection to a worker: frames of bounded size, and none that nobody has asked for.

On the other side runs somebody's code, which may write what it likes. Whatever isn't exactly one frame, of the expected
size at most, while one is expected, breaks the connection for good.
"""

from __future__ import annotations

import asyncio
import struct
from typing import cast

_LENGTH = struct.Struct("!I")


class Channel(asyncio.Protocol):
    """One question at a time, and its answer."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._most = 0
        self._expected: asyncio.Future[bytes | None] | None = None
        self.is_broken = False
        self.is_breached = False
        """The other side has sent what it shouldn't have, so there is no reason to wait for its end."""

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self.is_broken:
            self._transport.write(_LENGTH.pack(len(data)) + data)

    def expect(self, most: int) -> asyncio.Future[bytes | None]:
        """The next frame, of so many bytes at most; None when the connection breaks before it is whole."""
        self._most = most
        self._expected = asyncio.get_running_loop().create_future()
        if self.is_broken:
            self._expected.set_result(None)
        return self._expected

    def close(self) -> None:
        """Whoever still expects a frame gets none."""
        self.is_broken = True
        if self._expected is not None and not self._expected.done():
            self._expected.set_result(None)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _: Exception | None) -> None:
        self.close()

    def data_received(self, data: bytes) -> None:
        if self.is_broken:
            return
        self._buffer += data
        if self._expected is None or self._expected.done():
            self._breach()
            return
        if len(self._buffer) < _LENGTH.size:
            return
        (length,) = _LENGTH.unpack_from(self._buffer)
        whole = _LENGTH.size + length
        if length > self._most or len(self._buffer) > whole:
            self._breach()
        elif len(self._buffer) == whole:
            self._expected.set_result(bytes(self._buffer[_LENGTH.size :]))
            self._buffer.clear()

    def _breach(self) -> None:
        self.is_breached = True
        self.close()

"""gRPC's messages in the body of a request or an answer: a flag, a length of four bytes, the message.

Source: gRPC over HTTP2 (the PROTOCOL-HTTP2 page of gRPC's own documentation).
"""

from __future__ import annotations

import struct

from extproc.transport.call import Status

_PREFIX = struct.Struct(">BI")
PREFIX_SIZE = _PREFIX.size


class MessageError(Exception):
    """What came is no message that can be taken."""

    def __init__(self, status: Status, words: str) -> None:
        super().__init__(words)
        self.status = status


def prefix(size: int) -> bytes:
    """What stands before a message of so many bytes, which isn't compressed."""
    return _PREFIX.pack(0, size)


class MessageReader:
    """Of one call. A message that comes in pieces takes what has come of it, whatever it says of its size."""

    __slots__ = ("_largest", "_message", "_prefix", "_size")

    def __init__(self, largest: int) -> None:
        """`largest`: bytes of a message."""
        self._largest = largest
        self._prefix = b""
        self._message: bytearray | None = None  # what has come of it,
        self._size = 0  # and what it will be

    @property
    def missing(self) -> int:
        """Bytes that have to come until the next message is whole, as far as is known."""
        if self._message is not None:
            return self._size - len(self._message)
        return PREFIX_SIZE - len(self._prefix) if self._prefix else 0

    @property
    def amid(self) -> bool:
        """Whether a message has begun that isn't whole."""
        return self._message is not None or bool(self._prefix)

    def feed(self, data: bytes) -> list[bytes | bytearray]:
        """The messages that are whole by now. Raises MessageError; nothing more can be read then."""
        messages: list[bytes | bytearray] = []
        at, end = 0, len(data)
        while at < end:
            if self._message is None:
                if self._prefix or end - at < PREFIX_SIZE:
                    taken = min(PREFIX_SIZE - len(self._prefix), end - at)
                    self._prefix += data[at : at + taken]
                    at += taken
                    if len(self._prefix) < PREFIX_SIZE:
                        break
                    size = self._checked(*_PREFIX.unpack(self._prefix))
                    self._prefix = b""
                else:
                    size = self._checked(*_PREFIX.unpack_from(data, at))
                    at += PREFIX_SIZE
                if size <= end - at:  # as nearly all are
                    messages.append(data[at : at + size])
                    at += size
                    continue
                self._message, self._size = bytearray(), size
            taken = min(self._size - len(self._message), end - at)
            self._message += data[at : at + taken] if taken < end else data
            at += taken
            if len(self._message) == self._size:
                messages.append(self._message)
                self._message = None
        return messages

    def _checked(self, compressed: int, size: int) -> int:
        if compressed:
            raise MessageError(Status.UNIMPLEMENTED, "messages can't be compressed here: grpc-accept-encoding tells")
        if size > self._largest:
            raise MessageError(
                Status.RESOURCE_EXHAUSTED, f"received message larger than max ({size} vs. {self._largest})"
            )
        return size

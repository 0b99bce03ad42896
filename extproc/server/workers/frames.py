"""What a worker and its processor say to each other, over a stream socket.

A frame is three texts of any length, their lengths before them. A job is the settings (pickled; empty when they are
those of the job before), the effect (pickled) and its body. A result is its kind, the value (pickled) and the body in
it. What is large or often the same stays out of the pickles: pickling megabytes is a single step, which nobody can
interrupt.
"""

from __future__ import annotations

import io
import pickle
import socket
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO, TypeAlias

Frame: TypeAlias = tuple[bytes, bytes, bytes]

_LENGTHS = struct.Struct("!QQQ")

DONE, FAILED = b"done", b"failed"
"""The kinds of results. What failed has the place in the code instead of a value."""

BODY, CONFIG = "body", "config"
"""What stays out of the pickles."""


def send(connection: socket.socket, frame: Frame) -> None:
    connection.sendall(_LENGTHS.pack(*map(len, frame)) + frame[0] + frame[1])
    connection.sendall(frame[2])


def receive(stream: BinaryIO) -> Frame:
    """Raises EOFError when the other side is gone."""
    first, second, size = receive_head(stream)
    return first, second, exactly(stream, size)


def receive_head(stream: BinaryIO) -> tuple[bytes, bytes, int]:
    """All but the last text, and how many bytes that has, which come next. Raises EOFError."""
    first, second, third = _LENGTHS.unpack(exactly(stream, _LENGTHS.size))
    return exactly(stream, first), exactly(stream, second), third


def exactly(stream: BinaryIO, size: int) -> bytes:
    """So many bytes. Raises EOFError when the other side is gone."""
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def dump(value: object, apart: Mapping[str, object]) -> bytes:
    """The value, but for what is sent `apart` from it, by name."""
    file = io.BytesIO()
    _Pickler(file, {id(part): name for name, part in apart.items()}).dump(value)
    return file.getvalue()


def load(data: bytes, apart: Mapping[str, object]) -> Any:
    """The other way round. Only for what a program of ours has dumped."""
    return _Unpickler(io.BytesIO(data), apart).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: BinaryIO, names: Mapping[int, str]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._names = names

    def persistent_id(self, value: object) -> str | None:
        return self._names.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, apart: Mapping[str, object]) -> None:
        super().__init__(file)
        self._apart = apart

    def persistent_load(self, name: str) -> object:
        return self._apart[name]

"""A name server for one name, whose addresses a test changes: RFC 1035, as much of it as a resolver asks for."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_HEADER = struct.Struct("!HHHHHH")
_A = 1
_ANSWERS = 0x8580
"""Flags: a response, authoritative, recursion desired and available, no error."""


class NameServer:
    """Tells `addresses` for whatever it is asked."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    @contextmanager
    def running(self) -> Iterator[NameServer]:
        self._thread.start()
        yield self
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join(10)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, sender = self._socket.recvfrom(512)
            if not query:
                return
            self._socket.sendto(self._answer(query), sender)

    def _answer(self, query: bytes) -> bytes:
        number = _HEADER.unpack_from(query)[0]
        end = query.index(b"\0", _HEADER.size) + 5  # behind the name its type and its class
        question = query[_HEADER.size : end]
        (kind,) = struct.unpack_from("!H", query, end - 4)
        addresses = self.addresses if kind == _A else ()
        # Each record: the name as a pointer to the question's, type, class, seconds that it holds, length, address.
        records = [b"\xc0\x0c" + struct.pack("!HHIH", _A, 1, 0, 4) + socket.inet_aton(each) for each in addresses]
        return b"".join([_HEADER.pack(number, _ANSWERS, 1, len(records), 0, 0), question, *records])

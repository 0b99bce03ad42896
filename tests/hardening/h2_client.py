"""A client that misbehaves by means of HTTP/2: raw frames on a socket, so that nothing keeps it from anything."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import hpack
from hyperframe.frame import HeadersFrame, SettingsFrame

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CHAT = {
    ":method": "POST",
    ":scheme": "http",
    ":authority": "gateway",
    ":path": "/v1/chat/completions",
    "content-type": "application/json",
}


class H2Client:
    """One connection. Bytes are sent at once; what comes back is read only by `receive`."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._encoder = hpack.Encoder()
        self._next = 1
        self.socket.sendall(PREFACE + SettingsFrame(0).serialize())

    def headers(self, fields: Mapping[str, str] = CHAT, *, end_stream: bool = False) -> tuple[int, bytes]:
        """The id of a new stream, and the HEADERS that begin it."""
        number, self._next = self._next, self._next + 2
        frame = HeadersFrame(number, self._encoder.encode(list(fields.items())))
        frame.flags |= {"END_HEADERS", "END_STREAM"} if end_stream else {"END_HEADERS"}
        return number, frame.serialize()

    def open_streams(self, count: int, *, key: str = "", size: int | None = None) -> int:
        """Begin so many requests whose bodies, of that size, never come. Returns the bytes that it took."""
        fields = {**CHAT, "authorization": f"Bearer {key}"} if key else CHAT
        if size is not None:
            fields = {**fields, "content-length": str(size)}
        data = b"".join(self.headers(fields)[1] for _ in range(count))
        self.socket.sendall(data)
        return len(data)

    def close(self) -> None:
        self.socket.close()

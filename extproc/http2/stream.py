"""One stream of a connection, from the server's side: what is known of it while it is open, and what waits to be sent.

Its states are those of RFC 9113, section 5.1: a stream is open, half-closed by the peer (`remote_ended`), or gone from
the connection's table. When the server has ended its side the whole stream is over.
"""

from __future__ import annotations

from collections import deque


class Stream:
    """Sizes are in bytes."""

    __slots__ = (
        "announced",
        "arrived",
        "consumed",
        "extra",
        "id",
        "queue",
        "queued",
        "receive_window",
        "remote_ended",
        "send_window",
        "spoken",
        "trailers",
    )

    def __init__(self, stream_id: int, receive_window: int, send_window: int) -> None:
        self.id = stream_id
        self.receive_window = receive_window
        """What the peer may send."""
        self.send_window = send_window
        """What it takes; below zero when it has shrunk its windows meanwhile."""
        self.consumed = 0
        """What was dealt with, and isn't given back to the peer yet."""
        self.extra = 0
        """What the peer may send beyond the usual window: once consumed, it isn't given back."""
        self.announced: int | None = None
        """The request's content-length,"""
        self.arrived = 0
        """and what has come of its body."""
        self.remote_ended = False
        self.spoken = False
        """The peer has got a word."""
        self.queue: deque[memoryview] = deque()
        """Data that waits for room."""
        self.queued = 0
        self.trailers: bytes | None = None
        """The header block that ends the stream, when it waits behind the data."""

    def next_piece(self, most: int) -> memoryview:
        """Take up to `most` bytes of what waits."""
        piece = self.queue[0]
        if len(piece) > most:
            self.queue[0] = piece[most:]
            piece = piece[:most]
        else:
            self.queue.popleft()
        self.queued -= len(piece)
        self.send_window -= len(piece)
        return piece

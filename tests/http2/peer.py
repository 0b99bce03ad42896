"""A peer that says whatever a test tells it to, to a connection of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from extproc.http2 import Connection, ErrorCode, Event, Limits, RequestBegun, written
from tests.http2.wire import (
    ACK,
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    WINDOW_UPDATE,
    Frame,
    frames_in,
    opened,
    ping,
    settings,
)

OPENING = PREFACE + settings()
ANSWERED = written([(b":status", b"200"), (b"content-type", b"application/grpc")])
ENDED = written([(b"grpc-status", b"0")])

TIGHT = Limits(
    fruitless=200,
    fruitless_per_second=20,
    unanswered_resets=500,
    unanswered_resets_per_second=100,
    window_updates=2000,
    window_updates_per_second=1000,
)
"""A tenth of what is usual."""

Act: TypeAlias = Callable[[Connection], object]
"""What the server does of its own accord."""


def answer(stream: int) -> Act:
    """With a header section alone, which ends the stream."""
    return lambda connection: connection.respond(stream, ENDED, end=True)


class Peer:
    """Has said its preface and settings, unless `opening` is something else."""

    def __init__(self, limits: Limits = Limits(), *, opening: bytes = OPENING) -> None:  # noqa: B008  # frozen
        self.connection = Connection(limits)
        self.now = 0.0
        self.told: list[Event] = []
        self.say(opening)

    def say(self, *pieces: bytes) -> list[Event]:
        """In one piece; returns what the connection tells of it."""
        told = self.connection.receive(b"".join(pieces), self.now)
        self.told += told
        return told

    def heard(self) -> list[Frame]:
        """All that the connection has to say by now."""
        return frames_in(b"".join(self._output()))

    def _output(self) -> Iterator[bytes]:
        while piece := self.connection.output():
            yield piece

    def begin(self, *streams: int) -> None:
        """Requests whose bodies are still to come, and whose answers have begun."""
        for stream in streams:
            [event] = self.say(opened(stream))
            assert isinstance(event, RequestBegun)
            self.connection.respond(stream, ANSWERED)
        self.heard()

    def is_served(self) -> bool:
        """Nothing is broken: a ping is answered."""
        self.say(ping(b"are you?"))
        return Frame(PING, ACK, 0, b"are you?") in self.heard()

    def verdict(self) -> ErrorCode | None:
        """With which error the connection has ended; None if it goes on. What it says and what it is agree."""
        codes = [frame.code for frame in self.heard() if frame.kind == GOAWAY and frame.code]
        fault = self.connection.fault
        assert self.connection.closed == (fault is not None)
        assert codes == ([] if fault is None else [fault.code])
        return None if fault is None else fault.code


def body_of(frames: list[Frame], stream: int) -> bytes:
    return b"".join(frame.payload for frame in frames if frame.stream == stream and frame.kind == DATA)


def resets(frames: list[Frame]) -> list[tuple[int, int]]:
    return [(frame.stream, frame.code) for frame in frames if frame.kind == RST_STREAM]


def room(frames: list[Frame], stream: int) -> int:
    """What WINDOW_UPDATE frames give to a stream, or to the connection."""
    updates = (frame for frame in frames if frame.kind == WINDOW_UPDATE and frame.stream == stream)
    return sum(int.from_bytes(frame.payload, "big") for frame in updates)


def kinds(frames: list[Frame], *, of: tuple[int, ...] = (DATA, HEADERS, CONTINUATION, RST_STREAM)) -> list[int]:
    return [frame.kind for frame in frames if frame.kind in of]

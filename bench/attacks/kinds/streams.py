"""Streams that are asked for and then held: what they take is a backend's room, and buffers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import ClassVar

from bench.attacks.attack import READ, Attack, Needs
from bench.attacks.backends import STALLING
from tests.attacks import bodies, http1
from tests.attacks.h2_frames import HEADERS, Frames, Heads, chat_fields, data, opening, settings_ack, streams


class HeldStreams(Attack):
    """As many streams as the backend may have under way, of a model that says little."""

    name = "held-streams"
    means = "one key; 48 slow streams with tools held open (the backend's max_requests is 48)"
    needs = Needs(max_requests=48)
    count: ClassVar[int] = 48

    async def run(self) -> None:
        body = bodies.chat("coder", STALLING, stream=True)
        request = http1.head(length=len(body), key=self.target.key) + body

        async def once(_: int) -> None:
            async with self.connection() as (reader, writer):
                await self.send(writer, request)
                self.tally.requests += 1
                await self.answer(reader)

        await self.together(self.count, once, pause=0.5)


class HeldStreams20(HeldStreams):
    """20 only, which leave the honest clients nothing but what is left of 40."""

    name = "held-streams-20"
    means = "one key; 20 slow streams with tools held open (the backend's max_requests is 40)"
    needs = Needs(max_requests=40)
    count = 20


class HeldStreamsMany(HeldStreams):
    """The same with the default of `max_requests`."""

    name = "held-streams-1024"
    means = "one key; 1,024 slow streams with tools held open (max_requests at its default, 1,024)"
    needs = Needs()
    count = 1024


class StalledReaders(Attack):
    """Streams of a fast backend that nobody reads."""

    name = "stalled-readers"
    means = "one key; 6 streams with tools of a fast backend (256 MB each), of which nothing is read"
    readers: ClassVar[int] = 6
    tools: ClassVar[bool] = True

    async def run(self) -> None:
        body = bodies.chat("fast", tools=self.tools, stream=True)
        request = http1.head(length=len(body), key=self.target.key) + body
        loop = asyncio.get_running_loop()
        held = []
        try:
            for _ in range(self.readers):
                connection = socket.socket()
                connection.setblocking(False)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # So that nothing is read ahead.
                held.append(connection)
                await loop.sock_connect(connection, (self.target.host, self.target.port))
                self.tally.connections += 1
                await loop.sock_sendall(connection, request)
                self.tally.sent += len(request)
                self.tally.requests += 1
            await asyncio.Event().wait()
        finally:
            for connection in held:
                with contextlib.suppress(OSError):
                    self.tally.answers[http1.status(connection.recv(32))] += 1
                connection.close()


class StalledReadersWithoutTools(StalledReaders):
    """The same without tools, which the processor doesn't read."""

    name = "stalled-readers-plain"
    means = "one key; 6 streams without tools of a fast backend (256 MB each), of which nothing is read"
    tools = False


class StalledReaders2(Attack):
    """The same on one HTTP/2 connection, whose windows are shut."""

    name = "stalled-readers-h2"
    means = "one key; 1 HTTP/2 connection with windows of 0, 6 streams with tools of a fast backend (256 MB each)"

    async def run(self) -> None:
        body = bodies.chat("fast", stream=True)

        async def once(_: int) -> None:
            async with self.connection() as (reader, writer):
                heads = Heads(chat_fields(self.target.key, len(body)))
                asked = b"".join(heads.head(stream) + data(stream, body, end=True) for stream in streams(6))
                await self.send(writer, opening(window=0) + settings_ack() + asked)
                self.tally.requests += 6
                frames = Frames()
                while received := await reader.read(READ):
                    self.tally.answers["answered"] += sum(kind == HEADERS for kind, *_ in frames.feed(received))

        await self.together(1, once, pause=1.0)


ATTACKS = (
    HeldStreams,
    HeldStreams20,
    HeldStreamsMany,
    StalledReaders,
    StalledReadersWithoutTools,
    StalledReaders2,
)

"""More requests than can be served, at a few thousand a second: all small."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from typing import ClassVar

from bench.attacks.attack import READ, Attack, Needs
from tests.attacks import bodies, http1
from tests.attacks.h2_frames import (
    END_STREAM,
    HEADERS,
    RST_STREAM,
    Frames,
    Heads,
    chat_fields,
    data,
    opening,
    settings_ack,
    window_update,
)


class _Flood(Attack):
    """One request after the other on each of some connections, no more than `rate` a second in all."""

    connections: ClassVar[int] = 1000
    """Each waits for its answer: so many are under way at most, and in a gateway that can't keep up they are."""
    rate: ClassVar[float] = 3000

    def requests(self) -> list[bytes]:
        """What is sent in turn; each is a whole request."""
        raise NotImplementedError

    async def run(self) -> None:
        requests = itertools.cycle(self.requests())
        pause = self.connections / self.rate

        async def once(_: int) -> None:
            async with self.connection() as (reader, writer):
                while True:
                    begun = time.monotonic()
                    await self.send(writer, next(requests))
                    self.tally.requests += 1
                    await self.answer(reader)
                    await asyncio.sleep(begun + pause - time.monotonic())

        await self.together(self.connections, once, pause=pause)


class WithoutKey(_Flood):
    """Chat completions without a key, each of which is a 401."""

    name = "flood-no-key"
    means = "no key; 1,000 connections, up to 3,000 requests a second of 300 bytes"

    def requests(self) -> list[bytes]:
        body = bodies.chat("quick")
        return [http1.head(length=len(body)) + body]


class WithKey(_Flood):
    """Chat completions with tools and a key, as many as 1,000 connections get answered."""

    name = "flood-key"
    means = "one key; 1,000 connections, up to 3,000 requests a second of 300 bytes"

    def requests(self) -> list[bytes]:
        body = bodies.chat("quick")
        return [http1.head(length=len(body), key=self.target.key) + body]


class Open(_Flood):
    """The same where nobody asks for keys."""

    name = "flood-open"
    means = "gateway without keys; 1,000 connections, up to 3,000 requests a second of 300 bytes"
    needs = Needs(keys=False)

    def requests(self) -> list[bytes]:
        body = bodies.chat("quick")
        return [http1.head(length=len(body)) + body]


class _Flood2(Attack):
    """The same with HTTP/2: so many at once on each of a few connections."""

    connections: ClassVar[int] = 30
    at_once: ClassVar[int] = 100
    rate: ClassVar[float] = 3000
    with_key: ClassVar[bool] = False

    async def run(self) -> None:
        body = bodies.chat("quick")

        async def once(_: int) -> None:
            async with self.connection() as (reader, writer):
                heads = Heads(chat_fields(self.target.key if self.with_key else None, len(body)))
                answered = asyncio.Semaphore(self.at_once)
                reading = asyncio.create_task(self._count(reader, answered))
                try:
                    await self.send(writer, opening() + settings_ack() + window_update(0, 1 << 30))
                    for stream in itertools.count(1, 2):
                        begun = time.monotonic()
                        await answered.acquire()
                        if reading.done():
                            break
                        await self.send(writer, heads.head(stream) + data(stream, body, end=True))
                        self.tally.requests += 1
                        await asyncio.sleep(begun + self.connections / self.rate - time.monotonic())
                finally:
                    reading.cancel()

        await self.together(self.connections, once)

    async def _count(self, reader: asyncio.StreamReader, answered: asyncio.Semaphore) -> None:
        frames = Frames()
        with contextlib.suppress(OSError):
            while received := await reader.read(READ):
                for kind, flags, _, _ in frames.feed(received):
                    if kind == RST_STREAM:
                        self.tally.answers["reset"] += 1
                        answered.release()
                    elif kind == HEADERS:
                        self.tally.answers["answered"] += 1
                    if kind in (0, HEADERS) and flags & END_STREAM:
                        answered.release()
        self.tally.answers["closed"] += 1
        answered.release()


class WithoutKey2(_Flood2):
    name = "flood-no-key-h2"
    means = "no key; 30 HTTP/2 connections, 100 requests at once on each, up to 3,000 a second"


class WithKey2(_Flood2):
    name = "flood-key-h2"
    means = "one key; 30 HTTP/2 connections, 100 requests at once on each, up to 3,000 a second"
    with_key = True


class Oddities(_Flood):
    """Requests that no client of this API makes: each has to be answered, and no answer may be a fault of ours."""

    name = "oddities"
    means = "no key and one key; 64 connections: upgrades, CONNECT, TRACE, gRPC, Expect; up to 1,000 a second"
    connections = 64
    rate = 1000

    async def run(self) -> None:
        requests = itertools.cycle(self.requests())
        pause = self.connections / self.rate

        async def once(_: int) -> None:
            async with self.connection() as (reader, writer):
                await self.send(writer, next(requests))
                self.tally.requests += 1
                await asyncio.wait_for(self.answer(reader, bodiless=True), 5)

        await self.together(self.connections, once, pause=pause)

    def requests(self) -> list[bytes]:
        body = bodies.chat("quick")
        made = []
        for key in (None, self.target.key):
            made += [
                http1.head(
                    method="GET", key=key, connection="upgrade", upgrade="websocket", sec_websocket_version="13"
                ),
                http1.head(length=len(body), key=key, connection="upgrade", upgrade="websocket") + body,
                http1.head("gateway:443", method="CONNECT", key=key),
                http1.head(method="TRACE", key=key),
                http1.head("/v1/models", method="TRACE", key=key),
                http1.head("/v1/models", method="BREW", key=key),
                http1.head(key=key, content_type="application/grpc", te="trailers", content_length="5") + bytes(5),
                http1.head(length=len(body), key=key, expect="100-continue") + body,
                http1.head(length=len(body), key=key, expect="something-else") + body,
            ]
        return made


ATTACKS = (WithoutKey, WithKey, Open, WithoutKey2, WithKey2, Oddities)

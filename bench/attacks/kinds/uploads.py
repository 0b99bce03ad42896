"""Large bodies that stop just before their end: whoever buffers them pays."""

from __future__ import annotations

import asyncio
import contextlib
from typing import ClassVar

from bench.attacks.attack import BODY_LIMIT, READ, Attack, Needs
from tests.attacks import http1
from tests.attacks.bodies import unfinished
from tests.attacks.h2_frames import (
    HEADERS,
    MAX_FRAME,
    WINDOW_UPDATE,
    Frames,
    Heads,
    chat_fields,
    data,
    opening,
    settings_ack,
    streams,
)

_SHORT = 1024
"""Bytes that never come."""


class StalledUploads(Attack):
    """75 bodies of 16 MB, each without its last kilobyte."""

    name = "uploads-key"
    means = "one key; 75 uploads of 16 MB (1.2 GB in all) that stop before their end"
    uploads: ClassVar[int] = 75
    with_key: ClassVar[bool] = True

    async def run(self) -> None:
        body = unfinished("coder", BODY_LIMIT - _SHORT)
        head = http1.head(length=BODY_LIMIT - 1, key=self.target.key if self.with_key else None)

        async def once(_: int) -> None:
            async with self.connection() as (reader, writer):
                reading = asyncio.create_task(reader.read(READ))
                sending = asyncio.create_task(self._upload(writer, head, body))
                try:
                    answer = await reading  # It stalls here, until somebody answers or hangs up.
                except OSError:
                    answer = b""
                finally:
                    sending.cancel()
                    reading.cancel()
                self.tally.answers[http1.status(answer)] += 1

        # A refused one comes again after a second: 75 a second are no flood.
        await self.together(self.uploads, once, pause=1.0)

    async def _upload(self, writer: asyncio.StreamWriter, head: bytes, body: bytes) -> None:
        with contextlib.suppress(OSError):
            await self.send(writer, head)
            await self.send(writer, body)
            self.tally.requests += 1


class StalledUploadsOpen(StalledUploads):
    """The same where nobody asks for keys."""

    name = "uploads-open"
    means = "gateway without keys; 75 uploads of 16 MB that stop before their end"
    needs = Needs(keys=False)
    with_key = False


class StalledUploadsWithoutKey(StalledUploads):
    """The same without a key, where keys are asked for."""

    name = "uploads-no-key"
    means = "no key; 75 uploads of 16 MB that stop before their end"
    with_key = False


class HalfBodies(Attack):
    """Many HTTP/2 streams on each of a few connections, each with half of a large body."""

    name = "h2-half-bodies"
    means = "one key; 20 HTTP/2 connections, 100 streams on each with 600 kB of a body (1.2 GB in all)"
    connections: ClassVar[int] = 20
    streams: ClassVar[int] = 100

    async def run(self) -> None:
        piece = unfinished("coder", 600_000)

        async def once(_: int) -> None:
            async with self.connection() as (reader, writer):
                window = _Window()
                reading = asyncio.create_task(self._watch(reader, window))
                try:
                    heads = Heads(chat_fields(self.target.key, 2 * len(piece)))
                    await self.send(writer, opening() + settings_ack())
                    for stream in streams(self.streams):
                        await self.send(writer, heads.head(stream))
                        for at in range(0, len(piece), MAX_FRAME):
                            part = piece[at : at + MAX_FRAME]
                            await window.take(len(part))
                            await self.send(writer, data(stream, part))
                        self.tally.requests += 1
                    await reading
                finally:
                    reading.cancel()
                    self.tally.answers["closed"] += 1

        await self.together(self.connections, once, pause=1.0)

    async def _watch(self, reader: asyncio.StreamReader, window: _Window) -> None:
        frames = Frames()
        with contextlib.suppress(OSError):
            while received := await reader.read(READ):
                for kind, _, stream, payload in frames.feed(received):
                    if kind == WINDOW_UPDATE and stream == 0:
                        window.grow(int.from_bytes(payload, "big"))
                    elif kind == HEADERS:
                        self.tally.answers["answered"] += 1
        window.grow(1 << 40)  # Nobody waits for a connection that is gone: writing to it fails.


class _Window:
    """How much the connection may still be sent; a gateway closes one that sends more."""

    def __init__(self) -> None:
        self._left = 65_535
        self._grown = asyncio.Event()

    def grow(self, size: int) -> None:
        self._left += size
        self._grown.set()

    async def take(self, size: int) -> None:
        while self._left < size:
            self._grown.clear()
            await self._grown.wait()
        self._left -= size


ATTACKS = (StalledUploads, StalledUploadsOpen, StalledUploadsWithoutKey, HalfBodies)

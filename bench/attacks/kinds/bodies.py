"""Whole requests, and answers, that cost far more to read than to send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from bench.attacks.attack import BODY_LIMIT, Attack, Needs
from tests.attacks import bodies, http1


class _Bodies(Attack):
    """The same body, so many at once, again as soon as it is answered."""

    make: ClassVar[Callable[[str, int], bytes]]
    size: ClassVar[int] = BODY_LIMIT
    at_once: ClassVar[int] = 12

    async def run(self) -> None:
        body = type(self).make("quick", self.size)
        head = http1.head(length=len(body), key=self.target.key)

        async def once(_: int) -> None:
            async with self.connection() as (reader, writer):
                sending = asyncio.create_task(self._send(writer, head, body))
                try:
                    await self.answer(reader)
                finally:
                    sending.cancel()

        await self.together(self.at_once, once, pause=0.5)

    async def _send(self, writer: asyncio.StreamWriter, head: bytes, body: bytes) -> None:
        try:
            await self.send(writer, head)
            await self.send(writer, body)
        except OSError:
            return  # Refused before its end: the answer says so.
        self.tally.requests += 1


class Nested(_Bodies):
    """Arrays 190 deep, one after the other."""

    name = "nested"
    means = "one key; 12 bodies of 16 MB at once, arrays nested 190 deep"
    make = bodies.nested


class NestedLarge(_Bodies):
    """One of 30 MB, where `max_body_bytes` has its default of 32 MiB."""

    name = "nested-30mb"
    means = "one key; 1 body of 30 MB at a time, arrays nested 190 deep (max_body_bytes 32 MiB)"
    needs = Needs(max_body_bytes=33_554_432)
    make = bodies.nested
    size = 30_000_000
    at_once = 1


class TinyValues(_Bodies):
    """Millions of empty objects."""

    name = "tiny-values"
    means = "one key; 4 bodies of 16 MB at once, each 5.5 million empty objects"
    make = bodies.tiny_values
    at_once = 4


class UniqueKeys(_Bodies):
    """Objects with a million keys."""

    name = "unique-keys"
    means = "one key; 4 bodies of 16 MB at once, each 1.6 million different keys"
    make = bodies.unique_keys
    at_once = 4


class HugeStrings(_Bodies):
    """One string of nothing but escapes."""

    name = "huge-strings"
    means = "one key; 12 bodies of 16 MB at once, each a single string of escapes"
    make = bodies.huge_string


class CompressedStream(Attack):
    """A backend answers with 100 MB of events in 100 kB of gzip."""

    name = "gzip-stream"
    means = "a backend; 4 streams with tools at once, each 100 MB of events compressed to 100 kB"

    async def run(self) -> None:
        body = bodies.chat("bomb", stream=True)
        request = http1.head(length=len(body), key=self.target.key) + body

        async def once(_: int) -> None:
            async with self.connection() as (reader, writer):
                await self.send(writer, request)
                self.tally.requests += 1
                await self.answer(reader)

        await self.together(4, once, pause=0.5)


ATTACKS = (Nested, NestedLarge, TinyValues, UniqueKeys, HugeStrings, CompressedStream)

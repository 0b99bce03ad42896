"""Connections that do nothing, or hardly anything: what they take are descriptors, and buffers."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from bench.attacks.attack import Attack, Needs
from tests.attacks import http1
from tests.attacks.openings import Connections


class _Held(Attack):
    """So many connections, opened again when they are closed."""

    count: ClassVar[int]
    first: ClassVar[bytes] = b""
    """What each says at first."""
    each_second: ClassVar[bytes] = b""
    """What each says once a second."""
    reopened: ClassVar[int] = 200
    """How many are opened again in a second, at most."""

    async def run(self) -> None:
        held = Connections(self.target.host, self.target.port)
        try:
            await self._open(held, self.count)
            while True:
                await asyncio.sleep(1)
                self.tally.answers["closed"] += held.drop_closed()
                if self.each_second:
                    self.tally.sent += held.write(self.each_second)
                await self._open(held, min(self.reopened, self.count - len(held)))
        finally:
            held.close()

    async def _open(self, held: Connections, count: int) -> None:
        before = held.opened, held.refused
        known = set(held)
        await held.open(count)
        self.tally.connections += held.opened - before[0]
        self.tally.refused += held.refused - before[1]
        if self.first:
            for connection in held:
                if connection not in known:
                    self.tally.sent += connection.send(self.first)


class IdleFew(_Held):
    """As many silent connections as `ulimit -n` is high, a little less."""

    name = "idle-980"
    means = "no key; 980 silent connections, under `ulimit -n 1024`"
    needs = Needs(nofile=1024)
    count = 980


class IdleMany(_Held):
    """5,000 silent connections where there is room for them."""

    name = "idle-5000"
    means = "no key; 5,000 silent connections"
    count = 5000


class NoHandshake(_Held):
    """Connections to a TLS listener that never say hello."""

    name = "tls-no-handshake"
    means = "no key; 980 connections to a TLS listener without a handshake, under `ulimit -n 1024`"
    needs = Needs(tls=True, nofile=1024)
    count = 980


class SlowHeaders(_Held):
    """Heads that come a line a second and never end (slowloris)."""

    name = "slow-headers"
    means = "no key; 900 connections under `ulimit -n 1024`, each a header line a second"
    needs = Needs(nofile=1024)
    count = 900
    first = http1.head(length=100)[:-2]
    each_second = b"x-slow: 1\r\n"


class SlowBodies(_Held):
    """Bodies that come a byte a second."""

    name = "slow-bodies"
    means = "no key; 900 connections under `ulimit -n 1024`, each a byte of its body a second"
    needs = Needs(nofile=1024)
    count = 900
    first = http1.head(length=1_000_000) + b"{"
    each_second = b" "


class SlowBodiesOpen(SlowBodies):
    """The same where nobody asks for keys, so that each gets as far as the processor."""

    name = "slow-bodies-open"
    means = "gateway without keys; 900 connections under `ulimit -n 1024`, each a byte of its body a second"
    needs = Needs(keys=False, nofile=1024)


ATTACKS = (IdleFew, IdleMany, NoHandshake, SlowHeaders, SlowBodies, SlowBodiesOpen)

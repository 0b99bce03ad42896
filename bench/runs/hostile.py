"""What others notice while characters do harm: the time between two words of streams at an ordinary pace.

Windows with one kind of harm, called again and again, alternate with windows without.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from bench.runs.characters import clock
from bench.runs.client import Connection, asks
from bench.runs.gateway import Gateway

DIRECT = "past"
"""A stream past the gateway: what the machine does to it by itself."""
STREAMS: Mapping[str, int] = {DIRECT: 2, "plain": 2, "tools": 3, "character": 3}
"""How many of which kind: without tools, with tools, for which the processor reads it, and by way of the runner."""
CALLERS = 2
"""Who call for harm at the same time, each as soon as it has its answer: one for each core."""
_WORDS = 100
_SETTLE = 0.3
"""Seconds that count for neither window."""
_APART = 0.037
"""Seconds from the beginning of one stream to that of the next."""
NOTHING, HARMLESS, RIGHT = "nothing", "harmless", "right"
TIMED_OUT, CRASHED = "Tool execution timed out", "Tool crashed"
KINDS: Mapping[str, tuple[str, ...]] = {
    NOTHING: (),
    HARMLESS: ("fine",),
    "endless_loop": (TIMED_OUT,),
    "fork_bomb": ("Operation not permitted",),
    "allocation": ("Tool ran out of memory",),
    "recursion": ("maximum recursion depth exceeded",),
    "stack_overflow": (CRASHED,),
    "exit_at_once": (CRASHED,),
    "write_loop": (TIMED_OUT,),
    "self_stop": (TIMED_OUT,),
    "million_prints": (TIMED_OUT, "printed"),
    "huge_result": ("x... [cut]",),
}
"""What its calls have to come to."""


Gaps: TypeAlias = dict[str, list[float]]
"""Milliseconds between two words, by the kind of stream."""


def _gaps() -> Gaps:
    return {name: [] for name in STREAMS}


@dataclass(slots=True)
class Harm:
    """What one kind of it has done."""

    without: list[Gaps] = field(default_factory=list)
    during: list[Gaps] = field(default_factory=list)
    """Of each window."""
    answers: Counter[str] = field(default_factory=Counter)
    """To its calls; all that are as they should be are one."""


class Streams:
    """Streams that begin anew all the time."""

    def __init__(self, gateway: Gateway) -> None:
        self._gaps = _gaps()
        said = f"Say {_WORDS} words"
        ways = {
            DIRECT: (gateway.backend, asks("coder", said)),
            "plain": (gateway.port, asks("coder", said)),
            "tools": (gateway.port, asks("coder", said, tools=clock.TOOLS)),
            "character": (gateway.port, asks("character/teller", said)),
        }
        asked = [(name, *ways[name]) for name, number in STREAMS.items() for _ in range(number)]
        self._tasks = [asyncio.create_task(self._go_on(*each, number)) for number, each in enumerate(asked)]

    def take(self) -> Gaps:
        """Where gaps go from now on. Raises what has ended a stream."""
        for task in self._tasks:
            if task.done():
                task.result()
        self._gaps = _gaps()
        return self._gaps

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def _go_on(self, name: str, port: int, body: bytes, number: int) -> None:
        connection = Connection(port)
        await asyncio.sleep(number * _APART)
        try:
            while True:
                last, words = 0.0, 0
                async for piece in connection.pieces(body):
                    if not (together := piece.count(b'" word"')):
                        continue
                    now = time.perf_counter()
                    if words:  # those that came together have no time between them
                        self._gaps[name] += [(now - last) * 1e3] + [0.0] * (together - 1)
                    last = now
                    words += together
                assert words == _WORDS, f"a stream had {words} words"
        finally:
            await connection.close()


async def harms(
    gateway: Gateway, kinds: Sequence[str], seconds: float, rounds: int, told: Callable[[str], None]
) -> Mapping[str, Harm]:
    """Each kind in so many windows of so many seconds."""
    seen = {kind: Harm() for kind in kinds}
    streams = Streams(gateway)
    await asyncio.sleep(2)
    try:
        for number in range(rounds):
            for kind, harm in seen.items():
                told(f"{number + 1}/{rounds} {kind}")
                harm.without.append(streams.take())
                await asyncio.sleep(seconds)
                harm.during.append(streams.take())
                await _harm(gateway, kind, seconds, harm.answers)
                streams.take()
                await asyncio.sleep(_SETTLE)
    finally:
        await streams.close()
    return seen


async def _harm(gateway: Gateway, kind: str, seconds: float, answers: Counter[str]) -> None:
    until = time.perf_counter() + seconds
    if kind == NOTHING:
        await asyncio.sleep(seconds)
        return
    arguments = json.dumps({"kind": kind})
    body = asks("character/hostile", f"Call harm {arguments}")

    async def call() -> None:
        connection = Connection(gateway.port)
        while time.perf_counter() < until:
            answer = await connection.text(body)
            answers[RIGHT if any(expected in answer for expected in KINDS[kind]) else answer[:200]] += 1
        await connection.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(call())

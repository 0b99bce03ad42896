"""Every stop of the event loop is seen, and an idle one is no stop."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Coroutine

from extproc.server.loop_lag import LoopLag

STOP = 0.02
LONG = 10 * STOP
"""Longer than a busy machine keeps the loop from its core."""


def rounds(work: Coroutine[None, None, None]) -> list[float]:
    """How long each round of a loop took that ran this."""
    lag, told = LoopLag(), list[float]()
    lag.tell = told.append
    lag.run(work)
    return told


def stop(seconds: float = STOP) -> None:
    """As whatever takes long does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def test_what_takes_long_is_one_long_round() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(stop, LONG)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert sum(seconds >= LONG for seconds in rounds(main())) == 1


def test_what_many_do_in_one_round_comes_together() -> None:
    async def main() -> None:
        for _ in range(3):
            asyncio.get_running_loop().call_soon(stop)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert max(rounds(main())) >= 3 * STOP


def test_to_wait_is_no_stop() -> None:
    async def main() -> None:
        await asyncio.sleep(50 * STOP)

    assert sum(rounds(main())) < 25 * STOP


def test_to_stand_still_while_it_waits_is_one() -> None:
    """As a process does that gets no core: a signal's handler does the same to one that waits for its selector."""

    async def main() -> None:
        signal.setitimer(signal.ITIMER_REAL, STOP / 4)
        await asyncio.sleep(STOP / 2)

    before = signal.signal(signal.SIGALRM, lambda *_: stop())
    try:
        assert max(rounds(main())) >= STOP / 2
    finally:
        signal.signal(signal.SIGALRM, before)


def test_what_comes_while_it_gathers_comes_together() -> None:
    """And to gather is no stop."""
    lag, told, heard = LoopLag(), list[float](), list[bytes]()
    lag.tell = told.append

    async def main() -> None:
        loop = asyncio.get_running_loop()
        mine, other = socket.socketpair()
        with mine, other:
            mine.setblocking(False)
            loop.add_reader(mine, lambda: heard.append(mine.recv(100)))
            lag.gather = lambda: LONG
            writer = threading.Thread(target=write, args=(other,))
            writer.start()
            await asyncio.to_thread(writer.join)
            while sum(map(len, heard)) < PIECES:  # noqa: ASYNC110  # what is waited for is the loop's own reading
                await asyncio.sleep(2 * LONG)
            for _ in range(4):
                await asyncio.sleep(1.5 * LONG)
            lag.gather = None
            loop.remove_reader(mine)

    def write(other: socket.socket) -> None:
        for _ in range(PIECES):
            other.send(b"x")

    lag.run(main())
    assert len(heard) < PIECES
    assert sum(each >= LONG for each in told) <= 1  # the machine may have stood still


PIECES = 50


def test_a_timer_that_is_due_sooner_is_not_kept_waiting() -> None:
    lag, asked = LoopLag(), list[None]()

    def gather() -> float:
        asked.append(None)
        return 60.0

    async def main() -> None:
        lag.gather = gather
        await asyncio.sleep(STOP)
        lag.gather = None

    lag.run(main())
    assert asked

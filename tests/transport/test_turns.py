"""The loop's thread is shared: nobody keeps it, and nobody goes before who waits."""

from __future__ import annotations

import asyncio
import time

from extproc.transport import Turns
from extproc.transport.turns import SLICE


def busy(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_the_loop_looks_round_after_each_slice() -> None:
    async def main() -> list[int]:
        turns, done, looks = Turns(), list[int](), list[int]()

        def work(number: int) -> None:
            busy(SLICE / 2)
            done.append(number)

        for number in range(20):
            turns.later(lambda number=number: work(number))  # type: ignore[misc]
        while len(done) < 20:
            await asyncio.sleep(0)
            looks.append(len(done))
        assert done == list(range(20))
        return looks

    looks = asyncio.run(main())
    steps = [after - before for before, after in zip([0, *looks], looks, strict=False)]
    assert max(steps) <= 3  # two halves, and the one in which the slice ends


def test_who_used_up_the_slice_out_of_turn_lets_the_others_go_first() -> None:
    async def main() -> None:
        turns = Turns(lambda: 0.0)
        assert turns.free
        turns.spent(SLICE / 2)
        assert turns.free
        turns.spent(SLICE)
        assert not turns.free
        await turns.turn()
        assert turns.free

    asyncio.run(main())


def test_what_fails_takes_nobody_elses_turn() -> None:
    async def main() -> tuple[list[str], list[BaseException]]:
        turns, done, told = Turns(), list[str](), list[BaseException]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

        def fail() -> None:
            raise ValueError

        turns.later(lambda: done.append("first"))
        turns.later(fail)
        turns.later(lambda: done.append("last"))
        await turns.turn()
        return done, told

    done, told = asyncio.run(main())
    assert done == ["first", "last"]
    assert [type(error) for error in told] == [ValueError]

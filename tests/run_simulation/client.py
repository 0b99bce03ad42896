"""Who reads the answer of a run."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from extproc.runner.driver import Driver
from extproc.runner.steps import End, Step
from tests.run_simulation.chance import SLACK, Chance
from tests.run_simulation.world import World
from tests.simulation.checking import check


@dataclass(frozen=True, slots=True)
class Visit:
    """What the client does."""

    leaves_at: float | None
    leaves_after: int | None
    """So many steps."""
    pauses: list[float]
    """Behind each step, over and over."""


class Client:
    """Reads the answer, as fast and as long as it likes."""

    def __init__(self, world: World, visit: Visit) -> None:
        self._world = world
        self._visit = visit
        self._pauses = itertools.cycle(visit.pauses or [0.0])
        self.steps: list[Step] = []
        self.left: float | None = None
        """When it left before the end."""

    async def read(self, driver: Driver) -> None:
        """Raises CancelledError when it leaves in the middle of something."""
        loop = asyncio.get_running_loop()
        reading = asyncio.current_task()
        assert reading is not None
        going = None if self._visit.leaves_at is None else loop.call_later(self._visit.leaves_at, self._go, reading)
        async with aclosing(driver.steps()) as coming:
            seen = loop.time()
            async for step in coming:
                waited = loop.time() - seen
                most = self._world.limits.keep_alive_seconds + SLACK
                check(waited <= most, f"the client sees nothing for {waited} s")
                if isinstance(step, Step):
                    self._take(step)
                if self._visit.leaves_after is not None and len(self.steps) >= self._visit.leaves_after:
                    self._leave()
                    break
                if (pause := next(self._pauses)) and self._world.over is None:
                    await asyncio.sleep(pause)
                seen = loop.time()
        if going is not None:
            going.cancel()

    @property
    def end(self) -> End | None:
        """That it has seen."""
        return self.steps[-1].end if self.steps else None

    def _take(self, step: Step) -> None:
        check(self.end is None, "a step comes behind the last")
        self.steps.append(step)
        if step.end is not None:
            self._world.over = asyncio.get_running_loop().time()

    def _go(self, reading: asyncio.Task[Any]) -> None:
        self._leave()
        reading.cancel()

    def _leave(self) -> None:
        self._world.log("the client leaves")
        if self._world.over is None:
            self._world.over = self.left = asyncio.get_running_loop().time()


def draw_visit(chance: Chance) -> Visit:
    draw = chance.random
    leaves = draw.random()
    pauses = [draw.choice([0.0, 0.001, 0.2, 2.0]) for _ in range(3)] if draw.random() < 0.25 else []
    return Visit(
        leaves_at=draw.choice([0.0, 0.01, draw.random(), draw.random() * 10]) if leaves < 0.15 else None,
        leaves_after=draw.randint(1, 8) if 0.15 <= leaves < 0.25 else None,
        pauses=pauses,
    )

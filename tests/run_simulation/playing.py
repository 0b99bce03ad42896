"""A run from its beginning to its end, and many of them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass

from extproc.runner.driver import TO_END, Driver
from extproc.runner.steps import Complete, Gone
from tests.run_simulation.chance import LET_GO, SLACK
from tests.run_simulation.client import Client, draw_visit
from tests.run_simulation.judging import (
    check_all_ended,
    check_answer,
    check_conversation,
    check_end,
    check_tools,
    check_usage,
)
from tests.run_simulation.watched import Watched
from tests.run_simulation.world import Log, World
from tests.simulation.checking import WrongError, check
from tests.simulation.virtual_time import VirtualLoop, virtual_time


@dataclass(slots=True)
class Outcome:
    """What a run came to."""

    seed: int
    end: str
    rounds: int
    tools: int
    steps: int


def simulate(seed: int, loop: VirtualLoop, log: Log | None = None) -> Outcome:
    """Play one run. Raises WrongError, which names the seed."""
    loop.begin()
    world = World(seed, log)
    drivers = logging.getLogger("extproc.runner.driver")
    was_disabled, drivers.disabled = drivers.disabled, True  # it tells of each of the world's bugs
    try:
        return loop.run_until_complete(_play(seed, world))
    except Exception as error:
        error.add_note(f"to see it again: python -m tests.run_simulation --seed {seed}")
        raise WrongError(f"seed {seed}: {error}") from error
    finally:
        drivers.disabled = was_disabled


async def _play(seed: int, world: World) -> Outcome:
    visit = draw_visit(world.chance)
    run = Watched(world, slow=bool(visit.pauses))
    driver = Driver(
        run,
        world,
        {name: world.source(name) for name in ("dice", "web")},
        world.tool_ran,
        seconds=world.limits.seconds,
        keep_alive=world.limits.keep_alive_seconds,
    )
    world.log(f"{world.limits}, tokens={world.tokens}, {visit}")
    client = Client(world, visit)
    loop = asyncio.get_running_loop()
    reading = loop.create_task(client.read(driver))
    await asyncio.wait([reading])
    if not reading.cancelled():
        reading.result()
    seconds = loop.time()
    most = world.limits.seconds + max(visit.pauses, default=0.0) if client.left is None else client.left
    check(seconds <= most + TO_END + LET_GO + SLACK, f"it took {seconds} s, and not {most}")
    check_all_ended(world)
    check_tools(world, run)
    check_conversation(world)
    complete = isinstance(client.end, Complete)
    check_usage(world, run, complete=complete)
    check_answer(world, run, client.steps, complete=complete)
    if client.left is None:
        check(run.ends == 1, f"{run.ends} ends")
    end = check_end(world, run, client.end if client.left is None else Gone(), seconds)
    return Outcome(seed, end, run.rounds, world.begun_tools, len(client.steps))


def many(seeds: range) -> Counter[str]:
    """How many runs ended in which way."""
    ends = Counter[str]()
    with virtual_time() as loop:
        for seed in seeds:
            ends[simulate(seed, loop).end] += 1
    return ends

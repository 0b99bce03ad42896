"""All that a run meets, and what it did."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TypeAlias

from extproc.config import Runs
from extproc.contract.errors import ApiError
from extproc.runner.driver import ToolRun
from extproc.runner.reading import RoundReader
from extproc.runner.steps import AskModel, ModelEnded, ModelSaid
from extproc.runner.tools import ToolResult
from tests.run_simulation.chance import LET_GO, OURS, RUN, SLACK, Chance, Json
from tests.run_simulation.rounds import Told, draw_round

Log: TypeAlias = Callable[[str], object]
_FAILED = "Error: the tool failed"


@dataclass(frozen=True, slots=True)
class Deed:
    """What a tool does when it is called."""

    seconds: float
    raises: BaseException | None
    size: int
    fails: bool
    lets_go: float
    """What it takes to be cancelled,"""
    answers_late: bool
    """and then it has an answer after all."""


class World:
    """All that a run meets, and what it did."""

    def __init__(self, seed: int, log: Log | None = None) -> None:
        draw = random.Random(seed)
        self._log = log
        self.limits = _limits(draw)
        self.tokens = draw.choice([None, None, None, 1, 30, 100, 1000])
        self.begun = draw.random() < 0.1
        self.messages: list[Json] = [{"role": "user", "content": "Hi"}]
        if self.begun:
            self.messages.append({"role": "assistant", "content": "Well, "})
        self.chance = Chance(draw, draw.random())
        self.rounds: list[Told] = []
        self.asked: list[AskModel] = []
        self.open_rounds = 0
        self.running = 0
        self.most_running = 0
        self.begun_tools = 0
        self.answers: dict[tuple[str, str], list[str]] = {}
        """By name and arguments, what a tool came to."""
        self.ran: list[ToolRun] = []
        self.stirred = 0.0
        """When a round or a tool last ended."""
        self.over: float | None = None
        """Since when nothing may begin any more."""
        self.wrong: list[str] = []
        """What the driver would take for a bug of a model or a tool."""

    def log(self, what: str) -> None:
        if self._log is not None:
            self._log(f"{asyncio.get_running_loop().time():10.3f}  {what}")

    @property
    def idle(self) -> bool:
        """Nothing goes on, and not just now."""
        now = asyncio.get_running_loop().time()
        return not (self.running or self.open_rounds) and now > self.stirred + SLACK

    def may_begin(self, what: str) -> None:
        # What is cancelled at the very moment at which it begins has begun.
        if self.over is not None and asyncio.get_running_loop().time() > self.over:
            self.wrong.append(f"{what} begins behind the end")

    async def let_go(self, seconds: float) -> None:
        """What was cancelled takes some time to end."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.wrong.append("what is about to end is cancelled once more")
            raise

    # The model

    async def ask(self, asked: AskModel) -> AsyncGenerator[ModelSaid | ModelEnded, None]:
        self.may_begin("a round")
        if asked.round != len(self.asked) + 1:
            self.wrong.append("rounds aren't counted from 1")
        self.asked.append(asked)
        told = draw_round(self.chance, asked.round)
        self.rounds.append(told)
        self.log(f"round {asked.round}: {len(asked.messages)} messages, {told.calls}, {told.reason}, {told.fails!r}")
        reader = RoundReader(asked.round)
        self.open_rounds += 1
        try:
            if told.fails is not None:
                await asyncio.sleep(told.lingers)
                raise told.fails
            for delay, piece in told.pieces:
                if delay:
                    await asyncio.sleep(delay)
                for one in reader.feed(piece):
                    yield one
            if told.lingers:
                await asyncio.sleep(told.lingers)
            if told.breaks:
                yield ModelEnded(asked.round, error=ApiError(502, "It is cut off.", "server_error"))
                return
            for one in reader.close():
                yield one
        except (asyncio.CancelledError, GeneratorExit):
            await self.let_go(told.lets_go)
            raise
        finally:
            self.open_rounds -= 1
            self.stirred = asyncio.get_running_loop().time()

    # Tools

    def source(self, name: str) -> Source:
        return Source(self, name)

    def tool_ran(self, ran: ToolRun) -> None:
        self.ran.append(ran)


class Source:
    """Tools of the world's."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.definitions: list[Json] = []
        self._world = world

    def runs(self, name: str) -> bool:
        return OURS[name].runs

    async def call(self, name: str, arguments: str) -> ToolResult:
        world = self._world
        world.may_begin("a tool")
        if name not in RUN or OURS[name].source != self.name:
            world.wrong.append("a call runs that isn't ours")
        deed = _deed(world.chance)
        number = next(world.chance.numbers)
        world.begun_tools += 1
        world.running += 1
        world.most_running = max(world.most_running, world.running)
        world.log(f"{name} {arguments!r} begins: {deed}")
        text = f"{name} {arguments} came to {number}{'…' * deed.size}"
        try:
            await asyncio.sleep(deed.seconds)
            if deed.raises is not None:
                text = _FAILED
                raise deed.raises
        except asyncio.CancelledError as error:
            if error is deed.raises:
                raise
            await world.let_go(deed.lets_go)
            if not deed.answers_late:
                raise
        finally:
            world.running -= 1
            world.stirred = asyncio.get_running_loop().time()
            world.answers.setdefault((name, arguments), []).append(text)
            world.log(f"{name} {arguments!r} ends")
        return ToolResult(text, "failed" if deed.fails else "ok")


def _limits(draw: random.Random) -> Runs:
    seconds = draw.choice([0.5, 3.0, 20.0, 60.0, 600.0, 600.0])
    return Runs(
        rounds=draw.randint(1, 6),
        seconds=seconds,
        calls_at_once=draw.choice([1, 1, 2, 3, 5, 40]),
        retained_bytes=draw.choice([1024, 1 << 20, 1 << 20]),
        keep_alive_seconds=max(seconds / draw.choice([1, 3, 12]), 0.05),
    )


def _deed(chance: Chance) -> Deed:
    draw = chance.random
    wrong = draw.random() < chance.temper * 0.3
    raises = draw.choice([ValueError("no"), asyncio.CancelledError(), TimeoutError()]) if draw.random() < 0.3 else None
    return Deed(
        seconds=draw.choice([30.0, 1e6]) if wrong and draw.random() < 0.3 else chance.delay(),
        raises=raises if wrong else None,
        size=draw.choice([0, 10, 10, 500]),
        fails=wrong,
        lets_go=draw.choice([0.0, 0.0, 0.01, LET_GO - 0.01]),
        answers_late=draw.random() < 0.2,
    )

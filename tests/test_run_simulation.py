"""Runs in a world of chance (`tests.run_simulation`), and what of the driver chance seldom meets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

import pytest

from extproc.config import Runs
from extproc.contract.errors import ApiError
from extproc.runner.driver import Driver, Silence, ToolRun
from extproc.runner.run import TIMED_OUT, Run
from extproc.runner.steps import AskModel, Complete, ModelEnded, ModelSaid, Offered, Step
from extproc.runner.tools import ToolResult
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Text
from extproc.turn.output import Said, SaidEvent
from tests.run_simulation.playing import many, simulate
from tests.simulation.checking import WrongError
from tests.simulation.virtual_time import StandstillError, virtual_time

T = TypeVar("T")
RUNS = 1000
ENDS = {
    "complete",
    "mixed",
    "spent",
    "gone",
    "run_timeout",
    "run_too_large",
    "too_many_rounds",
    "error 500",
    "error 502",
    "error 503",
}


@pytest.mark.long
def test_nothing_goes_wrong_in_a_world_of_chance() -> None:
    ends = many(range(RUNS))
    assert ends.total() == RUNS
    assert set(ends) == ENDS


def test_a_seed_is_the_same_run_each_time() -> None:
    for seed in range(20):
        logs: list[list[str]] = [[], []]
        for log in logs:
            with virtual_time() as loop:
                log.append(str(simulate(seed, loop, log.append)))
        # What is cancelled at one moment ends in any order.
        assert sorted(logs[0]) == sorted(logs[1])


def test_a_wrong_one_names_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "_joined", lambda _, text: text)
    with pytest.raises(WrongError, match=r"^seed \d+: the client has ") as caught:
        many(range(RUNS))
    assert caught.value.__cause__ is not None
    assert "python -m tests.run_simulation --seed" in caught.value.__cause__.__notes__[0]


def virtually(work: Coroutine[Any, Any, T]) -> T:
    with virtual_time() as loop:
        return loop.run_until_complete(work)


def now() -> float:
    return asyncio.get_running_loop().time()


class TestVirtualTime:
    def test_it_passes_at_once(self) -> None:
        async def work() -> float:
            await asyncio.sleep(1e6)
            return now()

        assert virtually(work()) == pytest.approx(1e6)

    def test_where_nothing_will_happen_it_stops(self) -> None:
        async def work() -> None:
            await asyncio.Event().wait()

        with virtual_time() as loop, pytest.raises(StandstillError, match="nothing will ever happen"):
            loop.run_until_complete(work())


def said(*events: SaidEvent, reason: str | None = None) -> Said:
    choice = {"index": 0, "delta": {}, "finish_reason": reason}
    return Said(0, list(events), {}, choice, frozenset({"content", "tool_calls"}), reason)


def calls(count: int) -> list[SaidEvent]:
    events: list[SaidEvent] = []
    for index in range(count):
        events += [CallStart(index, "find"), ArgumentsDelta(index, f'{{"n":{index}}}'), CallEnd(index)]
    return events


class Model:
    """Says the rounds that it was given."""

    def __init__(self, *rounds: Callable[[], AsyncGenerator[Said | Exception, None]]) -> None:
        self._rounds = rounds

    async def ask(self, asked: AskModel) -> AsyncGenerator[ModelSaid | ModelEnded, None]:
        async with aclosing(self._rounds[asked.round - 1]()) as says:
            async for one in says:
                if isinstance(one, Exception):
                    raise one
                yield ModelSaid(asked.round, one)
        yield ModelEnded(asked.round)


async def calling(count: int = 1) -> AsyncGenerator[Said | Exception, None]:
    yield said(*calls(count), reason="tool_calls")


async def talking() -> AsyncGenerator[Said | Exception, None]:
    yield said(Text("Done."), reason="stop")


class Source:
    """One tool, which does as it is told."""

    name = "web"
    definitions: list[dict[str, Any]] = []  # noqa: RUF012

    def __init__(self, does: Callable[[], Coroutine[Any, Any, ToolResult]]) -> None:
        self._does = does

    def runs(self, _name: str) -> bool:
        return True

    async def call(self, _name: str, _arguments: str) -> ToolResult:
        return await self._does()


class Driven:
    """A driver, with what its tools came to."""

    def __init__(self, model: Model, does: Callable[[], Coroutine[Any, Any, ToolResult]], **limits: Any) -> None:
        chosen = Runs(**limits)
        self.ran: list[ToolRun] = []
        ids = iter(range(1000))
        run = Run([], {"find": Offered("web", "find")}, chosen, lambda: f"c{next(ids)}")
        self.driver = Driver(
            run,
            model,
            {"web": Source(does)},
            self.ran.append,
            seconds=chosen.seconds,
            keep_alive=chosen.keep_alive_seconds,
        )

    async def steps(self, pause: float = 0.0) -> list[Step | Silence]:
        seen: list[Step | Silence] = []
        async with aclosing(self.driver.steps()) as steps:
            async for step in steps:
                seen.append(step)
                await asyncio.sleep(pause)
        return seen


async def found() -> ToolResult:
    return ToolResult("found")


async def forever() -> ToolResult:
    await asyncio.sleep(1e9)
    raise AssertionError


def end_of(steps: list[Step | Silence]) -> Any:
    last = steps[-1]
    assert isinstance(last, Step)
    return last.end


class TestTime:
    def test_a_run_ends_when_its_time_is_up(self) -> None:
        async def work() -> float:
            end = end_of(await Driven(Model(calling), forever, seconds=30).steps())
            assert isinstance(end, ApiError)
            assert (end.status, end.code) == (504, TIMED_OUT)
            return now()

        assert virtually(work()) == pytest.approx(30)

    def test_also_while_the_model_says_more_than_its_client_reads(self) -> None:
        async def endless() -> AsyncGenerator[Said | Exception, None]:
            for _ in range(1000):
                yield said(Text("More. "))

        async def work() -> float:
            end = end_of(await Driven(Model(endless), found, seconds=30).steps(pause=1))
            assert isinstance(end, ApiError)
            assert end.code == TIMED_OUT
            return now()

        assert virtually(work()) <= 32

    def test_a_client_that_sees_nothing_learns_that_something_goes_on(self) -> None:
        async def slow() -> ToolResult:
            await asyncio.sleep(35)
            return ToolResult("found")

        async def work() -> list[Step | Silence]:
            return await Driven(Model(calling, talking), slow, keep_alive_seconds=10).steps()

        assert [isinstance(step, Silence) for step in virtually(work())].count(True) == 3

    def test_also_while_the_model_writes_what_the_client_isnt_shown(self) -> None:
        async def writing() -> AsyncGenerator[Said | Exception, None]:
            yield said(CallStart(0, "find"))
            for _ in range(35):
                await asyncio.sleep(1)
                yield said(ArgumentsDelta(0, " "))
            yield said(CallEnd(0), reason="tool_calls")

        async def work() -> list[Step | Silence]:
            return await Driven(Model(writing, talking), found, keep_alive_seconds=10).steps()

        steps = virtually(work())
        assert [isinstance(step, Silence) for step in steps].count(True) == 3
        assert isinstance(end_of(steps), Complete)


class TestTrouble:
    def test_a_bug_of_a_tool_is_a_result_and_told_of(self, caplog: pytest.LogCaptureFixture) -> None:
        async def broken() -> ToolResult:
            raise ZeroDivisionError

        driven = Driven(Model(calling, talking), broken)
        with caplog.at_level(logging.ERROR):
            assert isinstance(end_of(virtually(driven.steps())), Complete)
        assert [ran.result for ran in driven.ran] == [ToolResult("Error: the tool failed", "failed")]
        assert "ZeroDivisionError" in caplog.text

    def test_a_lost_cancellation_is_one_too(self) -> None:
        async def lost() -> ToolResult:
            raise asyncio.CancelledError

        async def work() -> float:
            driven = Driven(Model(calling, talking), lost)
            assert isinstance(end_of(await driven.steps()), Complete)
            assert [ran.result.outcome for ran in driven.ran] == ["failed"]
            return now()

        assert virtually(work()) < 1

    @pytest.mark.parametrize("bug", [ZeroDivisionError(), asyncio.CancelledError()])
    def test_a_bug_of_a_round_ends_the_run(self, bug: Any) -> None:
        async def broken() -> AsyncGenerator[Said | Exception, None]:
            yield said(Text("Hm"))
            raise bug

        end = end_of(virtually(Driven(Model(broken), found).steps()))
        assert isinstance(end, ApiError)
        assert (end.status, end.code) == (500, "internal_error")

    def test_an_error_of_a_round_is_the_clients(self) -> None:
        async def refused() -> AsyncGenerator[Said | Exception, None]:
            yield ApiError(429, "Wait.", "requests", code="rate_limit_exceeded")

        end = end_of(virtually(Driven(Model(refused), found).steps()))
        assert isinstance(end, ApiError)
        assert (end.status, end.message, end.code) == (429, "Wait.", "rate_limit_exceeded")


class TestLeaving:
    def test_a_tool_has_its_time_to_end(self) -> None:
        """It is cancelled once, and waited for, even by a client that loses patience with that."""
        ended: list[float] = []

        async def stubborn() -> ToolResult:
            try:
                return await forever()
            finally:
                await asyncio.sleep(0.1)
                ended.append(now())

        async def work() -> float:
            reading = asyncio.create_task(Driven(Model(calling), stubborn, seconds=5).steps())
            await asyncio.sleep(5.05)
            reading.cancel()
            await asyncio.wait([reading])
            assert reading.cancelled()
            return now()

        assert virtually(work()) == pytest.approx(5.1)
        assert ended == pytest.approx([5.1])

    def test_one_that_hasnt_begun_never_does(self) -> None:
        async def work() -> Driven:
            driven = Driven(Model(calling), found)
            steps = driven.driver.steps()
            await anext(steps)  # it is shown that the call begins
            await steps.aclose()
            return driven

        assert virtually(work()).ran == []

    def test_tools_that_answer_when_they_are_cancelled_keep_nobody_waiting(self) -> None:
        """However many: nobody takes what they answer."""

        async def polite() -> ToolResult:
            try:
                return await forever()
            except asyncio.CancelledError:
                return ToolResult("Error: it was cancelled", "cancelled")

        async def work() -> float:
            driven = Driven(Model(lambda: calling(40)), polite, calls_at_once=40)
            steps = driven.driver.steps()
            await anext(steps)
            await asyncio.sleep(1)
            await steps.aclose()
            assert [ran.result.outcome for ran in driven.ran] == ["cancelled"] * 40
            return now()

        assert virtually(work()) == pytest.approx(1)

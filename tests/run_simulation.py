"""Runs in a world of chance, in virtual time: models, tools and clients that do whatever such may do.

`python -m tests.run_simulation --runs 10000 --first 0` tries many; `--seed N` plays one again and tells what happens.

`Run`, `Driver` and `RoundReader` are the real ones. What the world does is drawn from the seed before it happens, so
that a seed is the same run each time, and what it did is compared with what came of it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from extproc.config import Runs
from extproc.contract.errors import ApiError
from extproc.contract.json_body import is_object
from extproc.runner.driver import TO_END, Driver, ToolRun
from extproc.runner.reading import RoundReader
from extproc.runner.run import TIMED_OUT, TOO_LARGE, TOO_MANY_ROUNDS, Run
from extproc.runner.steps import (
    AskModel,
    CallTool,
    Complete,
    Effect,
    End,
    Gone,
    Input,
    ModelEnded,
    ModelSaid,
    Offered,
    Step,
    TimedOut,
    ToolEnded,
)
from extproc.runner.tools import ToolResult
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Reasoning, Text
from extproc.turn.served import ServedCall, ServedResult
from tests.simulation.virtual_time import VirtualLoop, virtual_time

Json: TypeAlias = dict[str, Any]
Log: TypeAlias = Callable[[str], object]

LET_GO = 0.1
"""Seconds, in which everything has to stop when it is cancelled."""
_SLACK = 1e-6
_OURS = {
    "roll": Offered("dice", "roll"),
    "web__find": Offered("web", "find"),
    "web__open": Offered("web", "open"),
    "web__ask": Offered("web", "ask", runs=False),
}
_RUN = [name for name, offered in _OURS.items() if offered.runs]
_OTHERS = ["web__ask", "clients", "clients_too", "unheard_of"]
_FAILED = "Error: the tool failed"


class WrongError(AssertionError):
    """Something came of a run that may not."""


def check(right: object, what: str) -> None:
    if not right:
        raise WrongError(what)


# What is drawn


@dataclass(slots=True)
class _Told:
    """A round as the model means it, as far as it comes."""

    number: int
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[list[str]] = field(default_factory=list)
    """Names and arguments."""
    reason: str | None = None
    usage: Json | None = None
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    """What comes of it, and how long after what was before."""
    fails: ApiError | Exception | None = None
    """Instead of any piece."""
    breaks: bool = False
    """Behind its pieces the connection breaks; else it ends."""
    lingers: float = 0.0
    """Before it ends."""
    lets_go: float = 0.0
    """What it takes to be cancelled."""
    whole: bool = False
    """The finish reason comes, and nothing that can't be read before it."""

    @property
    def ours(self) -> list[list[str]]:
        return [call for call in self.calls if call[0] in _RUN]

    @property
    def theirs(self) -> list[list[str]]:
        return [call for call in self.calls if call[0] not in _RUN]

    @property
    def goes_on(self) -> bool:
        return self.whole and self.reason == "tool_calls" and not self.theirs


@dataclass(frozen=True, slots=True)
class _Deed:
    """What a tool does when it is called."""

    seconds: float
    raises: BaseException | None
    size: int
    fails: bool
    lets_go: float
    """What it takes to be cancelled,"""
    answers_late: bool
    """and then it has an answer after all."""


@dataclass(frozen=True, slots=True)
class _Visit:
    """What the client does."""

    leaves_at: float | None
    leaves_after: int | None
    """So many steps."""
    pauses: list[float]
    """Behind each step, over and over."""


class World:
    """All that a run meets, and what it did."""

    def __init__(self, seed: int, log: Log | None = None) -> None:
        self.random = draw = random.Random(seed)
        self._log = log
        self.limits = _limits(draw)
        self.tokens = draw.choice([None, None, None, 1, 30, 100, 1000])
        self.begun = draw.random() < 0.1
        self.messages: list[Json] = [{"role": "user", "content": "Hi"}]
        if self.begun:
            self.messages.append({"role": "assistant", "content": "Well, "})
        self.temper = draw.random()
        """How much goes wrong."""
        self.numbers = itertools.count()
        self.rounds: list[_Told] = []
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
        return not (self.running or self.open_rounds) and now > self.stirred + _SLACK

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
        told = _round(self, asked.round)
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

    def source(self, name: str) -> _Source:
        return _Source(self, name)

    def tool_ran(self, ran: ToolRun) -> None:
        self.ran.append(ran)


class _Source:
    """Tools of the world's."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.definitions: list[Json] = []
        self._world = world

    def runs(self, name: str) -> bool:
        return _OURS[name].runs

    async def call(self, name: str, arguments: str) -> ToolResult:
        world = self._world
        world.may_begin("a tool")
        if name not in _RUN or _OURS[name].source != self.name:
            world.wrong.append("a call runs that isn't ours")
        deed = _deed(world)
        number = next(world.numbers)
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


def _delay(world: World) -> float:
    draw = world.random
    kind = draw.random()
    if kind < 0.6:
        return 0.0
    if kind < 0.98:
        return draw.choice([0.001, 0.01, 0.1, draw.random()])
    return draw.choice([5.0, 30.0, 1e6]) if draw.random() < world.temper else 0.5


def _deed(world: World) -> _Deed:
    draw = world.random
    wrong = draw.random() < world.temper * 0.3
    raises = draw.choice([ValueError("no"), asyncio.CancelledError(), TimeoutError()]) if draw.random() < 0.3 else None
    return _Deed(
        seconds=draw.choice([30.0, 1e6]) if wrong and draw.random() < 0.3 else _delay(world),
        raises=raises if wrong else None,
        size=draw.choice([0, 10, 10, 500]),
        fails=wrong,
        lets_go=draw.choice([0.0, 0.0, 0.01, LET_GO - 0.01]),
        answers_late=draw.random() < 0.2,
    )


def _visit(world: World) -> _Visit:
    draw = world.random
    leaves = draw.random()
    pauses = [draw.choice([0.0, 0.001, 0.2, 2.0]) for _ in range(3)] if draw.random() < 0.25 else []
    return _Visit(
        leaves_at=draw.choice([0.0, 0.01, draw.random(), draw.random() * 10]) if leaves < 0.15 else None,
        leaves_after=draw.randint(1, 8) if 0.15 <= leaves < 0.25 else None,
        pauses=pauses,
    )


_WORDS = ["I", " look.", "\n", "\n\n", " ", "Sunny", "é", "…", "\nThere", " it is\n", "x" * 40]
_BROKEN = ['{"n": %d', "[%d]", "{'n': %d}", "%d}", '{"n": %d} {']


def _round(world: World, number: int) -> _Told:
    """What the model says next, and how it comes."""
    draw = world.random
    told = _Told(number)
    wrong = draw.random() < world.temper * 0.25
    told.lingers, told.lets_go = draw.choice([0.0, 0.0, 0.0, 0.2, 5.0]), draw.choice([0.0, 0.0, LET_GO - 0.01])
    if wrong and draw.random() < 0.4:
        told.fails = draw.choice([ApiError(503, "Busy.", "server_error", code="busy"), ZeroDivisionError("a bug")])
        return told
    deltas = _says(world, told)
    events: list[Json | bytes] = [{"choices": [_choice(delta)]} for delta in deltas]
    if events and isinstance(events[0], dict) and draw.random() < 0.9:
        events[0]["choices"][0]["delta"]["role"] = "assistant"
    calls = "tool_calls" if draw.random() < 0.8 else "stop"
    told.reason = draw.choice(["length", "content_filter"]) if draw.random() < 0.12 else None
    if told.reason is not None and told.calls and draw.random() < 0.7:
        _cut_off(told, events, draw)
    said = told.reason or (calls if told.calls else "stop")
    if draw.random() < 0.5 or not events:
        events.append({"choices": [_choice({})]})
    last = events[-1]
    assert isinstance(last, dict)
    last["choices"][0]["finish_reason"] = said
    told.reason = told.reason or ("tool_calls" if told.calls else "stop")
    told.whole = True
    if draw.random() < 0.85:
        told.usage = _usage(draw)
        events.append({"choices": [], "usage": told.usage})
    if draw.random() < 0.9:
        events.append(b"data: [DONE]\n\n")
    for _ in range(draw.randint(0, 2)):
        events.insert(draw.randint(0, len(events)), b": still there\n\n")
    if wrong:
        _spoil(told, events, draw)
    _send(world, told, events)
    return told


def _says(world: World, told: _Told) -> list[Json]:
    draw = world.random
    deltas: list[Json] = []
    if draw.random() < 0.3:
        for _ in range(draw.randint(1, 3)):
            told.thoughts.append(draw.choice(["Hm", "… ", "so\n"]))
            deltas.append({draw.choice(["reasoning", "reasoning_content"]): told.thoughts[-1]})
    _says_words(draw, told, deltas)
    kind = draw.random()
    names = _RUN if kind < 0.55 else [*_RUN, *_OTHERS] if kind < 0.68 else _OTHERS if kind < 0.75 else []
    many = draw.choice([1, 1, 2, 3, 6, 30 if draw.random() < 0.1 else 4]) if names else 0
    ids = [draw.choice(["same", f"call_{told.number}_{place}", "", None]) for place in range(many)]
    for place, call_id in enumerate(ids):
        if draw.random() < 0.1:
            _says_words(draw, told, deltas)
        name, unique = draw.choice(names), next(world.numbers)
        arguments = draw.choice(_BROKEN) % unique if draw.random() < 0.1 else f'{{"n": {unique}, "of": "é"}}'
        told.calls.append([name, arguments])
        begins: Json = {"index": place, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [begins]})
        pieces = _cut(arguments, draw)
        deltas += [{"tool_calls": [{"index": place, "function": {"arguments": piece}}]} for piece in pieces]
    if draw.random() < 0.2:
        _says_words(draw, told, deltas)
    return deltas


def _says_words(draw: random.Random, told: _Told, deltas: list[Json]) -> None:
    for _ in range(draw.choice([0, 0, 1, 3, 8])):
        told.texts.append(draw.choice(_WORDS))
        deltas.append({"content": told.texts[-1]})


def _cut_off(told: _Told, events: list[Json | bytes], draw: random.Random) -> None:
    """The last call, and whatever came behind it."""
    name, arguments = told.calls[-1]
    place = max(at for at, event in enumerate(events) if b'"name"' in _encoded(event))
    behind = [event["choices"][0]["delta"] for event in events[place + 1 :] if isinstance(event, dict)]
    for delta in behind:
        if "content" in delta:
            told.texts.pop()
    del events[place + 1 :]
    kept = arguments[: draw.randint(0, len(arguments) - 1)]
    told.calls[-1] = [name, kept]
    if kept:
        index = len(told.calls) - 1
        events.append({"choices": [_choice({"tool_calls": [{"index": index, "function": {"arguments": kept}}]})]})


def _spoil(told: _Told, events: list[Json | bytes], draw: random.Random) -> None:
    """Something ends the stream before its time."""
    told.whole, told.usage = False, None
    finishes = next(at for at, event in enumerate(events) if b'"finish_reason":"' in _encoded(event))
    del events[draw.randint(0, finishes) :]
    kind = draw.random()
    if kind < 0.3:
        told.breaks = True
    elif kind < 0.5:
        events.append(b'data: {"error": {"message": "It failed.", "code": 503}}\n\n')
    elif kind < 0.7:
        events.append(draw.choice([b"data: <html>\n\n", b"data: []\n\n", b'data: {"choices": [3]}\n\n']))
        events.append({"choices": [{**_choice({}), "finish_reason": "stop"}]})
    elif kind < 0.8:
        events.append(b"data: [DONE]\n\n")


def _send(world: World, told: _Told, events: list[Json | bytes]) -> None:
    """In pieces that have nothing to do with the events, with time between some of them."""
    draw = world.random
    together = b""
    for event in events:
        together += _encoded(event)
        delay = _delay(world)
        if delay or draw.random() < 0.2:
            cut = draw.randint(0, len(together))
            told.pieces.append((delay, together[:cut]))
            together = together[cut:]
    told.pieces.append((0.0, together))


def _encoded(event: Json | bytes) -> bytes:
    if isinstance(event, bytes):
        return event
    return b"data: " + orjson.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", **event}) + b"\n\n"


def _choice(delta: Json) -> Json:
    return {"index": 0, "delta": delta, "finish_reason": None}


def _cut(text: str, draw: random.Random) -> list[str]:
    ends = sorted(draw.randint(0, len(text)) for _ in range(draw.choice([0, 1, 3])))
    return [text[start:end] for start, end in itertools.pairwise([0, *ends, len(text)])]


def _usage(draw: random.Random) -> Json:
    prompt, completion = draw.randint(1, 50), draw.randint(1, 50)
    usage: Json = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    if draw.random() < 0.5:
        usage["prompt_tokens_details"] = {"cached_tokens": draw.randint(0, prompt)}
    return usage


# What may come of it


class _Watched(Run):
    """Tells what it is told and what it answers, and is told some of it twice."""

    def __init__(self, world: World, *, slow: bool) -> None:
        new_id = map("ours_{}".format, itertools.count()).__next__
        super().__init__(world.messages, _OURS, world.limits, new_id, tokens=world.tokens, begun=world.begun)
        self._world = world
        self._told: list[Input] = []
        self.ends = 0
        self.called: list[CallTool] = []
        self._slow = slow

    def start(self) -> Step:
        return self._watch(super().start())

    def receive(self, told: Input) -> Step:
        self._world.log(f"told {told}")
        if isinstance(told, TimedOut) and not self._slow and self._world.idle:
            self._world.wrong.append("the run waits for nothing")
        step = self._watch(super().receive(told))
        self._told.append(told)
        again = self._told[len(self._told) * 5 // 7]
        if not isinstance(again, ModelSaid) or again.round < self.rounds or self.ends:
            check(super().receive(again) == Step(), f"{again} counts twice")
        check(super().receive(ModelEnded(self.rounds + 1, {"prompt_tokens": 1})) == Step(), "a foreign round counts")
        check(super().receive(ToolEnded("nobody's", ToolResult("x"))) == Step(), "a foreign call counts")
        return step

    def _watch(self, step: Step) -> Step:
        check(not self.ends or step == Step(), "something comes behind the end")
        self.ends += step.end is not None
        self.called += [effect for effect in step.effects if isinstance(effect, CallTool)]
        effects: list[Effect] = list(step.effects)
        self._world.log(f"  said {list(step.out)}, does {effects}, ends {step.end}")
        return step


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


class _Client:
    """Reads the answer, as fast and as long as it likes."""

    def __init__(self, world: World, visit: _Visit) -> None:
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
                most = self._world.limits.keep_alive_seconds + _SLACK
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


async def _play(seed: int, world: World) -> Outcome:
    visit = _visit(world)
    run = _Watched(world, slow=bool(visit.pauses))
    driver = Driver(
        run,
        world,
        {name: world.source(name) for name in ("dice", "web")},
        world.tool_ran,
        seconds=world.limits.seconds,
        keep_alive=world.limits.keep_alive_seconds,
    )
    world.log(f"{world.limits}, tokens={world.tokens}, {visit}")
    client = _Client(world, visit)
    loop = asyncio.get_running_loop()
    reading = loop.create_task(client.read(driver))
    await asyncio.wait([reading])
    if not reading.cancelled():
        reading.result()
    seconds = loop.time()
    most = world.limits.seconds + max(visit.pauses, default=0.0) if client.left is None else client.left
    check(seconds <= most + TO_END + LET_GO + _SLACK, f"it took {seconds} s, and not {most}")
    _check_all_ended(world)
    _check_tools(world, run)
    _check_conversation(world)
    complete = isinstance(client.end, Complete)
    _check_usage(world, run, complete=complete)
    _check_answer(world, run, client.steps, complete=complete)
    if client.left is None:
        check(run.ends == 1, f"{run.ends} ends")
    end = _check_end(world, run, client.end if client.left is None else Gone(), seconds)
    return Outcome(seed, end, run.rounds, world.begun_tools, len(client.steps))


def _check_all_ended(world: World) -> None:
    check(not world.wrong, f"{world.wrong}")
    others = asyncio.all_tasks() - {asyncio.current_task()}
    check(not others, f"tasks are left over: {others}")
    check(world.running == world.open_rounds == 0, "something goes on behind the end")


def _check_tools(world: World, run: _Watched) -> None:
    check(world.most_running <= world.limits.calls_at_once, f"{world.most_running} tools run at once")
    ids = [call.id for call in run.called]
    check(len(ids) == len(set(ids)) == run.ran, "a call runs twice")
    reported = [ran.call.id for ran in world.ran]
    check(len(reported) == len(set(reported)) == world.begun_tools, "not every call that began is told of once")
    made = Counter((name, arguments) for told in world.rounds if told.goes_on for name, arguments in told.ours)
    check(Counter((call.name, call.arguments) for call in run.called) <= made, "a call runs that wasn't to run")


def _check_conversation(world: World) -> None:
    """What the model is asked holds everything that was said and done before, in its order."""
    given = Counter(text for texts in world.answers.values() for text in texts)
    for asked in world.asked:
        budget = None if world.tokens is None else max(world.tokens - _spent(world.rounds[: asked.round - 1]), 0)
        check(asked.tokens == budget and asked.tokens != 0, f"round {asked.round} may have {asked.tokens} tokens")
        messages = list(asked.messages)
        begins, ids = world.messages, set[str]()
        check(messages[: len(begins) - world.begun] == begins[: len(begins) - world.begun], "the conversation is lost")
        del messages[: len(begins) - (world.begun and asked.round > 1)]
        prefix = "Well, " if world.begun else ""
        for told in world.rounds[: asked.round - 1]:
            made = messages.pop(0)
            check((made["content"] or "") == prefix + "".join(told.texts), "the model's words are lost")
            check(made.get("reasoning", "") == "".join(told.thoughts), "the model's thoughts are lost")
            check(len(made["tool_calls"]) == len(told.calls), "calls are lost")
            prefix = ""
            for call, (name, arguments) in zip(made["tool_calls"], told.calls, strict=True):
                shown = arguments if is_object(arguments) else "{}"
                check(call["function"] == {"name": name, "arguments": shown}, "a call isn't what the model made")
                check(call["id"] not in ids, "ids of calls aren't unique")
                ids.add(call["id"])
            for call, (name, arguments) in zip(made["tool_calls"], told.calls, strict=True):
                result = messages.pop(0)
                check(result["role"] == "tool" and result["tool_call_id"] == call["id"], "results are out of order")
                check(result["content"] in world.answers[name, arguments], "a result is another call's")
        check(not messages, "the conversation has more than was said")
        kept = sum(map(_size, asked.messages[len(begins) - world.begun :]))
        check(asked.round == 1 or kept <= world.limits.retained_bytes, f"the run retains {kept} bytes")
        texts = Counter(message["content"] for message in asked.messages if message["role"] == "tool")
        check(texts <= given, "a result is there twice")


def _size(message: Json) -> int:
    """In bytes, names and ids aside."""
    calls = (call["function"]["arguments"] for call in message.get("tool_calls", ()))
    texts = [message["content"] or "", message.get("reasoning", ""), *calls]
    return sum(len(text.encode()) for text in texts)


def _spent(rounds: list[_Told]) -> int:
    return sum(told.usage["completion_tokens"] for told in rounds if told.usage is not None)


def _check_usage(world: World, run: Run, *, complete: bool) -> None:
    def total(rounds: list[_Told]) -> Json:
        counts = Counter[str]()
        for told in rounds:
            for name, count in (told.usage or {}).items():
                counts.update({name: count} if isinstance(count, int) else count)
        return dict(counts)

    usage = dict(run.usage or {})
    usage |= usage.pop("prompt_tokens_details", {})
    # A count that came, but was not told before the run was over, isn't in it.
    known = [total(world.rounds), total(world.rounds[:-1])]
    check(usage in known[: 1 if complete else 2], f"the usage is {usage}, and not {known[0]}")


def _check_answer(world: World, run: _Watched, steps: list[Step], *, complete: bool) -> None:
    """The client has what the model said, up to where the run came."""
    out = [said for step in steps for said in step.out]
    events = [event for said in out for event in said.events]
    text = "".join(event.text for event in events if isinstance(event, Text))
    whole = _joined(["".join(told.texts) for told in world.rounds])
    check(text == whole if complete else whole.startswith(text), f"the client has {text!r} of {whole!r}")
    thought = "".join(event.text for event in events if isinstance(event, Reasoning))
    thoughts = "".join(text for told in world.rounds for text in told.thoughts)
    check(thought == thoughts if complete else thoughts.startswith(thought), "thoughts are lost")
    calls = _calls_of(events)
    theirs = world.rounds[-1].theirs if world.rounds else []
    check(calls == theirs if complete else len(calls) <= len(theirs), f"the client's calls are {calls}, not {theirs}")
    reasons = [said.finish_reason for said in out if said.finish_reason is not None]
    check(len(reasons) == 1 if complete else len(reasons) <= 1, f"finish reasons {reasons}")
    check(not reasons or out[-1].finish_reason is not None, "something is said behind the finish reason")
    check(all(said.choice["finish_reason"] == said.finish_reason for said in out), "a choice has another reason")
    texts = [(said.source.get("content"), said.events) for said in out]
    check(all(not text or events == [Text(text)] for text, events in texts), "a delta says more than its events")
    check(sum("role" in said.source for said in out) <= 1, "there are several roles")
    check(not any("tool_calls" in said.source for said in out), "the model's calls are passed on unread")
    _check_served(world, run, events, complete=complete)


def _joined(texts: list[str]) -> str:
    """Texts of rounds with a blank line between them."""
    whole = ""
    for text in filter(None, texts):
        if whole:
            ends = len(whole[-2:]) - len(whole[-2:].rstrip("\n"))
            whole += "\n" * max(2 - ends - text.startswith("\n"), 0)
        whole += text
    return whole


def _calls_of(events: list[Any]) -> list[list[str]]:
    calls: list[list[str]] = []
    is_open = False
    for event in events:
        match event:
            case CallStart(index, name):
                check(index == len(calls) and not is_open, "a call begins out of order")
                calls.append([name, ""])
                is_open = True
            case ArgumentsDelta(index, json):
                check(index == len(calls) - 1 and is_open, "arguments of no call")
                calls[-1][1] += json
            case CallEnd(index):
                check(index == len(calls) - 1 and is_open, "the end of no call")
                is_open = False
    return calls


def _check_served(world: World, run: _Watched, events: list[Any], *, complete: bool) -> None:
    began = [event for event in events if isinstance(event, ServedCall)]
    ended = [event for event in events if isinstance(event, ServedResult)]
    ids = [event.id for event in began]
    check(ids == [call.id for call in run.called][: len(ids)], "the client is shown other calls than run")
    check({event.id for event in ended} <= set(ids), "a result of a call that hasn't begun")
    check(len(ended) == len({event.id for event in ended}), "a result is shown twice")
    check(not complete or len(began) == len(ended) == len(run.called), "the client isn't shown all calls")
    by_id = {call.id: call for call in run.called}
    for event in ended:
        call = by_id[event.id]
        check(event.text in world.answers[call.name, call.arguments], "the client is shown another call's result")


def _check_end(world: World, run: Run, end: Any, seconds: float) -> str:
    """Whether the run had to end like this; and the end in a word."""
    last = world.rounds[-1] if world.rounds else None
    match end:
        case Gone():
            return "gone"
        case Complete(usage):
            check(last is not None and last.whole, "complete, but the last round wasn't")
            assert last is not None
            spent = world.tokens is not None and _spent(world.rounds) >= world.tokens
            check(not last.goes_on or spent, "complete, although the model was to go on")
            check(usage == run.usage, "the end has another usage")
            deferred = [name for name, _ in last.ours] if last.reason == "tool_calls" and last.theirs else []
            check(run.deferred == deferred, f"deferred are {run.deferred}, not {deferred}")
            return "spent" if last.goes_on else "mixed" if deferred else "complete"
        case ApiError(code=code) if code == TIMED_OUT:
            check(seconds >= world.limits.seconds - _SLACK, "time is up too early")
        case ApiError(code=code) if code == TOO_MANY_ROUNDS:
            check(last is not None and last.goes_on and run.rounds == world.limits.rounds, "not too many rounds")
        case ApiError(code=code) if code == TOO_LARGE:
            check(_retained(world) > world.limits.retained_bytes, "not too large")
        case ApiError(status=status, code=code):
            check(last is not None and not last.whole, f"a round ended with {code} that was whole")
            assert last is not None
            check((code == "internal_error") == isinstance(last.fails, ZeroDivisionError), "a bug isn't told of")
            return f"error {status}"
        case _:
            raise WrongError(f"no end: {end!r}")
    return str(end.code)


def _retained(world: World) -> int:
    """The most that the run may have counted."""
    said = [*itertools.chain.from_iterable(told.texts + told.thoughts for told in world.rounds)]
    called = [arguments for told in world.rounds for _, arguments in told.calls]
    results = [text for texts in world.answers.values() for text in texts]
    return sum(len(text.encode()) for text in [*said, *called, *results])


def many(seeds: range) -> Counter[str]:
    """How many runs ended in which way."""
    ends = Counter[str]()
    with virtual_time() as loop:
        for seed in seeds:
            ends[simulate(seed, loop).end] += 1
    return ends


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs in a world of chance.")
    parser.add_argument("--seed", type=int, help="play this one, and tell what happens")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    if asked.seed is not None:
        with virtual_time() as loop:
            print(simulate(asked.seed, loop, print))
        return 0
    begin = time.monotonic()
    ends = many(range(asked.first, asked.first + asked.runs))
    print(f"{asked.runs} runs in {time.monotonic() - begin:.1f} s: {dict(ends.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

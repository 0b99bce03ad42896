"""One history: exchanges that overlap, through the real processor, in the order that a seed decides.

Real are `Processor`, `ExchangeCall`, `Exchange` with all that it uses, the lean transport with its HTTP/2, and the
event loop's own queue; simulated are Envoy (`extproc.conformance.host`), backends, time and the network.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from extproc.conformance.host.machine import Host, Play, Step, Wait
from extproc.conformance.host.outcome import Closed, Outcome
from extproc.exchange.context import ExchangeContext
from extproc.observability.telemetry import Telemetry
from extproc.server.idle_timeout import Listening
from extproc.server.processor import Processor
from extproc.transport import Turns
from extproc.transport.lean.connection import ClientConnection, Connections
from extproc.turn.memory import Memory
from extproc.wire import SERVICE
from tests.simulation.envoy import EnvoyConnection
from tests.simulation.judging import WrongError, check, judge, not_as_if_whole
from tests.simulation.plans import CONFIGS, IDLE, LAYOUT, Fate, Plan, drawn
from tests.simulation.virtual_time import VirtualLoop

EXCHANGES = 20
"""In a history."""
_TOGETHER = 8
_MOST_STEPS = 20_000


@dataclass(slots=True)
class Report:
    """What came of a history."""

    exchanges: int = 0
    fates: Counter[str] = field(default_factory=Counter)


class Player:
    """One exchange that is under way."""

    def __init__(self, plan: Plan, connection: EnvoyConnection, rng: random.Random) -> None:
        self.plan = plan
        self.connection = connection
        self.stream_id = connection.open()
        self.stream = connection.streams[self.stream_id]
        self.over = False
        host = Host(LAYOUT, plan.exchange)
        self._play: Play = host.play()
        self.trace = host.trace
        self._step: Step = next(self._play)
        self._said = 0
        self._patience = rng.randrange(1, 30) if plan.fate is Fate.GONE else None
        self._stalled = bytearray()

    def act(self, *, quiet: bool) -> bool:
        """Send the next message, or go on by what has come. `quiet`: nothing more will come by itself. Returns whether
        there was something to do."""
        if self._patience is not None:
            self._patience -= 1
            if self._patience == 0:
                self.connection.reset(self.stream_id)
                self.over = True
                return True
        if self._said < len(self._step.send):
            self.connection.send(self.stream_id, self._step.send[self._said])
            self._said += 1
            if self._said == len(self._step.send) and self._step.half_close:
                self.connection.half_close(self.stream_id)
            return True
        if not self._step.send and self._step.half_close and not self._said:
            self.connection.half_close(self.stream_id)
            self._said = 1
            return True
        if self.stream.answers:
            self._go_on(self.stream.answers.popleft())
            return True
        if quiet and not (self.plan.fate is Fate.STALLED and self._step.wait is Wait.PAUSE):
            self._go_on(None)
            return True
        return False

    @property
    def stalls(self) -> bool:
        """Its backend has fallen silent: nothing but time brings it on."""
        return not self.over and self.plan.fate is Fate.STALLED and self._step.wait is Wait.PAUSE

    def stall(self) -> None:
        """Time is over: what has come by now has to be an end."""
        body, ended = bytearray(), False
        while self.stream.answers:
            answer = self.stream.answers.popleft()
            check(not isinstance(answer, Closed), f"a stream that falls silent ends with {answer}")
            assert not isinstance(answer, Closed)
            piece = answer.response_body.response.body_mutation.streamed_response
            body += piece.body
            ended |= piece.end_of_stream
        self._stalled += body
        check(ended, f"a stream that falls silent has no end: {self.trace}")
        not_as_if_whole(self.plan, bytes(self._stalled))
        self.connection.reset(self.stream_id)
        self.over = True

    def _go_on(self, answer: object) -> None:
        if self.plan.fate is Fate.STALLED and answer is not None and not isinstance(answer, Closed):
            self._stalled += answer.response_body.response.body_mutation.streamed_response.body  # type: ignore[attr-defined]
        try:
            self._step, self._said = self._play.send(answer), 0  # type: ignore[arg-type]
        except StopIteration as end:
            self.over = True
            outcome: Outcome = end.value
            version = self.stream.begun
            assert version is not None
            judge(self.plan, outcome, version)


class World:
    """Everything of one history."""

    def __init__(self, seed: int, keep: Sequence[int] | None) -> None:
        self._rng = rng = random.Random(seed)
        plans = [drawn(random.Random(f"{seed} {number}"), number) for number in range(EXCHANGES)]
        self._plans = [plan for plan in plans if keep is None or plan.number in keep]
        self._contexts = [ExchangeContext(config, memory=Memory()) for config in CONFIGS]
        self._version = 0
        telemetry = Telemetry(CONFIGS[0])
        self.processor = Processor(self._contexts[0], telemetry)
        self._ticks = 0.0
        self.processor.turns, self.processor.listening = Turns(self._clock), Listening()
        self._services = {f"/{SERVICE}/Process": self.processor._process}  # what `running` serves
        self._connections = Connections()
        self._envoy = self._connect()
        self._players: list[Player] = []
        self._begun = 0
        self.report = Report()
        self._reloads, self._losses = rng.random() < 0.5, rng.random() < 0.2

    def _clock(self) -> float:
        """Work takes as long as it happens: none, or all of a slice."""
        self._ticks += self._rng.choice((0.0, 0.0, 0.0, 0.004))
        return self._ticks

    def _connect(self) -> EnvoyConnection:
        protocol = ClientConnection(self._services, 1 << 20, self.processor.turns, self._connections)
        return EnvoyConnection(protocol, self._rng, lambda: self._version)

    async def play(self) -> Report:
        """To the end of all exchanges."""
        rng = self._rng
        for _ in range(_MOST_STEPS):
            if not (self._plans or self._players):
                break
            if self._plans and len(self._players) < _TOGETHER and rng.random() < 0.3:
                self._begin(self._plans.pop(0))
            await self._anything(rng.random())
            self._players = [player for player in self._players if not player.over]
        check(not (self._plans or self._players), "a history has no end")
        await self._end()
        return self.report

    def _begin(self, plan: Plan) -> None:
        self._players.append(Player(plan, self._envoy, self._rng))
        self.report.exchanges += 1
        self.report.fates[plan.fate.value] += 1

    async def _anything(self, chance: float) -> None:
        rng = self._rng
        if chance < 0.55 and self._players:
            rng.choice(self._players).act(quiet=False)
        elif chance < 0.8:
            self._envoy.deliver(rng.choice((None, rng.randrange(1, 40), rng.randrange(1, 2000))))
        elif chance < 0.88:
            for _ in range(rng.randrange(1, 4)):
                await asyncio.sleep(0)
        elif chance < 0.93:
            self._envoy.make_room()
        elif chance < 0.95:
            self._envoy.pause(paused=rng.random() < 0.5)
        elif chance < 0.96 and self._reloads:
            self._version = 1 - self._version
            await self.processor.go_by(self._contexts[self._version])
        elif chance < 0.963 and self._losses:
            self._lose()
        elif chance > 0.985:
            await self._settle()

    def _lose(self) -> None:
        """The connection breaks: a worker of Envoy's has died, or the network."""
        self._envoy.lose()
        for player in self._players:
            player.over = True
        check(self.processor.exchanges == 0, "an exchange outlives its connection")
        self._envoy = self._connect()

    async def _settle(self) -> None:
        """Until nothing happens by itself any more; then go on where silence is the answer."""
        await self._quiet()
        acted = [player.act(quiet=True) for player in self._players]
        stalled = [player for player in self._players if player.stalls]
        if stalled and not any(acted):
            await asyncio.sleep(IDLE + 2)
            await self._quiet()
            for player in stalled:
                player.stall()

    async def _quiet(self) -> None:
        """Deliver everything, until nothing more is said."""
        for _ in range(_MOST_STEPS):
            self._envoy.pause(paused=False)
            self._envoy.make_room()
            self._envoy.deliver()
            await asyncio.sleep(0.001)
            if self._envoy.idle:
                return
        raise WrongError("the processor never falls silent")

    async def _end(self) -> None:
        """Drain; nothing may be left."""
        self._envoy.pause(paused=False)
        self._envoy.deliver()
        await asyncio.sleep(0.001)
        check(await self.processor.drain(1.0), f"{self.processor.exchanges} exchanges are left")
        self._envoy.lose()
        self.processor.listening.end()
        self.processor.workers.close()
        await asyncio.sleep(0.001)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        check(not left, f"tasks are left: {left}")


def simulate(seed: int, loop: VirtualLoop, keep: Sequence[int] | None = None) -> Report:
    """Play one history; `keep`: only the exchanges of these numbers. Raises WrongError, or what the processor does."""
    loop.begin()

    async def play() -> Report:
        return await World(seed, keep).play()

    return loop.run_until_complete(play())

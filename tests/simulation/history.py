"""One history: exchanges that overlap, through the real processor, in the order that a seed decides.

Real are `Processor` with its workers' pool and its end, `ExchangeCall`, `Exchange` with all that it uses, the retry,
the runner's application, the control of configuration and keys, the lean transport with its HTTP/2, and the event
loop's own queue. Simulated are Envoy (`extproc.conformance.host`), backends, tools, processes, sockets and time.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from extproc.config import Config
from extproc.conformance.host.outcome import Outcome
from extproc.conformance.host.settings import HttpMessage
from extproc.exchange.api_keys import ApiKeys
from extproc.exchange.concurrency import Concurrency
from extproc.exchange.context import ExchangeContext
from extproc.exchange.outages import Outages
from extproc.names import BACKEND_HEADER, RUNNER
from extproc.observability.telemetry import Telemetry
from extproc.turn.memory import Memory
from tests.simulation.again import InnerListener
from tests.simulation.checking import WrongError, check
from tests.simulation.choices import Choices
from tests.simulation.configurations import BACKENDS, IDLE, TEAM_MODELS, config, version_of
from tests.simulation.control import ADMIN, Control
from tests.simulation.course import Course, Event, Happened
from tests.simulation.envoy import EnvoyConnection
from tests.simulation.judging import Seen, judge
from tests.simulation.layouts import INNER, Layout
from tests.simulation.plans import KEYS, TEAM_KEYS, Fate, Plan, lines_of
from tests.simulation.player import Player, Upstream
from tests.simulation.runs import Runs, judge_run
from tests.simulation.scene import Scene
from tests.simulation.serving import SOCKET, Served
from tests.simulation.teams import TeamExchanges, judge_told
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.workers import Trouble, simulated_workers

_TOGETHER = 8
_MOST_STEPS = 20_000
_MOST_SETTLED = 2_000
"""Of a part, behind its last event."""


@dataclass(slots=True)
class Report:
    """What came of a history."""

    exchanges: int = 0
    fates: Counter[str] = field(default_factory=Counter)


_KEYS = ApiKeys.parse("\n".join(lines_of((*KEYS[:-1], *TEAM_KEYS))).encode())
_EVER = frozenset(f"b{other}{place}" for place in range(BACKENDS) for other in ("", "1"))
"""The backends that there are in any configuration."""


class World:
    """Everything of one history."""

    def __init__(self, seed: int, keep: Sequence[int] | None, loop: VirtualLoop, course: Course) -> None:
        self._rng = rng = random.Random(seed)
        self._loop = loop
        self._course = course
        self._without = without = course.without
        self._scene = scene = Scene.drawn(seed, rng, without)
        questions = random.Random(f"{seed} questions")
        self._control = Control(rng, questions, team=scene.team, aliases=scene.aliases) if scene.control else None
        self._planned = {plan.number: plan for plan in scene.plans}
        self._plans = [plan for plan in scene.plans if course.told is None and (keep is None or plan.number in keep)]
        loop.network.rng = rng
        self._ticks = 0.0
        self._trouble = Trouble()
        self._runs = Runs(lambda: self._in_force().config, self._begin_round, rng)
        self._backends: dict[bytes, str] = {}
        """Which were asked, by marker."""
        self._inner = InnerListener({plan.marker: plan for plan in scene.plans}, rng, self._known, self._backends)
        loop.network.talk(str(config(0).inner_socket), self._inner.talk)
        if self._control is not None:
            loop.network.talk(ADMIN, self._control.envoy.talk)
        self.context = ExchangeContext(
            self._config(0),
            _KEYS if scene.team else None,
            concurrency=Concurrency(loop.time),
            outages=Outages(loop.time),
            memory=Memory(),
        )
        self._version = 0
        self._telemetry = Telemetry(self.context.config)
        self._team = TeamExchanges()
        self._choices = Choices()
        self._stopping: asyncio.Task[None] | None = None
        self._stopped = False
        self._served: Served
        self._envoys: list[EnvoyConnection] = []
        self._current: dict[tuple[str, int] | None, EnvoyConnection] = {}
        self._serves: dict[EnvoyConnection, Served] = {}
        self._players: list[Player] = []
        self._some_over = False
        self.report = Report()

    def _clock(self) -> float:
        """Work takes as long as it happens: none, or all of a slice."""
        if self._rng.random() < 0.25:
            self._ticks += 0.004
        return self._ticks

    # The processor

    async def _start(self) -> None:
        self._stopping = None
        workers = simulated_workers(self._rng, self._trouble, well="workers" in self._without)
        control = self._control
        beginning = control.beginning() if control is not None else None
        if beginning is not None:
            self.context = replace(self.context, config=beginning.config, keys=beginning.keys)
        self._served = Served(self.context, self._telemetry, workers, self._clock)
        await self._served.begin()
        if control is not None and beginning is not None:
            self._served.beside = control.end
            await control.begin(beginning, self._served.processor, self._telemetry)

    def _in_force(self) -> ExchangeContext:
        return self._served.processor.context

    def _known(self, backend: str) -> bool:
        """Envoy has a backend of this name."""
        if self._control is not None:
            return backend in self._control.envoy.clusters
        return backend in _EVER

    async def _reload(self) -> None:
        if self._control is not None:
            self._control.anything()
            return
        self._version += 1
        self.context = replace(self.context, config=self._config(self._version % 7))
        await self._served.processor.go_by(self.context)

    def _config(self, version: int) -> Config:
        return config(version, team=self._scene.team, aliases=self._scene.aliases)

    def _stop(self) -> None:
        self._stopped = True
        self._stopping = asyncio.create_task(self._served.stop(self._rng.choice((0.0, 0.02, 1.0, 1000.0))))

    # Envoy

    def _connection(self, layout: Layout) -> EnvoyConnection | None:
        """One by which a call can begin; None while nobody serves."""
        current = self._current.get(layout.peer)
        if current is None or current.going_away or current.transport.closed:
            try:
                protocol = self._loop.network.accept(SOCKET)
            except ConnectionRefusedError:
                return None
            current = EnvoyConnection(protocol, self._rng, self._in_force, layout.peer)
            self._current[layout.peer] = current
            self._envoys.append(current)
            self._serves[current] = self._served
        return current

    def _begin(self, plan: Plan, ended: Callable[[Player, Outcome | None], None]) -> Player | None:
        connection = self._connection(plan.layout)
        if connection is None:
            self.report.fates["turned away"] += 1
            return None
        player = Player(plan, connection, self._rng, self._route, self._answers, ended)
        if "leaving" in self._without:
            player.stay()
        self._team.begun(player, self._served)
        self._choices.begun(player)
        self._players.append(player)
        self.report.exchanges += 1
        self.report.fates[plan.fate.value] += 1
        return player

    def _begin_round(self, plan: Plan, told: Callable[[Outcome | None], None]) -> Callable[[], None] | None:
        def ended(player: Player, outcome: Outcome | None) -> None:
            self._judge(player, outcome)
            told(outcome)

        player = self._begin(plan, ended)
        if player is None:
            return None

        def leave() -> None:
            if not player.over:
                player.leave()

        return leave

    def _route(self, plan: Plan, request: HttpMessage) -> Upstream | None:
        backend = (request.first(BACKEND_HEADER) or b"").decode()
        if plan.fate is Fate.RUN:
            check(backend == RUNNER, f"a run goes to {backend!r}")
            return self._runs.ask(plan, request)
        [player] = (each for each in self._players if each.plan is plan)
        self._team.forwarded(player, backend, self._serves[player.connection])
        self._choices.forwarded(player, backend, self._version_of(player), self._loop.time())
        self._backends[plan.marker] = backend
        # The next processor tells Envoy of its configuration, and doesn't know what the last one still has to do. And a
        # call whose time is up uses nothing, though this host gets to what it was told before only now.
        late = plan.fate is Fate.LATE and player.stream.time_is_up
        left = late or self._serves[player.connection] is not self._served
        known = backend in _EVER if left else self._known(backend)
        check(known, f"Envoy has no backend {backend!r}")
        return None

    def _answers(self, player: Player) -> None:
        """Its backend is about to say something."""
        self._choices.shows(player, self._loop.time())
        begun = player.stream.begun
        if begun is not None and player.plan.fate is not Fate.RUN and not (player.stream.over or self._stopped):
            backend = self._backends[player.plan.marker]
            check(self._known(backend), f"Envoy has forgotten {backend}, which is in use")

    def _judge(self, player: Player, outcome: Outcome | None) -> None:
        self._some_over = True
        self._team.over(player, outcome)
        if outcome is not None:
            self._judge_outcome(player, outcome)
        if player.stream.begun is not None:
            self._choices.over(player, outcome, self._version_of(player))
            judge_told(player.plan, player.stream.begun[0].config, player.told, outcome)

    @staticmethod
    def _version_of(player: Player) -> int:
        """The configuration that it goes by."""
        assert player.stream.begun is not None
        return version_of(player.stream.begun[0].config)

    def _judge_outcome(self, player: Player, outcome: Outcome) -> None:
        plan = player.plan
        cut = self._serves[player.connection].cuts(player.stream.begun and player.stream.begun[1])
        if player.stream.begun is None:  # the processor never heard of it
            check(cut, f"a call ends before it has begun: {outcome.closed}")
            return
        context, begun = player.stream.begun
        key = context.keys is None or plan.layout is INNER or context.keys.owner(plan.key) is not None
        version = version_of(context.config)
        trouble = self._trouble
        seen = Seen(
            version,
            self._loop.time() - begun,
            comes_in=key,
            lost=trouble.slow or plan.marker in trouble.lost,
            cut=cut,
            asked_again=plan.marker in self._inner.asked,
            forbidden=plan.team is not None and plan.layout is not INNER and plan.mode not in TEAM_MODELS,
            counted=self._scene.team,
        )
        story = self._runs.stories.get(plan.marker)
        if (
            plan.fate is Fate.RUN
            and key
            and story is not None
            and (outcome.closed is None or outcome.closed.status == "OK")
        ):
            judge_run(plan, outcome, story, seen.seconds)
        elif plan.fate is Fate.RUN and key:
            check(seen.cut, f"a run comes to nothing: {outcome.closed}")
        else:
            judge(plan, outcome, seen)

    # What happens

    async def play(self) -> Report:
        """To the end of all exchanges."""
        await self._start()
        for event in self._drawn() if self._course.told is None else self._told(self._course.told):
            if self._course.noted is not None:
                self._course.noted.append(Happened.now(event, self._rng))
            await self._do(event)
            if self._some_over:
                self._some_over = False
                self._players = [player for player in self._players if not player.over]
            if self._stopping is not None and self._stopping.done():
                self._stopping.result()
                await self._start()
        check(not (self._plans or self._players), "a history has no end")
        await self._end()
        return self.report

    def _drawn(self) -> Iterator[Event]:
        rng = self._rng
        for _ in range(_MOST_STEPS):
            if not (self._plans or self._players):
                return
            if self._plans and len(self._players) < _TOGETHER and rng.random() < 0.3:
                yield Event("begin", self._plans.pop(0).number)
            event = self._scene.chances.event(rng, self._players, self._envoys, stopping=self._stopping is not None)
            if event is not None:
                yield event

    def _told(self, told: Sequence[Happened]) -> Iterator[Event]:
        for one in told:
            one.again(self._rng)
            yield one.event
        for _ in range(_MOST_SETTLED):
            if not self._players:
                return
            yield Event("settle")

    async def _do(self, event: Event) -> None:
        match event.kind:
            case "begin":
                self._begin(self._planned[event.whom], self._judge)
            case "act":
                self._act(event)
            case "deliver" if self._envoys:
                self._envoy(event).deliver(None if "pieces" in self._without else event.most)
            case "yield":
                await asyncio.sleep(0)
            case "take":
                for envoy in self._envoys:
                    envoy.make_room()
            case "pause" if self._envoys:
                self._envoy(event).pause(paused=event.paused)
            case "reload":
                await self._reload()
            case "lose" if self._envoys:
                self._lose(self._envoy(event))
            case "stop" if self._stopping is None:
                self._stop()
            case "settle":
                await self._settle()

    def _envoy(self, event: Event) -> EnvoyConnection:
        return self._envoys[event.whom % len(self._envoys)]

    def _act(self, event: Event) -> None:
        for player in self._players:
            if player.plan.number == event.whom and (player.plan.layout is INNER) is event.inner:
                player.act(quiet=False)
                return

    def _lose(self, lost: EnvoyConnection) -> None:
        """A connection breaks: a worker of Envoy's has died, or the network."""
        lost.lose()
        self._envoys.remove(lost)
        for player in list(self._players):
            if player.connection is lost and not player.over:
                player.end(None)
        check(self._envoys or self._served.processor.exchanges == 0, "an exchange outlives its connection")

    async def _settle(self) -> None:
        """Until nothing happens by itself any more; then go on where silence is the answer."""
        await self._quiet()
        busy = self._served.busy()
        await self._quiet()  # what has just come to an end, by a deadline, is yet to be said
        acted = [player.act(quiet=player.id not in busy) for player in list(self._players) if not player.over]
        if any(acted):
            if self._control is not None:
                self._control.look()
                await asyncio.sleep(self._rng.choice((0.0, 0.3, 1.5)))
            return
        stalled = [player for player in self._players if player.stalls]
        if busy or any(player.waits for player in self._players):
            await asyncio.sleep(self._rng.choice((0.02, 0.5, 5.0, 30.0)))
        elif stalled:
            await asyncio.sleep(IDLE + 2)
            await self._quiet()
            for player in stalled:
                if not player.over:
                    player.stall()

    async def _quiet(self) -> None:
        """Deliver everything, until nothing more is said."""
        for _ in range(_MOST_STEPS):
            for envoy in list(self._envoys):
                envoy.pause(paused=False)
                envoy.make_room()
                envoy.deliver()
            await asyncio.sleep(0.001)
            if all(envoy.idle for envoy in self._envoys):
                for envoy in list(self._envoys):
                    if envoy.going_away and not envoy.open_streams:
                        envoy.lose()
                        self._envoys.remove(envoy)
                return
        raise WrongError("the processor never falls silent")

    async def _end(self) -> None:
        """Stop; nothing may be left."""
        await self._quiet()
        if self._stopping is None:
            await asyncio.sleep(0.01)
            if self._control is not None:
                await self._control.settled()
            left = self._served.processor.exchanges
            check(not left, f"{left} exchanges are left")
            self._stopping = asyncio.create_task(self._served.stop(1.0))
        for envoy in self._envoys:
            envoy.lose()
        await asyncio.wait((self._stopping,), timeout=2000)
        check(self._stopping.done(), "the processor doesn't end")
        self._stopping.result()
        await asyncio.sleep(200.0)
        wrong = [*self._inner.wrong, *self._runs.wrong]
        check(not wrong, f"{wrong}")
        left_over = asyncio.all_tasks() - {asyncio.current_task()}
        check(not left_over, f"tasks are left: {left_over}")
        self._choices.judge_counted(self._telemetry)
        used = self.context.concurrency._leases
        check(not used, f"places are taken by requests that are over: {used}")

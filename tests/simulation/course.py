"""The course of a history: its events as they are drawn, and as a part of them is played again.

A part leaves out events of those that were drawn before. Each of its events finds the random numbers as they were when
it was drawn, whatever was left out before it, so that what is left goes as it went; behind the last one, everything is
brought to its end in the shortest way.
"""

from __future__ import annotations

import itertools
import random
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from tests.simulation.envoy import EnvoyConnection
from tests.simulation.layouts import INNER, OWN
from tests.simulation.plans import Plan
from tests.simulation.player import Player

Kind: TypeAlias = Literal["begin", "act", "deliver", "yield", "take", "pause", "reload", "lose", "stop", "settle"]
Without: TypeAlias = Literal["team", "aliases", "hosts", "control", "workers", "deadlines", "leaving", "pieces"]
"""What may be taken out of a whole history: the team; aliases of several models; hosts that aren't our Envoy; files,
and who writes them; workers that die or take long; deadlines; clients that leave; answers in pieces, and bytes that
come a few at a time."""
WITHOUT: tuple[Without, ...] = get_args(Without)


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a history."""

    kind: Kind
    whom: int = 0
    """The exchange's number, or the connection's place among those that there are."""
    inner: bool = False
    """It is a model round of that exchange's run."""
    most: int | None = None
    """Bytes that are delivered; None: all."""
    paused: bool = False

    @property
    def exchange(self) -> int | None:
        """Whose it is, if it is one's."""
        return self.whom if self.kind in ("begin", "act") else None

    def __str__(self) -> str:
        match self.kind:
            case "begin":
                return f"begin {self.whom}"
            case "act":
                return f"act {self.whom}{' (a round)' if self.inner else ''}"
            case "deliver":
                return f"deliver {self.whom}: {'all' if self.most is None else self.most}"
            case "pause":
                return f"{'pause' if self.paused else 'resume'} {self.whom}"
            case "lose":
                return f"lose {self.whom}"
            case _:
                return self.kind


@dataclass(frozen=True, slots=True)
class Happened:
    """An event, and the random numbers as it found them."""

    event: Event
    state: array[int]

    @classmethod
    def now(cls, event: Event, rng: random.Random) -> Happened:
        return cls(event, array("L", rng.getstate()[1]))

    def again(self, rng: random.Random) -> None:
        rng.setstate((random.Random.VERSION, tuple(self.state), None))


@dataclass(frozen=True, slots=True)
class Part:
    """Of a history."""

    events: tuple[int, ...]
    """The numbers of those that are kept, in order."""
    without: frozenset[Without] = frozenset()

    @classmethod
    def read(cls, events: str, without: str = "") -> Part:
        """As it is written: `3,12-19` and `team,workers`. Raises ValueError, also for numbers that don't ascend."""
        numbers = list[int]()
        for one in filter(None, events.split(",")):
            if (told := re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", one)) is None:
                raise ValueError(f"{one!r} is no number, and no range of them such as 7-12")
            first = int(told[1])
            last = int(told[2] or first)
            if first > last or (numbers and first <= numbers[-1]):
                raise ValueError(f"{one!r}: the numbers have to ascend")
            numbers += range(first, last + 1)
        names = [name for name in without.split(",") if name]
        if unknown := [name for name in names if name not in WITHOUT]:
            raise ValueError(f"{unknown[0]!r} is none of {', '.join(WITHOUT)}")
        return cls(tuple(numbers), frozenset(name for name in WITHOUT if name in names))

    def __str__(self) -> str:
        told = list[str]()
        for _, each in itertools.groupby(enumerate(self.events), lambda one: one[1] - one[0]):
            (_, first), *more = each
            told.append(f"{first}-{more[-1][1]}" if more else f"{first}")
        options = ["--keep", ",".join(told) or "''"]
        if self.without:
            options += ["--without", ",".join(sorted(self.without))]
        return " ".join(options)


@dataclass(slots=True)
class Course:
    """Where a history's events come from, and where they are noted."""

    told: Sequence[Happened] | None = None
    """These are played; None: they are drawn."""
    without: frozenset[Without] = frozenset()
    noted: list[Happened] | None = None


DRAWN = Course()


@dataclass(frozen=True, slots=True)
class Chances:
    """What may happen in a history at all."""

    reloads: bool
    losses: bool
    stops: bool

    def event(
        self, rng: random.Random, players: Sequence[Player], connections: Sequence[EnvoyConnection], *, stopping: bool
    ) -> Event | None:
        """What happens next. None: nothing."""
        chance = rng.random()
        if chance < 0.55 and players:
            plan = rng.choice(players).plan
            return Event("act", plan.number, inner=plan.layout is INNER)
        if chance < 0.8:
            if not connections:
                return None
            whom = _place(rng, connections)
            return Event("deliver", whom, most=rng.choice((None, rng.randrange(1, 40), rng.randrange(1, 2000))))
        if chance < 0.88:
            return Event("yield")
        if chance < 0.93:
            return Event("take")
        if chance < 0.95:
            if not connections:
                return None
            whom = _place(rng, connections)
            return Event("pause", whom, paused=rng.random() < 0.5)
        if chance < 0.96 and self.reloads:
            return Event("reload")
        if chance < 0.963 and self.losses:
            return Event("lose", _place(rng, connections)) if connections else None
        if chance < 0.965 and self.stops and not stopping:
            return Event("stop")
        return Event("settle") if chance > 0.985 else None


def simpler(plan: Plan, without: frozenset[Without]) -> Plan:
    """An exchange, without what there is to be without."""
    if "deadlines" in without:
        plan = replace(plan, deadline=None)
    if "hosts" in without:
        plan = replace(plan, layout=OWN)
    if "pieces" in without:
        response = replace(plan.exchange.response, pieces=(plan.exchange.response.body,))
        plan = replace(plan, exchange=replace(plan.exchange, response=response))
    return plan


def _place(rng: random.Random, among: Sequence[Any]) -> int:
    """Draws as `rng.choice` does."""
    return rng.choice(range(len(among)))

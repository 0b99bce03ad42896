"""Aliases of several models: which model a conversation is asked of, and whether it is told and counted as it is.

Nothing of the gateway's own arithmetic is used. A conversation's model is one with a weight; another one is asked only
where the alias has it as a fallback, and its backend has shown a reason; and it has to be asked for a second after a
backend of which nothing had been wrong for long can't be reached.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import orjson

from extproc.conformance.host.outcome import Ending, Outcome
from extproc.names import FALLBACK_HEADER, MODEL_HEADER
from extproc.observability.series import Series
from extproc.observability.telemetry import Telemetry
from tests.simulation.checking import check
from tests.simulation.configurations import ALIASES, backend_of, upstream_of
from tests.simulation.plans import Trouble
from tests.simulation.player import Player

_OUT = 1.0
"""Seconds that a backend isn't asked when it has just failed, at least;"""
_FORGOTTEN = 60.0
"""and in which everything is over that has come of an earlier failure."""
_IN_A_ROW = 3
"""Failures that make a backend one that fails."""


@dataclass(slots=True)
class _Backend:
    """What it has shown."""

    refused: int = 0
    """Heads of a failing server's."""
    unreachable: int = 0
    full: int = 0
    last: float = -_FORGOTTEN
    """When it last showed any of these."""
    alone: tuple[Player, float] | None = None
    """Whose answer was that it can't be reached, after nothing had been wrong for long, and when."""
    known: int | None = None
    """How many exchanges had begun when the processor was sure to have taken that."""

    def may_be(self, why: object) -> bool:
        if why == "full":
            return bool(self.full)
        return why == "failing" and bool(self.unreachable or self.refused >= _IN_A_ROW)


@dataclass(slots=True)
class _Asked:
    """A request for an alias, on its way."""

    model: str
    fallback: str | None
    """As the client is to be told of it."""
    backend: str


class Choices:
    """Of one history."""

    def __init__(self) -> None:
        self._backends: dict[str, _Backend] = {}
        self._places: dict[Player, int] = {}
        """In which order they began: many do at one moment."""
        self._begun = Counter[str]()
        """By alias."""
        self._went = Counter[tuple[str, str]]()
        """By alias and model."""
        self._fell_back = Counter[tuple[str, str, str]]()
        """By alias, the conversation's own model, and why."""
        self._asked: dict[Player, _Asked] = {}
        self._shown: set[Player] = set()

    def begun(self, player: Player) -> None:
        if player.plan.alias is not None:
            self._places[player] = len(self._places)
            self._begun[player.plan.alias] += 1

    def forwarded(self, player: Player, backend: str, version: int, now: float) -> None:
        """Its request leaves for this backend. Raises WrongError."""
        alias, told = player.plan.alias, player.told
        check(told.get("alias") == alias, f"Envoy is told of the alias {told.get('alias')!r}, and it is {alias!r}")
        if alias is None:
            return
        split, fallbacks = ALIASES[alias]
        model, own, why = told["model"], told.get("instead_of", told["model"]), told.get("because")
        of = {each: backend_of(each, version) for each in (model, own, *split, *fallbacks)}
        check(own in split, f"a conversation of {alias} is {own}'s, which has no share")
        check(backend == of[model], f"what is {model}'s goes to {backend}")
        if model != own:
            check(model in fallbacks, f"{model} is asked instead of {own}, and is no fallback of {alias}")
            check(self._of(of[own]).may_be(why), f"{model} is asked instead of {own}, which is said to be {why}")
            self._fell_back[alias, own, str(why)] += 1
        elif any(other != own for other in fallbacks):
            self._check_may_be_asked(player, of[own], now, [of[other] for other in fallbacks if other != own])
        self._went[alias, model] += 1
        self._asked[player] = _Asked(model, f"{own} {why}" if model != own else None, backend)

    def _check_may_be_asked(self, player: Player, backend: str, now: float, others: list[str]) -> None:
        of = self._of(backend)
        well = all(self._of(other).last <= now - _FORGOTTEN for other in others)
        if of.alone is not None and of.known is not None and well:
            out = self._places[player] >= of.known and now < of.alone[1] + _OUT
            check(not out, f"{backend} is asked, which can't be reached, and there is another one")

    def backend(self, player: Player) -> str | None:
        """Where it has gone."""
        return self._asked[player].backend if player in self._asked else None

    def shows(self, player: Player, now: float) -> None:
        """Its backend's head is about to be told."""
        asked, trouble = self._asked.get(player), player.plan.trouble
        if asked is None or trouble is None or player in self._shown:
            return
        self._shown.add(player)
        of = self._of(asked.backend)
        match trouble:
            case Trouble.REFUSED:
                of.refused += 1
            case Trouble.UNREACHABLE:
                of.unreachable += 1
            case Trouble.FULL:
                of.full += 1
        if trouble is Trouble.UNREACHABLE and now >= of.last + _FORGOTTEN:
            of.alone, of.known = (player, now), None
        of.last = now

    def over(self, player: Player, outcome: Outcome | None, version: int) -> None:
        """Raises WrongError."""
        asked = self._asked.pop(player, None)
        if asked is None:
            return
        self._shown.discard(player)
        if outcome is None or outcome.client is None or outcome.upstream is None:
            return
        of = self._of(asked.backend)
        if of.alone is not None and of.alone[0] is player:
            of.known = len(self._places)
        told = orjson.loads(outcome.upstream.body)["model"]
        name = upstream_of(asked.model, version)
        check(told == name, f"{asked.model} is asked as {told}, and is {name}")
        if outcome.ending in (Ending.COMPLETE, Ending.LEFT) and (outcome.status == 200 or player.plan.layout.ours):
            for field, expected in ((MODEL_HEADER, asked.model), (FALLBACK_HEADER, asked.fallback)):
                value = outcome.client.first(field)
                said = value.decode() if value is not None else None
                check(said == expected, f"an answer says {field}: {said}, and it is {expected}")

    def judge_counted(self, telemetry: Telemetry) -> None:
        """At the end of the history: whatever has left is counted, and nothing more often than it began."""
        went, fell_back = (_counted(series) for series in telemetry.choices.series)
        for counted, least in ((went, self._went), (fell_back, self._fell_back)):
            for labels, many in least.items():
                count = counted.get(labels, 0)
                check(count >= many, f"{many} requests for {' '.join(labels)} count as {count:g}")
        for alias, many in self._begun.items():
            count = sum(count for labels, count in went.items() if labels[0] == alias)
            check(count <= many, f"{many} requests for {alias} count as {count:g}")

    def _of(self, backend: str) -> _Backend:
        return self._backends.setdefault(backend, _Backend())


def _counted(series: Series) -> dict[tuple[str, ...], float]:
    """By the values of its labels."""
    (family,) = series.collect()
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}

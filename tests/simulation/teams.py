"""A team of clients whose requests are bounded, and what Envoy is told of all that are counted.

Envoy's metadata is merged, name by name: what is told last is what its limits count, and its access log shows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from extproc.config import Config
from extproc.conformance.host.outcome import Outcome
from extproc.exchange.cost import TOTAL
from extproc.server.processor import Processor
from tests.simulation.answers import COST
from tests.simulation.checking import check
from tests.simulation.configurations import AT_A_BACKEND, AT_ONCE
from tests.simulation.layouts import INNER
from tests.simulation.plans import SERVED, Fate, Plan, Second
from tests.simulation.player import Player

_ANSWERED_TWICE = {Second.CALL: 2, Second.WORDS: 2, Second.BUSY: 1, Second.NOTHING: 1, Second.SILENCE: 1}


@dataclass(frozen=True, slots=True)
class Around:
    """Which others of its team there were while an exchange was under way, as clients see it or the processor does."""

    when_begun: frozenset[int]
    begun_later: list[int]

    @property
    def many(self) -> int:
        return len({*self.when_begun, *self.begun_later})


class Team:
    """The exchanges of the team, in one history."""

    def __init__(self, processor: Callable[[], Processor]) -> None:
        self._processor = processor
        self._players: list[Player] = []
        self._around: dict[Player, Around] = {}

    def begun(self, player: Player) -> None:
        if player.plan.team is None:
            return
        there = self._there()
        self._players = [each for each in self._players if self._runs(each, there) or not each.over]
        for other in self._players:
            if (around := self._around.get(other)) is not None:
                around.begun_later.append(id(player))
        self._around[player] = Around(frozenset(map(id, self._players)), [])
        self._players.append(player)

    def forwarded(self, player: Player, backend: str) -> None:
        """Its request leaves for this backend, where it takes a place."""
        player.backend = backend
        if player.plan.team is None:
            return
        there = self._there()
        mine = [each for each in self._players if each.backend is not None and self._runs(each, there)]
        check(len(mine) <= AT_ONCE, f"{len(mine)} requests of a team are under way, and may be {AT_ONCE}")
        at_it = [each for each in mine if each.backend == backend]
        check(len(at_it) <= AT_A_BACKEND, f"{len(at_it)} batch requests are at a backend, and may be {AT_A_BACKEND}")

    def over(self, player: Player) -> bool:
        """Whether it may have been one too many."""
        around = self._around.pop(player, None)
        return around is not None and around.many > 0  # one alone has half of a backend's places, which is one

    def _there(self) -> Collection[tuple[str, bool]]:
        """What the processor has under way, and whether that is the gateway's own."""
        return {(call.exchange.id, call.exchange.request._inner) for call in self._processor()._running}

    def _runs(self, player: Player, there: Collection[tuple[str, bool]]) -> bool:
        return not player.stream.over and (player.id, player.plan.layout is INNER) in there


def judge_told(plan: Plan, config: Config, told: dict[str, Any], outcome: Outcome | None) -> None:
    """What Envoy's metadata has of an exchange whose client comes in. Raises WrongError."""
    for name, expected in (("client", plan.client), ("team", plan.team), ("priority", plan.team and "batch")):
        if name in told:
            check(told[name] == expected, f"Envoy is told of {name} {told[name]!r}, and it is {expected!r}")
    if not config.token_limits or outcome is None:
        return
    cost = told.get(TOTAL)
    if outcome.upstream is None or (plan.mode == SERVED and plan.layout is not INNER):
        check(cost is None, f"{cost} tokens count that no backend was asked for, or whose rounds count themselves")
        return
    if not plan.layout.ours or outcome.status != 200 or (outcome.closed is not None and outcome.closed.status != "OK"):
        return
    check("client" in told, "Envoy isn't told whose request it is")
    check(cost is not None, "an answer isn't counted")
    assert cost is not None
    if plan.fate in (Fate.CUT, Fate.STALLED) or plan.second is Second.BROKEN:
        check(cost > 0, f"an answer counts as {cost} tokens")
    else:
        times = _ANSWERED_TWICE[plan.second] if plan.second is not None else 1
        check(cost == times * COST, f"{times} answers count as {cost} tokens")

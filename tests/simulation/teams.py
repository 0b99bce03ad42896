"""A team whose requests are bounded, and what Envoy's metadata is told of all requests.

Envoy merges the metadata name by name, before it looks at the reply that brings it; a reply that asks for more time it
leaves at once. What is told last is what limits in tokens count, and what the access log shows.
"""

from __future__ import annotations

from typing import Any

import orjson

from extproc.config import Config
from extproc.conformance.host.outcome import Outcome
from extproc.exchange.cost import TOTAL
from extproc.turn.usage import Sent
from tests.simulation.answers import COST
from tests.simulation.checking import check
from tests.simulation.configurations import AT_A_BACKEND, AT_ONCE, TEAM_MODELS
from tests.simulation.layouts import INNER
from tests.simulation.plans import Fate, Plan, Second
from tests.simulation.player import Player
from tests.simulation.serving import Served

_OF_A_CLIENT = AT_A_BACKEND // 2
"""Requests of one client at a backend: half of the places, since there are always others to share them with."""
_OF_INSTRUCTIONS = 2_000
"""Bytes that prompt mode puts before a conversation, at most."""


class TeamExchanges:
    """Of one history."""

    def __init__(self) -> None:
        self._others: dict[Player, set[Player]] = {}
        """Those that may have had a place while it was under way."""
        self._known: list[Player] = []
        self._backends: dict[Player, str] = {}

    def begun(self, player: Player, served: Served) -> None:
        if not _may_take_a_place(player.plan):
            return
        under_way = served.under_way()
        self._known = [each for each in self._known if not each.over or _named(each) in under_way]
        self._backends = {each: backend for each, backend in self._backends.items() if each in self._known}
        for other in self._known:
            if other in self._others:
                self._others[other].add(player)
        self._others[player] = {*self._known}
        self._known.append(player)

    def forwarded(self, player: Player, backend: str, served: Served) -> None:
        """Its request leaves for this backend, where it has a place."""
        if not _may_take_a_place(player.plan):
            return
        self._backends[player] = backend
        under_way = served.under_way()
        there = [each for each in self._backends if not each.stream.over and _named(each) in under_way]
        _at_most(AT_ONCE, there, "of the team")
        there = [each for each in there if self._backends[each] == backend]
        _at_most(AT_A_BACKEND, there, "of the team, at one backend")
        there = [each for each in there if each.plan.client == player.plan.client]
        _at_most(_OF_A_CLIENT, there, "of one client, at one backend")

    def over(self, player: Player, outcome: Outcome | None) -> None:
        """If it was one too many, there were others. Raises WrongError."""
        others = self._others.pop(player, set())
        if outcome is None or outcome.client is None or outcome.status != 429:
            return
        if player.plan.fate is Fate.RUN and player.plan.layout is not INNER:
            return  # it tells what one of its rounds was told
        message = orjson.loads(outcome.client.body)["error"]["message"]
        of_client = [each for each in others if each.plan.client == player.plan.client]
        for words, there, many in (
            ("requests of the team", others, AT_ONCE),
            ("of all clients", others, AT_A_BACKEND),
            ("of this client", of_client, _OF_A_CLIENT),
        ):
            if words in message:
                check(len(there) >= many, f"{len(there)} others are under way, and it gets: {message}")
                return
        check(False, f"a 429 says: {message}")


def _may_take_a_place(plan: Plan) -> bool:
    """A run takes none, but each of its rounds does."""
    of_a_backend = plan.layout is INNER or (plan.fate not in (Fate.RUN, Fate.REFUSED) and plan.mode in TEAM_MODELS)
    return plan.team is not None and of_a_backend


def _named(player: Player) -> tuple[str, bool]:
    return player.id, player.plan.layout is INNER


def _at_most(many: int, there: list[Player], whose: str) -> None:
    check(len(there) <= many, f"{len(there)} requests {whose} are under way, and may be {many}")


def judge_told(plan: Plan, config: Config, told: dict[str, Any], outcome: Outcome | None) -> None:
    """What Envoy's metadata has of an exchange. Raises WrongError."""
    whose = {"client": plan.client, "team": plan.team, "priority": "batch" if plan.team else None}
    for name, expected in whose.items():
        if name in told:
            check(told[name] == expected, f"Envoy is told of {name} {told[name]!r}, and it is {expected!r}")
    if not config.token_limits:
        return
    cost, said = told.get(TOTAL), len(plan.exchange.response.body)
    most = len(plan.exchange.request.body) + _OF_INSTRUCTIONS + said  # bytes, of which a token has one at least
    if outcome is None or outcome.client is None:  # the client, or the call, ended before the answer did
        check(cost is None or cost <= most, f"what came of an answer counts as {cost} tokens")
    elif outcome.upstream is None or outcome.status != 200 or (plan.fate is Fate.RUN and plan.layout is not INNER):
        check(cost is None, f"{cost} tokens count, where no answer came, or its rounds count themselves")
    elif outcome.closed is None or outcome.closed.status == "OK":
        for name, expected in whose.items():
            check(told.get(name) == expected, f"Envoy isn't told of {name} {expected!r}")
        if plan.rewritten and plan.stream and b"\n\n" not in plan.exchange.response.body:
            check(cost is None, f"{cost} tokens count, and the client has an error in the place of an answer")
            return
        check(cost is not None, "an answer isn't counted")
        assert cost is not None
        if plan.fate in (Fate.CUT, Fate.STALLED):
            least = Sent.read(orjson.loads(outcome.upstream.body)).prompt_tokens()
            least = least if plan.stream else min(least, COST)  # of a whole one the count may be there
            check(least <= cost <= most, f"half an answer counts as {cost} tokens, and its prompt as {least}")
        else:
            times = 2 if plan.second in (Second.CALL, Second.WORDS) else 1
            check(cost == times * COST, f"{times} answers count as {cost} tokens")

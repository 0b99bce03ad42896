"""Limits in tokens under load: 500 keys, two gateways that share a service, several requests of each key at a time.

A limit is exceeded by what is under way when it is reached, because an answer counts when it has ended. That nothing
more comes on top is asserted of every request; that it is within 2 %, where what is under way is less than that.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.gateway import wait_until
from tests.limit_load import PATIENCE, Asked, Requests
from tests.rate_limit_service import Told
from tests.test_token_limits import FREE, NOON, Pair, pair

TEAMS, KEYS = 50, 10
OF_TEAM, OF_KEY = 200_000, 100_000
"""Tokens a minute of every second team, and tokens a day of each key, which are fewer only in the other teams."""
FEW, COST, AT_ONCE, OF_NARROW = 1000, 400, 8, 2
"""Tokens a minute of two teams more, what each of their answers costs, how many they ask for at once, and how many at a
time each gateway lets one of them have."""
AMID = 24
"""The team that is asking when a minute ends."""
MINUTE = NOON // 60
"""The first one."""
AGAIN = range(0, 12, 2)
"""Those whose limit was reached in the first minute, and who ask again in the second."""


class Team:
    """Its keys ask until each is refused, several times at a time, now this gateway, now that one."""

    def __init__(self, number: int, running: Pair, requests: Requests) -> None:
        self.name = f"team-{number}"
        self.keys = [f"{self.name}/key-{key}" for key in range(KEYS)]
        self.amid = number == AMID
        self._running, self._requests = running, requests
        if number % 2:  # each key's own limit is the one that is reached
            self.slots, self._long_slots = self.keys * 3, 2 * KEYS
            self._short, self._long = OF_KEY // 500, OF_KEY * 248 // 500
        else:
            self.slots, self._long_slots = self.keys * 2, KEYS
            self._short, self._long = OF_TEAM // 2500, OF_TEAM * 99 // 1000
        self._answered = Counter[int]()
        """Long answers, by minute."""
        self._changed = threading.Condition()

    def long(self, minute: int) -> int:
        """What a long answer costs. Amid one team's work the first minute ends, before its limit is reached."""
        return self._long // 2 if self.amid and minute == MINUTE else self._long

    def use_up(self, slot: int) -> None:
        """Long answers at first, nearly to the limit, and then short ones until one is refused."""
        asked_in = 0
        for number in itertools.count(slot):
            minute = self._running.clock[0] // 60
            if not asked_in or (self.amid and minute != asked_in):
                asked_in = minute
                if slot < self._long_slots:
                    assert self._ask(slot, number, self.long(minute))
                self._until_all_long_ones_are(minute, more=slot < self._long_slots)
            elif not self._ask(slot, number, self._short):
                return

    def _until_all_long_ones_are(self, minute: int, *, more: bool) -> None:
        """Answered, this one and the others of its minute: none is under way when a limit is reached."""
        with self._changed:
            self._answered[minute] += more
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._answered[minute] >= self._long_slots, PATIENCE)

    def _ask(self, slot: int, number: int, cost: int) -> bool:
        """Whether it was answered, and not refused."""
        asked = self._requests.ask(self._running.gateways[number % 2], self.slots[slot], cost, number)
        if asked.outcome == "refused":
            assert (asked.status, asked.code) == (429, "rate_limit_exceeded")
        else:
            assert asked.outcome == "whole", asked
        return asked.outcome == "whole"


def reached(told: list[Told]) -> Iterator[Told]:
    """Each limit that was, where it was."""
    return (each for each in told if each.counted - each.tokens <= each.limit.tokens < each.counted)


def whole(requests: Requests) -> list[Asked]:
    return [each for each in requests.made if each.outcome == "whole"]


@pytest.mark.long
def test_limits_of_500_keys_in_50_teams_hold_within_two_percent(tmp_path: Path) -> None:
    names = [f"team-{team}/key-{key}" for team in range(TEAMS) for key in range(KEYS)]
    limits = {
        f"team-{team}": f"tokens_per_day: {FREE}" if team % 2 else f"tokens_per_minute: {OF_TEAM}"
        for team in range(TEAMS)
    }
    limits |= {
        "wide": f"tokens_per_minute: {FEW}",
        "narrow": f"tokens_per_minute: {FEW}, concurrent_requests: {OF_NARROW}",
    }
    more = ["wide/key", "narrow/key"]
    with pair(tmp_path, [*names, *more], limits, of_keys=OF_KEY) as running, closing(Requests()) as requests:
        teams = [Team(number, running, requests) for number in range(TEAMS)]
        amid = teams[AMID]
        with ThreadPoolExecutor(60) as pool:

            def use_up(team: Team) -> list[Future[None]]:
                return [pool.submit(team.use_up, slot) for slot in range(len(team.slots))]

            first, others = teams[:AMID], teams[AMID + 1 :]
            going = [each for team in first for each in use_up(team)]
            meanwhile = [each for team in others[:8:2] for each in use_up(team)]
            for each in going:
                each.result()
            # None is amid its work now that minutes matter to, but for this one.
            meanwhile += use_up(amid)
            long = ("team_minute", amid.name, amid.long(MINUTE))
            wait_until(
                lambda: sum((each.key, each.value, each.tokens) == long for each in running.limits.told) == KEYS,
                3 * PATIENCE,
            )
            running.clock[0] += 60
            turned = time.monotonic()
            after = [*others[8::2], *others[1::2], *(teams[number] for number in AGAIN)]
            for each in [*meanwhile, *(each for team in after for each in use_up(team))]:
                each.result()
        for gateway in running.gateways:
            assert gateway.stat("ratelimit.failure_mode_allowed") == gateway.stat("ratelimit.error") == 0
        wait_until(lambda: sum(each.key == "client_day" for each in running.limits.told) >= len(whole(requests)))
        running.settle()  # with what would be counted twice

        # Each answer has counted once, for its key and its team, in one minute or the other.
        told = [*running.limits.told]
        for kind in ("client_day", "team_minute", "team_day"):
            counted = sorted((each.value, each.tokens) for each in told if each.key == kind)
            assert counted == sorted(
                (name, asked.cost)
                for asked in whole(requests)
                for name in [asked.name if kind == "client_day" else asked.name.partition("/")[0]]
                if kind == "client_day" or int(name.partition("-")[2]) % 2 == (kind == "team_day")
            )
        assert {each.name for each in whole(requests)} == set(names)

        # Whoever asks when a limit is reached is refused.
        times = {(each.key, each.value, each.beginning): each for each in reached(told)}
        for (_, name, beginning), limit in times.items():
            until = turned if limit.limit.unit == "minute" and beginning == MINUTE * 60 else float("inf")
            late = [
                asked
                for asked in whole(requests)
                if name in {asked.name, asked.name.partition("/")[0]} and limit.at < asked.began and asked.ended < until
            ]
            assert late == []
        assert {each.name for each in requests.made if each.outcome == "refused"} == set(names)

        # Each that should be reached was, and is exceeded by no more than 2 %.
        assert {(key, name) for key, name, _ in times} == {
            *(("team_minute", team.name) for team in teams[::2]),
            *(("client_day", key) for team in teams[1::2] for key in team.keys),
        }
        assert {(("team_minute", teams[number].name, (MINUTE + 1) * 60)) for number in (AMID, *AGAIN)} <= set(times)
        for which, limit in times.items():
            most = max(each.counted for each in told if (each.key, each.value, each.beginning) == which)
            assert most <= limit.limit.tokens * 1.02, which
        assert ("team_minute", amid.name, MINUTE * 60) not in times

        what_is_under_way_comes_on_top(running)


def what_is_under_way_comes_on_top(running: Pair) -> None:
    """However much that is, unless `concurrent_requests` bounds it, at each gateway."""
    with closing(Requests()) as requests, ThreadPoolExecutor(AT_ONCE) as pool:
        for name, most in (("wide", AT_ONCE), ("narrow", 2 * OF_NARROW)):
            made = [
                pool.submit(requests.ask, running.gateways[number % 2], f"{name}/key", COST, 2, slowly=True)
                for number in range(AT_ONCE)
            ]
            served = sum(each.result().outcome == "whole" for each in made)
            running.used("team_minute", name, served * COST)
            assert 2 * COST <= served * COST <= FEW + most * COST
        spent = {name: running.limits.used("team_minute", name) for name in ("wide", "narrow")}
        assert spent["wide"] > FEW * 1.5
        refused = {each.code for each in requests.made if each.outcome == "refused"}
        assert refused <= {"rate_limit_exceeded"}

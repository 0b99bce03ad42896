"""No answer counts twice or not at all, at two gateways under load, while settings change, a pod leaves, a processor
ends or is killed, an Envoy is killed, and the service and its counters restart.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from extproc.config import parse
from extproc.envoy.rate_limit_service import to_yaml
from tests.gateway import Gateway, put, until_healthy, wait_until
from tests.limit_load import COUNTING_NOW, PATIENCE, Asked, Requests, costing
from tests.test_token_limits import FREE, Pair, pair

TEAMS = 4
AT_A_TIME = 2
"""Requests of each key."""
CHEAPEST = 10_000
"""No two answers cost the same, and none less than this. What is counted of a stream that was cut is an estimate, of
less."""
ON_ITS_WAY = 3.0
"""Seconds at most, on a busy machine, from an answer's end at its client to the service."""


@dataclass
class Lost:
    """When counts may be lost: those of answers that ended then, at this gateway or at any."""

    begins: float
    ends: float = float("inf")
    gateway: str | None = None

    def may_have(self, asked: Asked) -> bool:
        return self.gateway in {None, asked.gateway} and self.begins - ON_ITS_WAY < asked.ended < self.ends + ON_ITS_WAY


@dataclass
class Load:
    """Keys that ask one thing after the other, whatever comes of it, now this gateway, now that one."""

    pair: Pair
    requests: Requests
    over: threading.Event = field(default_factory=threading.Event)
    costs: Iterator[int] = field(default_factory=lambda: itertools.count(CHEAPEST))

    def go_on(self, name: str) -> None:
        for number in itertools.count():
            if self.over.is_set():
                return
            gateways = self.pair.gateways
            asked = self.requests.ask(
                gateways[number % len(gateways)], name, next(self.costs), number // 2, slowly=number % 5 == 0
            )
            if asked.outcome != "whole":
                time.sleep(0.05)

    def some(self, gateway: Gateway | None = None, more: int = 24) -> None:
        """Wait for more answers, of this gateway or of any, which begin from now on."""
        now = time.monotonic()
        wait_until(
            lambda: (
                sum(
                    each.outcome == "whole" and each.began > now and gateway in {None, *self._at(each)}
                    for each in self.requests.made
                )
                >= more
            ),
            PATIENCE,
        )

    def _at(self, asked: Asked) -> list[Gateway]:
        return [each for each in self.pair.gateways if each.url == asked.gateway]


def leave(gateway: Gateway, folder: Path, requests: Requests) -> None:
    """What a pod does before it ends (`admin.sh drain`). From the first step on answers close their connections. A pod
    takes new ones for 15 seconds yet, and this one until no client has an old one left."""
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(folder / "admin.sock")), base_url="http://envoy") as admin:
        admin.post("/healthcheck/fail").raise_for_status()
        since = time.monotonic()

        def closed() -> set[int]:
            return {each.thread for each in requests.made if each.began > since and each.gateway == gateway.url}

        wait_until(lambda: len(closed()) == TEAMS * AT_A_TIME, PATIENCE)
        admin.post("/drain_listeners?inboundonly").raise_for_status()
        asked = ("http.openai.downstream_cx_active", "http.openai.downstream_cx_tx_bytes_buffered")
        busy = (*asked, *COUNTING_NOW)  # it counts what it has answered
        wait_until(lambda: not any(map(gateway.stat, busy)), PATIENCE)


@contextlib.contextmanager
def processor(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another one in the place of the one that was there."""
    started = subprocess.Popen(command)
    try:
        until_healthy(f"unix:{folder / 'processor.sock'}", started, PATIENCE)
        yield started
    finally:
        started.terminate()
        started.wait(PATIENCE)


def ended(process: int) -> bool:
    """Whether a child has, though nobody has asked for its status yet."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def change_settings(running: Pair, load: Load, names: list[str]) -> None:
    """The listener, the limits and the service's file change; what is under way goes on."""
    first = running.gateways[0]

    def listeners() -> int:
        return first.stat("listener_manager.listener_modified") + first.stat("listener_manager.listener_added")

    before, file = listeners(), running.folder / "0" / "extproc.yaml"
    changed = file.read_text().replace("requests_per_minute: null", f"tokens_per_minute: {FREE}")
    put(file, changed)
    running.limits.read(to_yaml(parse(changed)))
    wait_until(lambda: listeners() > before, PATIENCE)
    wait_until(lambda: all(running.limits.used("client_minute", name) for name in names), PATIENCE)
    load.some()


WHOLE, AWAY, CUT = ("whole", None), ("unreached", None), ("cut", None)
UNAVAILABLE, FAILED = ("refused", "processor_unavailable"), ("refused", "processor_failed")
MAY_END: Mapping[str, set[tuple[str, str | None]]] = {
    "the service restarts": {WHOLE},
    "its counters restart": {WHOLE},
    "settings change": {WHOLE},
    "a pod leaves": {WHOLE, AWAY},
    "a processor ends": {WHOLE, UNAVAILABLE, FAILED, CUT},
    "a processor is killed": {WHOLE, UNAVAILABLE, FAILED, CUT},
    "an Envoy is killed": {WHOLE, AWAY, CUT},
}
"""How a request may, by what is done meanwhile."""


@dataclass
class Steps:
    """What was done, from when on."""

    taken: list[tuple[str, float]] = field(default_factory=list)

    def begin(self, name: str) -> None:
        self.taken.append((name, time.monotonic()))

    def at(self, when: float) -> str:
        return [name for name, begun in self.taken if begun <= when][-1]


def counts(running: Pair, kind: str) -> Counter[tuple[str, int]]:
    """How often a key's name, or a team's, has come with so many tokens."""
    return Counter((each.value, each.tokens) for each in running.limits.told if each.key == kind)


def uncounted(running: Pair, answers: list[Asked]) -> list[Asked]:
    """Those of these that the service wasn't told of."""
    of_keys = counts(running, "client_day")
    return [each for each in answers if not of_keys[each.name, each.cost]]


@pytest.mark.long
def test_no_answer_counts_twice_or_not_at_all_through_changes_and_restarts(tmp_path: Path) -> None:
    names = [f"team-{number}/key" for number in range(TEAMS)]
    teams = {f"team-{number}": f"tokens_per_day: {FREE}" for number in range(TEAMS)}
    steps, lost = Steps(), list[Lost]()
    with (
        pair(tmp_path, names, teams) as running,
        closing(Requests()) as requests,
        ThreadPoolExecutor(TEAMS * AT_A_TIME) as pool,
    ):
        load = Load(running, requests)
        steps.begin("the service restarts")
        going = [pool.submit(load.go_on, name) for name in names * AT_A_TIME]
        try:
            load.some()
            lost.append(Lost(time.monotonic()))
            running.down()
            load.some()
            running.up()
            lost[-1].ends = time.monotonic()

            steps.begin("its counters restart")
            load.some()
            lost.append(Lost(time.monotonic()))
            running.counters.stop()
            load.some()
            running.counters.start()
            lost[-1].ends = time.monotonic()
            load.some()

            steps.begin("settings change")
            change_settings(running, load, names)

            steps.begin("a pod leaves")
            leave(running.gateways[0], tmp_path / "0", requests)
            running.running[0].close()
            running.start(0)
            load.some(running.gateways[0])

            # Envoy goes on to send it requests, so that it is never idle: at the end of its grace it cuts some.
            steps.begin("a processor ends")
            other, folder = running.gateways[1], tmp_path / "1"
            command = Path(f"/proc/{other.processor}/cmdline").read_text().split("\0")[:-1]
            os.kill(other.processor, signal.SIGTERM)
            wait_until(lambda: ended(other.processor), PATIENCE)
            with processor(command, folder) as second:
                load.some(other)

                steps.begin("a processor is killed")
                second.kill()
                second.wait(PATIENCE)
                with processor(command, folder):
                    load.some(other)

                    steps.begin("an Envoy is killed")
                    lost.append(Lost(time.monotonic(), time.monotonic(), other.url))
                    os.kill(other.processes[1], signal.SIGKILL)
                    load.some(running.gateways[0])
                    running.running[1].close()
            running.start(1)
            load.some(running.gateways[1])
        finally:
            load.over.set()
        for done in going:
            done.result()

        whole = [each for each in requests.made if each.outcome == "whole"]
        safe = [each for each in whole if not any(each_lost.may_have(each) for each_lost in lost)]
        assert {steps.at(each.ended) for each in safe} >= set(MAY_END) - {*list(MAY_END)[:2]}
        with contextlib.suppress(AssertionError):  # the next one says which
            wait_until(lambda: not uncounted(running, safe), 10)
        assert [(steps.at(each.ended), each) for each in uncounted(running, safe)] == []
        running.settle()  # with what would be counted twice

        at_the_backend = b"".join(each.body for each in running.backend.requests)
        for each in requests.made:
            if steps.at(each.ended) == "a pod leaves" and each.outcome == "unreached":
                assert costing(each.cost).encode() not in at_the_backend
            assert (each.outcome, each.code) in MAY_END[steps.at(each.ended)], (steps.at(each.ended), each)
        of_keys = counts(running, "client_day")
        # Estimates may be the same by chance: two streams of a key, cut at the same word.
        assert [each for each, times in of_keys.items() if times > 1 and each[1] >= CHEAPEST] == []
        assert counts(running, "team_day") == Counter(
            (name.partition("/")[0], cost) for name, cost in of_keys.elements()
        )

        # Nothing else counts, but for what had come of streams that were cut, and what an Envoy had told that was
        # killed before it had sent it.
        cut = [each for each in requests.made if each.outcome == "cut"]
        killed = [each for each in requests.made if each.outcome == "unreached" and lost[2].may_have(each)]
        others = {*requests.made} - {*whole, *cut, *killed}
        assert [(steps.at(each.ended), each) for each in others if of_keys[each.name, each.cost]] == []
        estimates = Counter(name for name, cost in of_keys.elements() if cost < CHEAPEST)
        assert estimates <= Counter(each.name for each in cut if each.status == 200)

        # While the service or its counters are away answers are served, and don't count. No others are lost, but for
        # what was on its way from an Envoy that was killed.
        missed = [each for each in whole if not of_keys[each.name, each.cost]]
        for away in lost[:2]:
            assert any(away.begins < each.ended < away.ends for each in missed)
        assert sum(each not in safe and lost[2].may_have(each) for each in missed) <= TEAMS * AT_A_TIME
        for name in names:
            told = sum(cost for (key, cost), _ in of_keys.items() if key == name)
            uncertain = sum(each.cost for each in missed if each.name == name and lost[1].may_have(each))
            assert told <= running.limits.used("client_day", name) <= told + uncertain

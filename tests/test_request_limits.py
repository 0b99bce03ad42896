"""Requests per minute on two real Envoys that share a service, and on one whose service is away."""

from __future__ import annotations

import itertools
import re
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from extproc.config import ConfigError, parse
from extproc.envoy.rate_limit_service import to_yaml
from tests.gateway import wait_until
from tests.limit_load import Requests, costing, key_of
from tests.openapi.document import DOCUMENT
from tests.test_token_limits import FREE, ONE, Pair, ask, pair

OF_A_KEY = 6
"""Requests a minute. Each Envoy's bucket gets one back in 10 seconds, which no test here waits for."""
TEAMS = {
    "search": "requests_per_minute: 8",
    "fair": "requests_per_minute: 8",
    "shop": "requests_per_minute: 2",
    "often": f"requests_per_minute: 1000, tokens_per_day: {FREE}",
    "poor": "requests_per_minute: 1000, tokens_per_day: 100",
}
KEYS = ["alice", "bob", "frida", *(f"{team}/{number}" for team in TEAMS for number in range(10))]
REQUESTS = [f"x-ratelimit-{name}-requests" for name in ("limit", "remaining", "reset")]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("requests"), KEYS, TEAMS, per_minute=OF_A_KEY) as running:
        yield running


def test_two_envoys_let_through_as_many_as_one(two: Pair) -> None:
    turns = itertools.cycle(two.gateways)
    answers = [ask(next(turns), "alice", stream=bool(number & 2)) for number in range(OF_A_KEY)]
    told = [[answer.headers[name] for name in REQUESTS] for answer in answers]
    assert told == [[str(OF_A_KEY), str(left), "1m0s"] for left in reversed(range(OF_A_KEY))]
    asked = len(two.backend.requests)
    for gateway in two.gateways:
        assert ask(gateway, "alice").status_code == 429
    assert len(two.backend.requests) == asked
    assert ask(two.gateways[0], "often/0").status_code == 200


def test_a_teams_keys_share_its_requests_at_both(two: Pair) -> None:
    one, other = two.gateways
    cases = [(one, 0), (other, 1), (one, 2), (other, 3), (one, 0), (other, 1), (one, 2), (other, 3)]
    assert [ask(gateway, f"search/{key}").status_code for gateway, key in cases] == [200] * 8
    refused = ask(one, "search/0")
    assert (refused.status_code, refused.headers["x-ratelimit-limit-requests"]) == (429, "8")
    # Of a team without a limit that is reached, and of none.
    assert ask(one, "often/0").status_code == 200


def test_what_a_key_is_refused_counts_for_no_team(two: Pair) -> None:
    turns = itertools.cycle(two.gateways)
    answers = [ask(next(turns), "fair/0") for _ in range(12)]
    assert [answer.status_code for answer in answers] == [200] * OF_A_KEY + [429] * 6
    # Of the key and its team, that with less left.
    told = [[answer.headers[name] for name in REQUESTS] for answer in answers]
    assert told == [[str(OF_A_KEY), str(max(0, 5 - number)), "1m0s"] for number in range(12)]
    counted = two.limits.used("client_requests_minute", "fair/0"), two.limits.used("team_requests_minute", "fair")
    assert counted == (12, 6)
    others = [ask(next(turns), f"fair/{key}") for key in (1, 2, 3)]
    assert [answer.status_code for answer in others] == [200, 200, 429]
    assert [[answer.headers[name] for name in REQUESTS] for answer in others] == [["8", left, "1m0s"] for left in "100"]


def test_what_is_refused_says_in_each_dialect_when_to_come_again(two: Pair) -> None:
    two.clock[0] += 60
    one, other = two.gateways
    assert [ask(one, "shop/0").status_code, ask(other, "shop/1").status_code] == [200, 200]
    two.clock[0] += 13
    # Each gateway's own bucket has one more.
    for gateway, key, dialect in ((one, 2, "chat"), (other, 2, "messages")):
        refused = ask(gateway, f"shop/{key}", dialect=dialect, stream=True)
        error = refused.json()["error"]
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "47")
        assert [refused.headers[name] for name in REQUESTS] == ["2", "0", "47s"]
        assert "in this minute" in error["message"]
        if dialect == "messages":
            assert (refused.json()["type"], error["type"]) == ("error", "rate_limit_error")
        else:
            assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
        assert "x-extproc-limited" not in refused.headers
    two.clock[0] += 47
    used = two.limits.used("team_requests_minute", "shop")
    # The buckets are empty now: they refuse what the service would let in, and it hears nothing of that.
    refused = ask(one, "shop/3", dialect="responses")
    assert (refused.status_code, refused.json()["error"]["type"]) == (429, "requests")
    assert [refused.headers[name] for name in REQUESTS] == ["2", "0", "1m0s"]
    assert 2 <= int(refused.headers["retry-after"]) <= 30  # two a minute: one in 30 seconds
    assert two.limits.used("team_requests_minute", "shop") == used


def test_a_request_counts_once_however_often_a_backend_is_asked_for_it(two: Pair) -> None:
    gateway = two.gateways[0]
    before, asked = two.limits.used("team_requests_minute", "often"), len(two.backend.requests)
    # No call comes, so the gateway asks again; and one of the backend's two replicas isn't there.
    for asks in range(1, 10):
        ask(gateway, f"often/{asks}", model="again", tools=True, tool_choice="required")
        if asks >= 3 and gateway.stat("cluster.half.upstream_rq_retry") > 0:  # Envoy draws the replica by lot
            break
    assert gateway.stat("cluster.half.upstream_rq_retry") > 0
    assert len(two.backend.requests) == asked + 2 * asks
    assert two.limits.used("team_requests_minute", "often") == before + asks


def test_what_the_gateway_answers_itself_counts_at_its_own_bucket_alone(two: Pair) -> None:
    gateway, key = two.gateways[0], "often/3"
    before = two.limits.used("client_requests_minute", key)
    listed = gateway.http.get("/v1/models", headers={"authorization": f"Bearer {key_of(key)}"})
    wrong = ask(gateway, key, model="none")
    assert (listed.status_code, wrong.status_code) == (200, 404)
    assert int(listed.headers[REQUESTS[1]]) == int(wrong.headers[REQUESTS[1]]) + 1
    assert two.limits.used("client_requests_minute", key) == before
    headers = {"authorization": f"Bearer {key_of(key)}"}
    gateway.http.post("/v1/completions", json={"model": "small", "prompt": "Hello!"}, headers=headers)
    assert two.limits.used("client_requests_minute", key) == before + 1


@pytest.mark.parametrize(("name", "calls"), [("often/0", 4), ("bob", 3)])
def test_a_request_is_asked_for_three_times_at_most(two: Pair, name: str, calls: int) -> None:
    # For tokens, the key's requests and the team's; and when its answer has ended, the service is told its cost.
    # By the time that the second request's questions have come, so would any further one of the first's.
    two.settle()
    expected = two.limits.asked + 2 * calls
    for _ in range(2):
        assert ask(two.gateways[1], name).status_code == 200
    wait_until(lambda: two.limits.asked >= expected)
    assert two.limits.asked == expected


def test_both_kinds_of_limits_are_told_and_who_has_no_tokens_has_sent_no_request(two: Pair) -> None:
    answer = ask(two.gateways[0], "poor/0", text=costing(101))
    assert [answer.headers[f"x-ratelimit-limit-{of}"] for of in ("requests", "tokens")] == [str(OF_A_KEY), "100"]
    told = {name: value for name, value in answer.headers.items() if name.startswith("x-ratelimit-")}
    assert len(told) == 6
    for name, value in told.items():
        assert re.fullmatch(DOCUMENT["components"]["headers"][name]["schema"]["pattern"], value), name
    two.used("team_day", "poor", 101)
    refused = ask(two.gateways[1], "poor/1")
    assert (refused.status_code, refused.json()["error"]["type"]) == (429, "tokens")
    assert refused.headers["x-ratelimit-remaining-tokens"] == "0"
    assert two.limits.used("team_requests_minute", "poor") == 1


def test_while_the_service_is_away_each_envoy_holds_the_limit_for_itself(two: Pair) -> None:
    two.down()
    try:
        for gateway in two.gateways:
            answers = [ask(gateway, "frida") for _ in range(OF_A_KEY + 1)]
            assert [answer.status_code for answer in answers] == [200] * OF_A_KEY + [429]
            # When all are back: so many times 10 seconds; and when one is.
            told = [[answer.headers[name] for name in REQUESTS] for answer in answers[:2]]
            assert told == [["6", "5", "10s"], ["6", "4", "20s"]]
            assert answers[-1].headers[REQUESTS[2]] == "1m0s"
            assert 2 <= int(answers[-1].headers["retry-after"]) <= 10
    finally:
        two.up()


def test_a_bootstrap_that_stands_alone_counts_by_the_service_or_serves_nobody(tmp_path: Path) -> None:
    with pair(tmp_path, ["alice"], {"a": "priority: batch"}, when_down="refuse", n=1, per_minute=2) as alone:
        [gateway] = alone.gateways
        assert [ask(gateway, "alice").status_code for _ in range(3)] == [200, 200, 429]
        alone.down()
        refused = ask(gateway, "alice")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "rate_limits_unavailable")
        assert refused.headers["retry-after"] == "1"


@pytest.mark.long
def test_a_service_that_hangs_costs_each_request_its_time_once_per_question(tmp_path: Path) -> None:
    keys, teams = ["alice", "a/bob"], {"a": "requests_per_minute: 9"}
    with pair(tmp_path, keys, teams, n=1, per_minute=9, timeout=0.5) as alone:
        [gateway] = alone.gateways
        alone.down()
        with socket.create_server(("127.0.0.1", alone.port)):  # which takes connections, and reads nothing
            for name, questions in (("alice", 2), ("a/bob", 3)):
                began = time.monotonic()
                assert ask(gateway, name).status_code == 200
                assert time.monotonic() - began >= questions * 0.5
                assert gateway.stat("ratelimit.failure_mode_allowed") == (2 if name == "alice" else 5)


@pytest.mark.long
def test_under_load_exactly_as_many_pass_as_may(tmp_path: Path) -> None:
    """Each key asks at two Envoys at once, for twice of what it may. A team's limit is reached before its keys' are."""
    of_a_key, of_a_team = 10, 30
    held, free = ([f"{team}/{number}" for number in range(8)] for team in ("held", "free"))
    teams = {"held": f"requests_per_minute: {of_a_team}", "free": ""}
    with pair(tmp_path, [*held, *free], teams, per_minute=of_a_key) as running, closing(Requests()) as requests:
        with ThreadPoolExecutor(16) as pool:
            every = enumerate(itertools.product([*held, *free] * of_a_key, running.gateways))
            asking = [pool.submit(requests.ask, gateway, key, 100, number) for number, (key, gateway) in every]
        for each in asking:
            each.result()
        assert {(each.outcome, each.status) for each in requests.made} == {("whole", 200), ("refused", 429)}
        passed = Counter(each.name for each in requests.made if each.outcome == "whole")
        assert sum(passed[key] for key in held) == of_a_team
        assert {key: passed[key] for key in free} == dict.fromkeys(free, of_a_key)
        assert len(running.backend.requests) == passed.total()


@pytest.mark.long
def test_a_run_counts_once(tmp_path: Path) -> None:
    characters = tmp_path / "characters"
    characters.mkdir()
    (characters / "poet.py").write_text('MODEL = "small"\nPROMPT = "You are a poet."\n')
    with pair(tmp_path, ["alice"], {"a": ""}, n=1, more=f"characters: {characters}\n", per_minute=2) as alone:
        [gateway] = alone.gateways
        assert ask(gateway, "alice", model="character/poet").status_code == 200
        assert alone.limits.used("client_requests_minute", "alice") == 1
        assert len(alone.backend.requests) == 1


def test_the_services_file_names_each_limit() -> None:
    config = f"""{{{ONE}, api_keys: /k, rate_limit_service: {{address: "h:1"}}, limits: {{tokens_per_day: 9}},
        teams: [{{name: a, requests_per_minute: 3}}, {{name: b}}, {{name: c, requests_per_minute: 4}}]}}"""

    def limit(key: str, most: int, unit: str = "minute", **value: str) -> dict[str, Any]:
        return {"key": key, **value, "rate_limit": {"unit": unit, "requests_per_unit": most}}

    assert yaml.safe_load(to_yaml(parse(config)))["descriptors"] == [
        limit("client_day", 9, "day"),
        limit("client_requests_minute", 1200),
        limit("team_requests_minute", 3, value="a"),
        limit("team_requests_minute", 4, value="c"),
    ]


def test_a_limit_that_holds_for_nobody_is_refused_and_so_is_a_service_that_counts_for_nobody() -> None:
    with pytest.raises(ConfigError, match=r"limits\.requests_per_minute: without `api_keys` or `jwt`"):
        parse(f"{{{ONE}, limits: {{requests_per_minute: 5}}}}")
    assert parse(f"{{{ONE}, limits: {{requests_per_minute: null}}}}").global_limits == ()
    with pytest.raises(ConfigError, match="rate_limit_service: without `api_keys` or `jwt`"):
        parse(f"{{{ONE}, rate_limit_service: {{address: 'h:1'}}}}")
    assert parse(f"{{{ONE}, api_keys: /k, rate_limit_service: {{address: 'h:1'}}}}").global_limits

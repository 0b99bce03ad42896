"""One client's requests never take all that a backend can do."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.exchange.concurrency import LONGEST, Concurrency, Lease
from scripted_vllm import Reply
from scripted_vllm.troubles import Stall
from tests.gateway import Gateway, wait_until
from tests.hardening.gateways import ALICE, BOB, attacked_gateway
from tests.pods.clients import CHAT, MODEL, TOOLS

pytestmark = pytest.mark.long

CAPACITY = 8
TRIES = 20


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    with attacked_gateway(folder, keys=True, backend=f", max_requests: {CAPACITY}") as running:
        yield running


@pytest.fixture
def gateway(shared: Gateway) -> Gateway:
    shared.backend.forget()
    return shared


def asking(key: str, *, tools: bool, stream: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"model": MODEL, "stream": stream, "messages": [{"role": "user", "content": "Count."}]}
    content = json.dumps(fields | ({"tools": TOOLS} if tools else {}))
    return {"content": content, "headers": {"authorization": f"Bearer {key}"}}


@pytest.mark.parametrize("tools", [True, False], ids=["with tools", "past the processor"])
def test_a_client_that_holds_its_streams_leaves_room_for_another(gateway: Gateway, tools: bool) -> None:
    gateway.backend.play(*[Reply("Hello", trouble=Stall(after=1, seconds=60))] * (CAPACITY // 2))
    with httpx.Client(base_url=gateway.url, timeout=30) as client, ExitStack() as held:
        answers = [
            held.enter_context(client.stream("POST", CHAT, **asking(ALICE, tools=tools, stream=True)))
            for _ in range(TRIES)
        ]
        statuses = [answer.status_code for answer in answers]
        assert statuses == [200] * (CAPACITY // 2) + [429] * (TRIES - CAPACITY // 2)
        refused = answers[-1]
        assert refused.headers["retry-after"] == "1"
        error = json.loads(refused.read())["error"]
        assert error["code"] == "rate_limit_exceeded"
        assert error["message"].startswith(f"{CAPACITY // 2} requests of this client are under way")
        for each in (True, False):
            assert client.post(CHAT, **asking(BOB, tools=each, stream=False)).status_code == 200
    # What is over counts no more.
    wait_until(lambda: len(gateway.backend.abandoned) == CAPACITY // 2)
    with httpx.Client(base_url=gateway.url, timeout=30) as client:
        wait_until(lambda: client.post(CHAT, **asking(ALICE, tools=tools, stream=False)).status_code == 200)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(1, 5)), max_size=200), st.integers(2, 20))
def test_nobody_takes_more_than_is_left_and_nothing_is_counted_twice(
    steps: list[tuple[str, bool, int]], capacity: int
) -> None:
    concurrency = Concurrency()
    leases: dict[str, list[Lease]] = {client: [] for client in "abc"}
    for client, takes, amount in steps:
        used = {each: sum(lease.amount for lease in of) for each, of in leases.items()}
        assert [concurrency.used(each, "qwen") for each in "abc"] == list(used.values())
        if takes:
            lease = concurrency.take(client, "qwen", capacity, amount=amount, alone=False)
            assert (lease is None) == (used[client] > 0 and used[client] + amount > capacity - sum(used.values()))
            if lease is not None:
                leases[client].append(lease)
        elif leases[client]:
            number = leases[client].pop().number
            concurrency.release(number)
            concurrency.release(number)
    for lease in itertools.chain(*leases.values()):
        concurrency.release(lease.number)
    assert [concurrency.used(each, "qwen") for each in "abc"] == [0, 0, 0]


def test_a_client_has_the_number_that_the_settings_give_it_and_all_when_there_is_no_other() -> None:
    concurrency = Concurrency()
    assert [taken(concurrency, limit=2) is not None for _ in range(3)] == [True, True, False]
    assert concurrency.take("a", "other", 8, 2, alone=False) is not None
    alone = Concurrency()
    assert [alone.take("a", "qwen", 8, alone=True) is not None for _ in range(9)] == [True] * 8 + [False]


def taken(concurrency: Concurrency, limit: int = 1) -> Lease | None:
    return concurrency.take("a", "qwen", 8, limit, alone=False)


class TestPassed:
    def test_what_went_past_counts_until_envoy_tells_its_end(self) -> None:
        concurrency = Concurrency()
        concurrency.expects_log = True
        lease = passed(concurrency)
        assert taken(concurrency) is None
        concurrency.release(lease.number)
        assert taken(concurrency)

    def test_where_nobody_tells_its_end_it_does_not_count(self) -> None:
        concurrency = Concurrency()
        passed(concurrency)
        assert taken(concurrency)

    def test_one_whose_end_was_lost_counts_for_hours_and_not_for_ever(self) -> None:
        now = [0.0]
        concurrency = Concurrency(lambda: now[0])
        concurrency.expects_log = True
        passed(concurrency)
        now[0] = LONGEST - 1
        assert taken(concurrency) is None
        now[0] = LONGEST
        assert taken(concurrency)

    def test_an_envoy_that_goes_takes_along_what_it_would_have_told(self) -> None:
        concurrency = Concurrency()
        concurrency.expects_log = True
        passed(concurrency)
        concurrency.forget_passed()
        assert taken(concurrency)


def passed(concurrency: Concurrency) -> Lease:
    lease = taken(concurrency)
    assert lease is not None
    concurrency.passed(lease)
    return lease

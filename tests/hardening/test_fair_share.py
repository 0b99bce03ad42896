"""One client's requests never take all that a backend can do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.concurrency import LONGEST, Concurrency, Lease
from extproc.openai.errors import ApiError
from extproc.scripted_vllm import Reply
from extproc.scripted_vllm.troubles import Stall
from tests.gateway import Gateway, wait_until
from tests.hardening.gateways import ALICE, BOB, attacked_gateway
from tests.pods.clients import CHAT, MODEL, TOOLS

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
        assert error["message"].startswith(f"{CAPACITY // 2} requests with this key are under way")
        for each in (True, False):
            assert client.post(CHAT, **asking(BOB, tools=each, stream=False)).status_code == 200
    # What is over counts no more.
    wait_until(lambda: len(gateway.backend.abandoned) == CAPACITY // 2)
    with httpx.Client(base_url=gateway.url, timeout=30) as client:
        wait_until(lambda: client.post(CHAT, **asking(ALICE, tools=tools, stream=False)).status_code == 200)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=200), st.integers(2, 20))
def test_nobody_takes_more_than_is_left_and_nothing_is_counted_twice(
    steps: list[tuple[str, bool]], capacity: int
) -> None:
    concurrency = Concurrency()
    leases: dict[str, list[Lease]] = {client: [] for client in "abc"}
    for client, takes in steps:
        used = sum(map(len, leases.values()))
        if takes:
            mine = len(leases[client])
            if mine and mine >= capacity - used:
                with pytest.raises(ApiError, match="429"):
                    concurrency.take(client, "qwen", capacity, None, alone=False)
            else:
                leases[client].append(concurrency.take(client, "qwen", capacity, None, alone=False))
        elif leases[client]:
            number = leases[client].pop().number
            concurrency.release(number)
            concurrency.release(number)
    for client in "abc":
        for lease in leases[client]:
            concurrency.release(lease.number)
    for _ in range(capacity):
        concurrency.take("a", "qwen", capacity, None, alone=True)  # all is free again


def test_a_client_has_the_number_that_the_settings_give_it_and_all_when_there_is_no_other() -> None:
    concurrency = Concurrency()
    concurrency.take("a", "qwen", 8, 2, alone=False)
    concurrency.take("a", "qwen", 8, 2, alone=False)
    with pytest.raises(ApiError, match="2 requests with this key"):
        concurrency.take("a", "qwen", 8, 2, alone=False)
    concurrency.take("a", "other", 8, 2, alone=False)
    alone = Concurrency()
    for _ in range(8):
        alone.take("a", "qwen", 8, None, alone=True)
    with pytest.raises(ApiError):
        alone.take("a", "qwen", 8, None, alone=True)


class TestPassed:
    def test_what_went_past_counts_until_envoy_tells_its_end(self) -> None:
        concurrency = Concurrency()
        concurrency.expects_log = True
        lease = concurrency.take("a", "qwen", 8, 1, alone=False)
        concurrency.passed(lease)
        with pytest.raises(ApiError):
            concurrency.take("a", "qwen", 8, 1, alone=False)
        concurrency.release(lease.number)
        concurrency.take("a", "qwen", 8, 1, alone=False)

    def test_where_nobody_tells_its_end_it_does_not_count(self) -> None:
        concurrency = Concurrency()
        concurrency.passed(concurrency.take("a", "qwen", 8, 1, alone=False))
        concurrency.take("a", "qwen", 8, 1, alone=False)

    def test_one_whose_end_was_lost_counts_for_hours_and_not_for_ever(self) -> None:
        now = [0.0]
        concurrency = Concurrency(lambda: now[0])
        concurrency.expects_log = True
        concurrency.passed(concurrency.take("a", "qwen", 8, 1, alone=False))
        now[0] = LONGEST - 1
        with pytest.raises(ApiError):
            concurrency.take("a", "qwen", 8, 1, alone=False)
        now[0] = LONGEST
        concurrency.take("a", "qwen", 8, 1, alone=False)

    def test_an_envoy_that_goes_takes_along_what_it_would_have_told(self) -> None:
        concurrency = Concurrency()
        concurrency.expects_log = True
        concurrency.passed(concurrency.take("a", "qwen", 8, 1, alone=False))
        concurrency.forget_passed()
        concurrency.take("a", "qwen", 8, 1, alone=False)

"""Who has no key, or asks too often, is told so by Envoy: it costs the processor nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from extproc.exchange.api_keys import hash_line
from tests.gateway import Gateway, put, wait_until
from tests.hardening.gateways import ALICE, BOB, attacked_gateway
from tests.pods.clients import CHAT, MODEL

pytestmark = pytest.mark.long

BODY = {"model": MODEL, "messages": [{"role": "user", "content": "Count."}]}
PER_MINUTE = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Gateway]:
    with attacked_gateway(folder, f"limits: {{requests_per_minute: {PER_MINUTE}}}", keys=True) as running:
        wait_until(lambda: running.stat("extension_config_discovery.http_filter.extproc.key_check.config_reload") > 0)
        yield running


def ask(gateway: Gateway, key: str | None = None, header: str = "authorization") -> httpx.Response:
    headers = {} if key is None else {header: f"Bearer {key}" if header == "authorization" else key}
    return gateway.http.post(CHAT, json=BODY, headers=headers)


def asked_of_the_processor(gateway: Gateway) -> int:
    return gateway.stat("http.openai.ext_proc.streams_started")


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "You didn't provide an API key"),
        ({"authorization": "Basic abc"}, "You didn't provide an API key"),
        ({"authorization": "Bearer"}, "You didn't provide an API key"),
        ({"authorization": "Bearer wrong"}, "Incorrect API key"),
        ({"x-api-key": "x" * 50_000}, "Incorrect API key"),
        ({"api-key": "wrong", "x-extproc-client": "alice"}, "Incorrect API key"),
    ],
)
def test_a_request_without_a_right_key_never_reaches_the_processor(
    gateway: Gateway, headers: dict[str, str], message: str
) -> None:
    before = asked_of_the_processor(gateway)
    for path in (CHAT, "/v1/embeddings"):
        answer = gateway.http.post(path, json=BODY, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert message in answer.json()["error"]["message"]
        assert answer.json()["error"]["code"] == "invalid_api_key"
    assert asked_of_the_processor(gateway) == before


def test_such_requests_are_counted_by_their_reasons(gateway: Gateway) -> None:
    before = [gateway.stat(f"http.openai.rbac.policy.{reason}.denied") for reason in ("no_key", "wrong_key")]
    ask(gateway)
    ask(gateway, "wrong")
    after = [gateway.stat(f"http.openai.rbac.policy.{reason}.denied") for reason in ("no_key", "wrong_key")]
    assert after == [before[0] + 1, before[1] + 1]


def test_too_many_requests_of_one_key_are_refused_and_those_of_another_served(gateway: Gateway) -> None:
    answers = [ask(gateway, ALICE, "x-api-key") for _ in range(PER_MINUTE + 1)]
    *served, refused = answers
    assert [answer.status_code for answer in served] == [200] * PER_MINUTE
    before = asked_of_the_processor(gateway)
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= math.ceil(60 / PER_MINUTE)
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert ask(gateway, ALICE).status_code == 429
    assert asked_of_the_processor(gateway) == before
    assert ask(gateway, BOB).status_code == 200


def test_a_key_that_comes_is_known_and_one_that_goes_is_not(gateway: Gateway, folder: Path) -> None:
    keys = folder / "keys"
    before, carol = keys.read_text(), "carol-comes-later-today"
    put(keys, f"{before}{hash_line('carol', carol)}\n")
    wait_until(lambda: ask(gateway, carol).status_code == 200)
    put(keys, before)
    wait_until(lambda: ask(gateway, carol).status_code == 401)

    def refused_by_envoy() -> bool:
        asked = asked_of_the_processor(gateway)
        return ask(gateway, carol).status_code == 401 and asked_of_the_processor(gateway) == asked

    wait_until(refused_by_envoy)

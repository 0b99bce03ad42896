"""Batch requests leave room for interactive ones, and go behind them where the backend knows priorities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest

from extproc.config import ConfigError, parse
from extproc.control.reloading import changes_for_envoy
from extproc.exchange.api_keys import hash_line
from extproc.exchange.concurrency import TEAMS, Concurrency, batch_of
from extproc.exchange.effects import Prepare
from extproc.exchange.machine import Exchange
from extproc.turn.memory import Memory
from extproc.turn.retry import Fault
from extproc.turn.upstream import UpstreamRequest
from scripted_vllm import Reply
from scripted_vllm.checks import ChatRequest
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway, wait_until
from tests.test_exchange import CHAT, metadata, only, request_body, request_headers
from tests.test_memory import conversation
from tests.test_teams import KEYS, USER, Asker, refused

CONFIG = """
models:
  - {name: small, backend: qwen, tools: prompt, retry: true}
  - {name: plain, backend: qwen, tools: native}
  - {name: other, backend: other, tools: native}
backends:
  - {name: qwen, address: 127.0.0.1:8000, max_requests: 8, max_batch_requests: 3, priority_scheduling: true}
  - {name: other, address: 127.0.0.1:8001}
api_keys: /keys
teams:
  - {name: search, priority: batch}
  - {name: shop, priority: batch}
  - {name: nowhere, priority: interactive}
"""
HELLO = {"model": "small", "messages": USER}
TOOLS = [{"type": "function", "function": {"name": "look"}}]


@pytest.fixture
def asker() -> Asker:
    return Asker(parse(CONFIG))


class TestPlaces:
    def test_batch_requests_have_a_part_of_the_backend_and_the_others_all(self, asker: Asker) -> None:
        batch = [asker.asks(name, HELLO)[0] for name in ("search/alice", "search/bob", "shop/carol")]
        _, reply = asker.asks("search/alice", HELLO)
        status, error = refused(reply)
        assert (status, error["code"], error["type"]) == (429, "batch_limit_exceeded", "requests")
        assert "3 batch requests are under way at this model's backend, which takes 3" in error["message"]
        told = {field.header.key: field.header.raw_value for field in reply.immediate_response.headers.set_headers}
        assert told["retry-after"] == b"1"
        assert metadata(reply) == {"error": "batch_limit_exceeded"}
        counted = asker.telemetry.registry.get_sample_value
        assert counted("extproc_refused_requests_total", {"code": "batch_limit_exceeded"}) == 1
        # Whoever waits for an answer is let in, of a team or of none.
        for name in ("erin", "nowhere/dave", "erin"):
            assert asker.asks(name, HELLO)[1].WhichOneof("response") == "request_body"
        # At another backend there is room.
        assert asker.asks("search/alice", {**HELLO, "model": "other"})[1].WhichOneof("response") == "request_body"
        batch[0].close()
        assert asker.asks("search/alice", HELLO)[1].WhichOneof("response") == "request_body"

    def test_interactive_requests_take_nothing_of_it(self, asker: Asker) -> None:
        for _ in range(2):
            asker.asks("erin", HELLO), asker.asks("nowhere/dave", HELLO)
        for name in ("search/alice", "search/bob", "shop/carol"):
            assert asker.asks(name, HELLO)[1].WhichOneof("response") == "request_body"

    def test_in_anthropics_words(self, asker: Asker) -> None:
        for name in ("search/alice", "search/bob", "shop/carol"):
            asker.asks(name, HELLO)
        _, reply = asker.asks("search/alice", {**HELLO, "max_tokens": 5}, "/v1/messages")
        status, error = refused(reply)
        assert (status, error["type"]) == (429, "rate_limit_error")

    def test_one_client_has_its_share_of_that_part(self) -> None:
        asker = Asker(parse(CONFIG.replace("max_batch_requests: 3", "max_batch_requests: 6")))
        for _ in range(3):
            assert asker.asks("search/alice", HELLO)[1].WhichOneof("response") == "request_body"
        _, error = refused(asker.asks("search/alice", HELLO)[1])
        assert error["code"] == "batch_limit_exceeded"
        assert "3 batch requests of this client are under way" in error["message"]
        assert "its share of the 6 that batch requests may have" in error["message"]
        assert asker.asks("shop/carol", HELLO)[1].WhichOneof("response") == "request_body"

    def test_who_gets_no_place_holds_none(self) -> None:
        config = CONFIG.replace("priority: batch}", "priority: batch, concurrent_requests: 5}")
        asker = Asker(parse(config))
        concurrency = asker.context.concurrency
        held = [asker.asks(name, HELLO)[0] for name in ("search/alice", "search/bob", "shop/carol")]
        for _ in range(3):
            assert refused(asker.asks("search/alice", HELLO)[1])[0] == 429
        assert (concurrency.used("search", TEAMS), concurrency.used_by_all(batch_of("qwen"))) == (2, 3)
        for exchange in held:
            exchange.close()
        assert (concurrency.used("search", TEAMS), concurrency.used_by_all(batch_of("qwen"))) == (0, 0)
        assert concurrency.used_by_all("qwen") == 0

    def test_a_first_request_is_refused_where_the_capacity_is_a_bound(self) -> None:
        concurrency = Concurrency()
        assert concurrency.take("a", "r", 1, alone=False, bounded=True) is not None
        assert concurrency.take("b", "r", 1, alone=False, bounded=True) is None
        assert concurrency.take("b", "r", 1, alone=False) is not None


class TestPriority:
    def body(self, asker: Asker, name: str, body: Any, path: str = CHAT[":path"]) -> Any:
        reply = asker.asks(name, body, path)[1]
        assert reply.WhichOneof("response") == "request_body"
        common = reply.request_body.response
        new = common.body_mutation.body
        fields = {each.header.key: each.header.raw_value for each in common.header_mutation.set_headers}
        assert fields.get("content-length", b"0") == str(len(new)).encode()
        return json.loads(new) if new else None

    @pytest.mark.parametrize("more", [{}, {"tools": TOOLS}, {"priority": -9}, {"priority": None}])
    def test_batch_requests_go_last(self, asker: Asker, more: dict[str, Any]) -> None:
        assert self.body(asker, "search/alice", {**HELLO, "model": "plain", **more})["priority"] == 1
        assert self.body(asker, "shop/carol", {**HELLO, **more})["priority"] == 1

    def test_in_every_dialect(self, asker: Asker) -> None:
        assert self.body(asker, "search/alice", {**HELLO, "max_tokens": 5}, "/v1/messages")["priority"] == 1
        assert self.body(asker, "search/bob", {"model": "small", "input": "Hello!"}, "/v1/responses")["priority"] == 1

    def test_what_is_only_counted_has_none(self, asker: Asker) -> None:
        assert "priority" not in self.body(asker, "search/alice", HELLO, "/v1/messages/count_tokens")

    def test_others_go_first_whatever_they_say(self, asker: Asker) -> None:
        assert self.body(asker, "erin", {**HELLO, "model": "plain"}) is None  # as it came
        assert "priority" not in self.body(asker, "erin", {**HELLO, "model": "plain", "priority": -9})
        asker = Asker(parse(CONFIG + "withheld: []\n"))
        assert "priority" not in self.body(asker, "erin", {**HELLO, "model": "plain", "priority": -9})
        assert self.body(asker, "search/alice", {**HELLO, "priority": -9})["priority"] == 1

    def test_a_backend_that_knows_none_is_told_none(self, asker: Asker) -> None:
        assert self.body(asker, "search/alice", {**HELLO, "model": "other"}) is None

    def test_nor_does_a_second_try_go_before_others(self, asker: Asker) -> None:
        exchange, _ = asker.asks("search/alice", {**HELLO, "tools": TOOLS, "tool_choice": "required"})
        prepared = exchange.request.prepared
        assert prepared is not None
        assert prepared.again is not None
        assert json.loads(prepared.again.body(Fault("It was none.")))["priority"] == 1

    def test_what_the_gateway_asks_for_a_batch_client_is_batch(self, asker: Asker) -> None:
        exchange = Exchange(asker.context, asker.telemetry, inner=True)
        only(exchange.receive(request_headers({**CHAT, "x-extproc-client": "search/alice"})))
        reply = only(exchange.receive(request_body(HELLO)))
        assert json.loads(reply.request_body.response.body_mutation.body)["priority"] == 1
        assert asker.context.concurrency.used_by_all(batch_of("qwen")) == 1

    def test_a_large_request_is_read_elsewhere_and_is_the_same(self, asker: Asker) -> None:
        long = [{"role": "user", "content": "x" * 60_000}]
        exchange, _ = asker.begins("search/alice")
        *_, work = exchange.receive(request_body({**HELLO, "messages": long}))
        assert isinstance(work, Prepare)
        read = work.perform()
        assert isinstance(read, UpstreamRequest)
        assert json.loads(read.body or b"")["priority"] == 1

    def test_so_is_one_whose_beginning_is_remembered(self) -> None:
        asker = Asker(parse(CONFIG))
        asker.context = replace(asker.context, memory=Memory())
        first, second = (conversation(length, 5000, model="small") for length in (8, 9))
        exchange, _ = asker.begins("search/alice")
        *_, work = exchange.receive(request_body(first))
        assert isinstance(work, Prepare)
        exchange.resume(work.perform())
        _, reply = asker.asks("search/alice", second)  # at once: most of it is known
        assert json.loads(reply.request_body.response.body_mutation.body)["priority"] == 1


def test_the_access_log_learns_of_it(asker: Asker) -> None:
    assert metadata(asker.begins("search/alice")[1]) == {
        "client": "search/alice",
        "team": "search",
        "priority": "batch",
    }
    assert metadata(asker.begins("erin")[1]) == {"client": "erin"}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("max_batch_requests: 3", "max_batch_requests: 9", "backends[0].max_batch_requests: expected at most 8"),
        ("max_batch_requests: 3", "max_batch_requests: 0", "backends[0].max_batch_requests: expected at least 1"),
        ("priority_scheduling: true", "priority_scheduling: true, parameters: [priority]", "is the gateway's own"),
        ("priority_scheduling: true", "priority_scheduling: true, server: sglang", "only vLLM is told by `priority`"),
        ("retry: true", "defaults: {priority: 5}", "models[0].defaults.priority: "),
        ("priority: batch", "priority: urgent", "expected 'interactive' or 'batch'"),
    ],
)
def test_what_can_not_be_is_refused(old: str, new: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(CONFIG.replace(old, new, 1))
    assert told in str(error.value)


def test_three_quarters_are_batchs_unless_the_settings_say_otherwise_and_envoy_need_not_know() -> None:
    before = parse(CONFIG)
    after = parse(CONFIG.replace(", max_batch_requests: 3, priority_scheduling: true", ""))
    assert [config.backends[0].batch_places for config in (before, after)] == [3, 6]
    assert (
        parse(CONFIG.replace("max_requests: 8, max_batch_requests: 3", "max_requests: 1")).backends[0].batch_places == 1
    )
    assert changes_for_envoy(before, after) == []


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("priorities")
    (folder / "keys").write_text("".join(f"{hash_line(name, key)}\n" for name, key in KEYS.items()))

    def speak(asked: ChatRequest) -> Reply:
        return Reply("one two three four", pace=3 if "batch" in str(asked.messages) else 0)

    with AskedVLLM(model=MODEL, speak=speak).running() as backend:
        settings = f"""
models: [{{name: {MODEL}, backend: qwen, tools: native}}]
backends:
  - {{name: qwen, address: "127.0.0.1:{backend.port}", health_check: false, max_requests: 4, max_batch_requests: 2,
      priority_scheduling: true}}
api_keys: {folder / "keys"}
teams: [{{name: search, priority: batch}}, {{name: shop, priority: batch}}, {{name: nowhere}}]
"""
        with configured_gateway(folder, settings, backend, live=True) as running:
            yield running


def test_with_a_backend_full_of_batch_requests_interactive_ones_are_served(gateway: Gateway) -> None:
    def body(content: str) -> Any:
        return {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": content}]}

    def key(name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {KEYS[name]}"}

    with ExitStack() as streams:
        for name in ("search/alice", "shop/carol"):
            asked = {"json": body("a batch"), "headers": key(name)}
            begun = streams.enter_context(gateway.http.stream("POST", "/v1/chat/completions", **asked))
            assert begun.status_code == 200
        full: httpx.Response = gateway.http.post(
            "/v1/chat/completions", json=body("a batch"), headers=key("search/bob")
        )
        assert (full.status_code, full.headers["retry-after"]) == (429, "1")
        assert full.json()["error"]["code"] == "batch_limit_exceeded"
        for name in ("erin", "nowhere/dave"):
            answer = gateway.http.post("/v1/chat/completions", json=body("Hello!"), headers=key(name))
            assert answer.status_code == 200
            assert "four" in answer.text
        sent = [json.loads(request.body) for request in gateway.backend.requests]
        assert [each.get("priority") for each in sent] == [1, 1, None, None]
    refused = gateway.access_log(full.headers["x-request-id"])["extproc"]
    assert (refused["priority"], refused["error"], refused["team"]) == ("batch", "batch_limit_exceeded", "search")
    assert gateway.metric('extproc_refused_requests_total{code="batch_limit_exceeded"}') == 1
    # The clients that have left hold nothing.
    wait_until(
        lambda: (
            gateway.http.post("/v1/chat/completions", json=body("Hello!"), headers=key("search/bob")).status_code == 200
        )
    )

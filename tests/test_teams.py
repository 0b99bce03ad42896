"""Teams: which models their keys may ask, how often, and how much at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from extproc.config import Config, ConfigError, parse
from extproc.control.reloading import changes_for_envoy
from extproc.exchange.api_keys import ApiKeys, hash_line, team_of
from extproc.exchange.catalogue import ModelInfo
from extproc.exchange.concurrency import TEAMS
from extproc.exchange.context import ExchangeContext
from extproc.exchange.machine import Exchange
from extproc.names import RUNNER
from extproc.observability.telemetry import Telemetry
from extproc.wire import ProcessingResponse
from scripted_vllm import Reply
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway, wait_until
from tests.test_exchange import CHAT, metadata, only, request_body, request_headers, response_body, response_headers

KEYS = {
    name: f"{name}-has-a-key-that-is-long-enough"
    for name in ("search/alice", "search/bob", "shop/carol", "nowhere/dave", "erin", "frank")
}
FILE = "".join(f"{hash_line(name, key)}\n" for name, key in KEYS.items())
CONFIG = parse("""
models:
  - {name: large, backend: qwen, tools: prompt}
  - {name: small, backend: qwen, tools: prompt}
backends: [{name: qwen, address: 127.0.0.1:8000, max_requests: 100}]
aliases: {big: large, "gpt-*": large, mini: small}
characters: /characters
api_keys: /keys
teams:
  - {name: search, concurrent_requests: 2}
  - {name: shop, models: [small, character/narrator]}
""")
ONE_BACKEND = """
models:
  - {name: large, backend: qwen, tools: native}
  - {name: small, backend: qwen, tools: native}
backends: [{name: qwen, address: 127.0.0.1:8000}]
api_keys: /keys
"""
USER = [{"role": "user", "content": "Hello!"}]


class Asker:
    """A processor and those who ask it."""

    def __init__(self, config: Config = CONFIG) -> None:
        reports = {RUNNER: {f"character/{name}": ModelInfo() for name in ("narrator", "pirate")}}
        self.context = ExchangeContext(config, ApiKeys.parse(FILE.encode()), reports)
        self.telemetry = Telemetry(config)

    def begins(self, name: str, path: str = CHAT[":path"], method: str = "POST", **more: str) -> tuple[Exchange, Any]:
        fields = {**CHAT, ":path": path, ":method": method, "x-api-key": KEYS[name], **more}
        exchange = Exchange(self.context, self.telemetry)
        return exchange, only(exchange.receive(request_headers(fields)))

    def asks(self, name: str, body: Any, path: str = CHAT[":path"], **more: str) -> tuple[Exchange, ProcessingResponse]:
        exchange, _ = self.begins(name, path, **more)
        return exchange, only(exchange.receive(request_body(body)))

    def lists(self, name: str, path: str = "/v1/models", **more: str) -> Any:
        reply = self.begins(name, path, "GET", **more)[1]
        return reply.immediate_response.status.code, json.loads(reply.immediate_response.body)


@pytest.fixture
def asker() -> Asker:
    return Asker()


def refused(reply: ProcessingResponse) -> tuple[int, Any]:
    return reply.immediate_response.status.code, json.loads(reply.immediate_response.body)["error"]


def test_what_stands_before_the_slash_of_a_keys_name() -> None:
    assert [team_of(name) for name in ("search/alice", "alice", "", None)] == ["search", None, None, None]
    assert ApiKeys.parse(FILE.encode()).teams == {"search", "shop", "nowhere"}
    assert ApiKeys.parse(f"a/b/c: {'0' * 64}\n/b: {'0' * 64}\na/: {'0' * 64}".encode()).unreadable == (1, 2, 3)


class TestModels:
    def test_a_team_sees_what_it_may_ask(self, asker: Asker) -> None:
        every = ["large", "small", "big", "mini", "character/narrator", "character/pirate"]
        few = ["small", "mini", "character/narrator"]
        for version in ({}, {"anthropic-version": "2023-06-01"}):
            for name, told in (("search/alice", every), ("erin", every), ("shop/carol", few)):
                assert [each["id"] for each in asker.lists(name, **version)[1]["data"]] == told

    @pytest.mark.parametrize("name", ["large", "big", "gpt-5", "character/pirate", "no-such-model"])
    def test_to_it_there_are_no_others(self, name: str, asker: Asker) -> None:
        said: dict[str, dict[str, Any]] = {
            "/v1/chat/completions": {"messages": USER},
            "/v1/responses": {"input": "Hello!"},
            "/v1/completions": {},
        }
        for path, body in said.items():
            status, error = refused(asker.asks("shop/carol", {"model": name, **body}, path)[1])
            assert (status, error["code"]) == (404, "model_not_found")
            assert error["message"] == f"The model {name!r} does not exist. Available models: small."
            # Nor does anything else tell that there is one.
            assert refused(asker.asks("shop/carol", {"model": name, **body, "stream": "x"}, path)[1])[1] == error
        status, listed = asker.lists("shop/carol", f"/v1/models/{name}")
        assert (status, listed["error"]["code"]) == (404, "model_not_found")
        assert "large" not in listed["error"]["message"].partition("Available")[2]

    def test_it_asks_its_own(self, asker: Asker) -> None:
        for model in ("small", "mini", "character/narrator"):
            _, reply = asker.asks("shop/carol", {"model": model, "messages": USER})
            assert reply.WhichOneof("response") == "request_body"
            assert asker.lists("shop/carol", f"/v1/models/{model}")[0] == 200
        _, reply = asker.asks("shop/carol", {"model": "small", "input": "Hello!"}, "/v1/embeddings")
        assert reply.WhichOneof("response") == "request_body"

    def test_it_has_to_name_one_where_the_backend_would_take_its_own(self, asker: Asker) -> None:
        status, error = refused(asker.asks("shop/carol", {"input": "Hello!"}, "/v1/embeddings")[1])
        assert (status, error["param"], error["code"]) == (400, "model", "missing_required_parameter")
        _, reply = asker.asks("search/alice", {"input": "Hello!"}, "/v1/embeddings")
        assert reply.WhichOneof("response") == "request_body"

    def test_what_names_no_model_is_not_for_it(self, asker: Asker) -> None:
        _, reply = asker.begins("shop/carol", "/v1/embeddings", "GET")
        assert (refused(reply)[0], refused(reply)[1]["code"]) == (405, "method_not_allowed")
        assert asker.begins("search/alice", "/v1/embeddings", "GET")[1].WhichOneof("response") == "request_headers"
        encoded = asker.begins("shop/carol", "/v1/embeddings", **{"content-encoding": "gzip"})[1]
        assert refused(encoded)[0] == 415

    def test_with_such_a_team_every_request_is_read(self) -> None:
        """Whose routes Envoy would have to change, if it can't follow."""
        before = parse(ONE_BACKEND)
        bounded = parse(f"{ONE_BACKEND}teams: [{{name: shop, models: [small]}}]\n")
        unbounded = parse(f"{ONE_BACKEND}teams: [{{name: shop, concurrent_requests: 3}}]\n")
        assert [config.routes_by_model for config in (before, unbounded, bounded)] == [False, False, True]
        assert changes_for_envoy(before, unbounded) == []
        assert changes_for_envoy(before, bounded) == ["other_paths"]
        asker = Asker(bounded)
        status, error = refused(asker.asks("shop/carol", {"model": "large", "prompt": "Hello!"}, "/v1/completions")[1])
        assert (status, error["code"]) == (404, "model_not_found")

    def test_what_the_gateway_asks_for_it_is_not_bounded(self, asker: Asker) -> None:
        exchange = Exchange(asker.context, asker.telemetry, inner=True)
        only(exchange.receive(request_headers({**CHAT, "x-extproc-client": "shop/carol"})))
        reply = only(exchange.receive(request_body({"model": "large", "messages": USER})))
        assert reply.WhichOneof("response") == "request_body"


def test_the_access_log_learns_of_the_team(asker: Asker) -> None:
    assert metadata(asker.begins("search/alice")[1]) == {"client": "search/alice", "team": "search"}
    assert metadata(asker.begins("erin")[1]) == {"client": "erin"}


def test_what_a_team_uses_is_counted_where_the_settings_name_it(asker: Asker) -> None:
    def counted(name: str, **labels: str) -> float | None:
        return asker.telemetry.registry.get_sample_value(f"extproc_team_{name}_total", labels)

    tools = [{"type": "function", "function": {"name": "look"}}]
    usage = {"prompt_tokens": 40, "completion_tokens": 2, "total_tokens": 42}
    answer = {
        "id": "c",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "No."}, "finish_reason": "stop"}],
        "usage": usage,
    }
    for name in ("search/alice", "erin", "search/bob"):
        exchange, _ = asker.asks(name, {"model": "small", "messages": USER, "tools": tools})
        only(exchange.receive(response_headers({"content-type": "application/json"})))
        only(exchange.receive(response_body(json.dumps(answer).encode())))
        exchange.close()
    asker.asks("shop/carol", {"model": "small", "messages": USER})
    assert [counted("requests", team=team) for team in ("search", "shop", "nowhere")] == [2, 1, None]
    assert [counted("tokens", team="search", kind=kind) for kind in ("prompt", "completion")] == [80, 4]
    assert [counted("tokens", team="shop", kind=kind) for kind in ("prompt", "completion")] == [0, 0]


@pytest.mark.parametrize("fields", [{}, {"anthropic-version": "2023-06-01", ":path": "/v1/messages"}])
def test_a_team_that_nobody_has_named_may_do_nothing(fields: dict[str, str], asker: Asker) -> None:
    path = fields.get(":path", "/v1/chat/completions")
    status, error = refused(asker.begins("nowhere/dave", path)[1])
    assert (status, error.get("code", error["type"])) == (403, "unknown_team" if not fields else "permission_error")
    assert "'nowhere'" in error["message"]
    assert asker.telemetry.registry.get_sample_value("extproc_refused_requests_total", {"code": "unknown_team"}) == 1


class TestAtATime:
    def test_a_teams_keys_share_their_places(self, asker: Asker) -> None:
        body = {"model": "small", "messages": USER}
        first, _ = asker.asks("search/alice", body)
        asker.asks("search/bob", body)
        status, error = refused(asker.asks("search/bob", body)[1])
        assert (status, error["code"]) == (429, "rate_limit_exceeded")
        assert error["message"].startswith("2 requests of the team 'search' are under way")
        for other in ("shop/carol", "erin"):
            assert asker.asks(other, body)[1].WhichOneof("response") == "request_body"
        first.close()
        assert asker.asks("search/bob", body)[1].WhichOneof("response") == "request_body"

    def test_a_place_is_taken_until_envoy_has_logged_the_end_of_what_passes_us_by(self, asker: Asker) -> None:
        concurrency = asker.context.concurrency
        concurrency.log_opened()
        exchange, reply = asker.asks("search/alice", {"model": "small", "messages": USER})
        number = round(reply.dynamic_metadata.fields["extproc.lease"].struct_value.fields["number"].number_value)
        exchange.receive(response_headers({"content-type": "application/json"}))
        exchange.close()
        assert concurrency.used("search", TEAMS) == 1
        concurrency.ended([number, number])
        assert (concurrency.used("search", TEAMS), concurrency.used("search/alice", "qwen")) == (0, 0)
        exchange, _ = asker.asks("search/alice", {"model": "small", "messages": USER})
        exchange.receive(response_headers({"content-type": "application/json"}))
        exchange.close()
        assert concurrency.used("search", TEAMS) == 1
        concurrency.log_closed()  # an Envoy is gone
        assert concurrency.used("search", TEAMS) == 0

    def test_who_gets_no_place_of_its_own_takes_none_of_the_teams(self, asker: Asker) -> None:
        config = CONFIG.model_copy(update={"limits": CONFIG.limits.model_copy(update={"concurrent_requests": 1})})
        asker.context = ExchangeContext(config, asker.context.keys)
        body = {"model": "small", "messages": USER}
        exchange, _ = asker.asks("search/alice", body)
        status, error = refused(asker.asks("search/alice", body)[1])
        assert (status, "of this client" in error["message"]) == (429, True)
        assert asker.context.concurrency.used("search", TEAMS) == 1
        exchange.close()
        assert asker.context.concurrency.used("search", TEAMS) == 0


@pytest.mark.parametrize(
    ("teams", "told"),
    [
        ("[{name: a}, {name: a}]", "'a' is used twice"),
        ("[{name: a/b}]", "teams[0].name"),
        ("[{name: a, models: [nothing]}]", "no model is named 'nothing'"),
        ("[{name: a, models: []}]", "teams[0].models"),
        ("[{name: a, requests_per_minute: 0}]", "teams[0].requests_per_minute"),
    ],
)
def test_what_can_not_be_is_refused(teams: str, told: str) -> None:
    there = "models: [{name: m, backend: b, tools: prompt}]\nbackends: [{name: b, address: '127.0.0.1:1'}]\n"
    with pytest.raises(ConfigError) as error:
        parse(f"{there}teams: {teams}\napi_keys: /keys\n")
    assert told in str(error.value)
    with pytest.raises(ConfigError, match="without `api_keys` or `jwt` nobody is of any team"):
        parse(f"{there}teams: [{{name: a}}]\n")


PER_MINUTE, OF_A_KEY = 6, 4


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("teams")
    (folder / "keys").write_text(FILE)
    with AskedVLLM(model=MODEL, speak=lambda _: Reply("It is fine.")).running() as backend:
        settings = f"""
models:
  - {{name: large, backend: qwen, upstream_model: {MODEL}, tools: prompt}}
  - {{name: small, backend: qwen, upstream_model: {MODEL}, tools: prompt}}
backends: [{{name: qwen, address: "127.0.0.1:{backend.port}", health_check: false}}]
limits: {{requests_per_minute: {OF_A_KEY}}}
teams: [{{name: search, requests_per_minute: {PER_MINUTE}}}, {{name: shop, models: [small]}}]
api_keys: {folder}/keys
"""
        with configured_gateway(folder, settings, backend, live=True) as running:
            reloads = "extension_config_discovery.http_filter.extproc.key_check.config_reload"
            wait_until(lambda: running.stat(reloads) > 0)
            yield running


def ask(gateway: Gateway, name: str, **more: Any) -> httpx.Response:
    body = {"model": "small", "messages": USER, **more}
    return gateway.http.post("/v1/chat/completions", json=body, headers={"authorization": f"Bearer {KEYS[name]}"})


def test_envoy_counts_for_the_key_and_for_the_team(gateway: Gateway) -> None:
    """Nothing comes back within a test: a bucket of 6 a minute gets one in 10 seconds."""
    tools = [{"type": "function", "function": {"name": "look"}}]
    alices = [ask(gateway, "search/alice", tools=tools[: number % 2]) for number in range(OF_A_KEY + 1)]
    assert [answer.status_code for answer in alices] == [200] * OF_A_KEY + [429]
    left = [answer.headers["x-ratelimit-remaining-requests"] for answer in alices]
    assert left == ["3", "2", "1", "0", "0"]
    assert {answer.headers["x-ratelimit-limit-requests"] for answer in alices} == {str(OF_A_KEY)}
    resets = [answer.headers["x-ratelimit-reset-requests"] for answer in alices]
    assert resets == ["15s", "30s", "45s", "1m0s", "1m0s"]
    before = len(gateway.backend.requests)
    # Of two buckets Envoy asks the one that fills slowest first: what the key has no more of didn't count for the team.
    bobs = [ask(gateway, "search/bob") for _ in range(3)]
    assert [answer.status_code for answer in bobs] == [200, 200, 429]
    assert len(gateway.backend.requests) == before + 2
    assert bobs[-1].headers["x-ratelimit-limit-requests"] == str(PER_MINUTE)
    assert 2 <= int(bobs[-1].headers["retry-after"]) <= 10
    assert 2 <= int(alices[-1].headers["retry-after"]) <= 15  # of 4 a minute
    assert bobs[-1].json()["error"]["code"] == "rate_limit_exceeded"
    assert "of its team" in bobs[-1].json()["error"]["message"]
    assert ask(gateway, "erin").status_code == 200
    assert "x-ratelimit-limit-requests" not in gateway.http.get("/health").headers


def test_envoy_reads_what_a_bounded_team_asks_elsewhere(gateway: Gateway) -> None:
    headers = {"authorization": f"Bearer {KEYS['shop/carol']}"}
    answer = gateway.http.post("/v1/completions", json={"model": "large", "prompt": "Hello!"}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    answer = gateway.http.get("/v1/models", headers=headers)
    assert [each["id"] for each in answer.json()["data"]] == ["small"]


def test_the_team_is_in_envoys_log(gateway: Gateway) -> None:
    answer = ask(gateway, "shop/carol")
    assert answer.status_code == 200
    mine = answer.headers["x-request-id"]
    wait_until(lambda: any(line["request_id"] == mine for line in gateway.whole_access_log()))
    (told,) = (line["extproc"] for line in gateway.whole_access_log() if line["request_id"] == mine)
    assert (told["client"], told["team"]) == ("shop/carol", "shop")


@pytest.mark.long
def test_who_waits_as_long_as_the_answer_says_is_served(gateway: Gateway) -> None:
    """And who comes much sooner isn't."""
    while (refused := ask(gateway, "frank")).status_code == 200:
        pass
    wait = int(refused.headers["retry-after"])
    assert 7 <= wait <= 15
    time.sleep(wait - 6)
    sooner = ask(gateway, "frank")
    assert (sooner.status_code, 1 <= int(sooner.headers["retry-after"]) <= 7) == (429, True)
    time.sleep(int(sooner.headers["retry-after"]))
    assert ask(gateway, "frank").status_code == 200

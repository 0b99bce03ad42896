"""One name for several models: which of them a conversation is asked of, and which instead where that one can't be."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from extproc.config import Config, ConfigError, parse
from extproc.control.reloading import changes_for_envoy
from extproc.envoy.local_replies import local_replies
from extproc.exchange.api_keys import ApiKeys, hash_line
from extproc.exchange.catalogue import ModelInfo, catalogue_answer
from extproc.exchange.concurrency import Concurrency
from extproc.exchange.context import ExchangeContext
from extproc.exchange.machine import Exchange
from extproc.exchange.outages import FAILURES, FIRST, FULL, LONGEST, TRIED, Outages
from extproc.exchange.routing import route_by_model
from extproc.names import CHAT_PATH, FALLBACK_HEADER, MODEL_HEADER, REPLY_HEADER
from extproc.observability.telemetry import Telemetry
from extproc.recording.private import settings_of
from extproc.surfaces import prepare
from extproc.turn.memory import Memory
from extproc.wire import ProcessingResponse
from tests.test_exchange import (
    CHAT,
    JSON,
    metadata,
    only,
    request_body,
    request_headers,
    response_headers,
    set_fields,
)

MODELS = """
models:
  - {name: old, backend: one, tools: prompt}
  - {name: new, backend: two, tools: template, format: qwen3_coder}
  - {name: small, backend: three, tools: native}
backends:
  - {name: one, address: 127.0.0.1:8001, max_requests: 2}
  - {name: two, address: 127.0.0.1:8002}
  - {name: three, address: 127.0.0.1:8003}
"""
DOCS = Path(__file__).parent.parent / "docs"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def config(aliases: str, more: str = "") -> Config:
    return parse(f"{MODELS}\naliases: {aliases}\n{more}")


def weighed(first: int, second: int, more: str = "") -> Config:
    split = f"[{{model: old, weight: {first}}}, {{model: new, weight: {second}}}]"
    return config(f"{{coder: {{split: {split}, {more}}}}}")


HALVES = config("{coder: {split: [{model: old}, {model: new}]}, plain: old}")
FALLS_BACK = weighed(100, 0, "fallback: [new, small]")


def chat(text: str, *later: Any, model: str = "coder", **fields: Any) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": text}, *later], **fields}).encode()


def asked_model(body: bytes, settings: Config, path: str = CHAT_PATH, **options: Any) -> str | None:
    return prepare(body, settings, path, **options).model


# ---- shares


def spread(settings: Config, number: int) -> list[str | None]:
    """Which models so many conversations are asked of."""
    alias = settings.aliases["coder"]
    return [alias.model_of(f"conversation {count}".encode()) for count in range(number)]


@pytest.mark.parametrize("weights", [(95, 5), (50, 50), (1, 3), (0, 100), (7, 0)])
def test_shares_are_the_weights(weights: tuple[int, int]) -> None:
    shares = Counter(spread(weighed(*weights), 20_000))
    for name, weight in zip(("old", "new"), weights, strict=True):
        assert abs(shares[name] / 20_000 - weight / sum(weights)) < 0.01


def test_conversations_move_only_to_the_model_that_gets_more() -> None:
    for before, after in pairwise([(95, 5), (80, 20), (50, 50), (0, 100)]):
        was, now = spread(weighed(*before), 5_000), spread(weighed(*after), 5_000)
        moved = Counter((a, b) for a, b in zip(was, now, strict=True) if a != b)
        assert moved.keys() == {("old", "new")}
        assert abs(moved["old", "new"] / 5_000 - (before[0] - after[0]) / 100) < 0.03


def test_a_third_model_takes_its_share_of_each_of_the_others() -> None:
    two = config("{coder: {split: [{model: old}, {model: new}]}}")
    three = config("{coder: {split: [{model: small}, {model: old}, {model: new}]}}")
    moved = Counter((a, b) for a, b in zip(spread(two, 6_000), spread(three, 6_000), strict=True) if a != b)
    assert moved.keys() == {("old", "small"), ("new", "small")}
    assert all(abs(count / 6_000 - 1 / 6) < 0.02 for count in moved.values())


# ---- what is no conversation


def test_other_paths_are_shared_out_by_their_bodies() -> None:
    shares = Counter[str | None]()
    for count in range(400):
        body = json.dumps({"model": "coder", "prompt": f"Text {count}"}).encode()
        routed = route_by_model(body, "application/json", HALVES)
        assert routed == route_by_model(body, "application/json", HALVES)
        assert routed.body is not None
        assert json.loads(routed.body)["model"] == routed.model
        shares[routed.model] += 1
    assert all(160 < shares[name] < 240 for name in ("old", "new"))


# ---- fallbacks


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Asker:
    """A processor, and what it asks for."""

    def __init__(self, settings: Config = FALLS_BACK, keys: ApiKeys | None = None) -> None:
        self.clock = Clock()
        self.outages = Outages(self.clock)
        self.context = ExchangeContext(
            settings, keys, concurrency=Concurrency(self.clock), memory=Memory(), outages=self.outages
        )
        self.telemetry = Telemetry(settings)

    def begin(self, body: bytes | None = None, path: str = CHAT_PATH) -> tuple[Exchange, ProcessingResponse]:
        exchange = Exchange(self.context, self.telemetry)
        exchange.receive(request_headers({**CHAT, ":path": path, **JSON}))
        return exchange, only(exchange.receive(request_body(body or chat("Hello!"))))

    def ask(self, status: int = 200, reply: str = "", body: bytes | None = None) -> str:
        """The model that a request is asked of; it comes to this."""
        exchange, routed = self.begin(body)
        fields = {**JSON, **({REPLY_HEADER: reply} if reply else {})}
        exchange.receive(response_headers(fields, status))
        exchange.close()
        return str(metadata(routed)["model"])


@pytest.fixture
def asker() -> Asker:
    return Asker()


def test_a_backend_that_can_not_be_reached_is_passed_by_at_once(asker: Asker) -> None:
    assert asker.ask(503, "backend_unreachable") == "old"
    assert [asker.ask() for _ in range(3)] == ["new"] * 3


def test_nobody_learns_of_a_backend_from_what_a_limit_keeps_back(asker: Asker) -> None:
    for _ in range(FAILURES):
        assert asker.ask(503, "rate_limits_unavailable") == "old"
    assert asker.ask(503, "backend_unreachable") == "old"
    assert asker.ask(429, "rate_limit_exceeded") == "new"
    assert asker.ask() == "new"


@pytest.mark.parametrize("status", [502, 503, 504])
def test_one_that_fails_several_times_in_a_row(status: int, asker: Asker) -> None:
    assert [asker.ask(status) for _ in range(FAILURES - 1)] == ["old"] * (FAILURES - 1)
    assert asker.ask() == "old"  # which was well
    assert [asker.ask(status) for _ in range(FAILURES)] == ["old"] * FAILURES
    assert asker.ask() == "new"


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 429, 500])
def test_a_clients_errors_are_no_failures(status: int, asker: Asker) -> None:
    assert [asker.ask(status) for _ in range(10)] == ["old"] * 10


def replies_of_envoy() -> set[str]:
    """The codes of all those that are marked as its own."""
    limited = config("{}", "api_keys: /k\nrate_limit_service: {address: 'h:1'}\nlimits: {tokens_per_day: 1}")
    mappers = local_replies(limited, silence=timedelta(1), processing=timedelta(1)).mappers
    added = [option.header for mapper in mappers for option in mapper.headers_to_add]
    return {header.value for header in added if header is not None and header.key == REPLY_HEADER}


def test_of_envoys_own_replies_those_tell_of_a_backend_that_are_about_one() -> None:
    codes = replies_of_envoy()
    assert {"rate_limits_unavailable", "rate_limit_exceeded", "request_timeout", "gateway_overloaded"} < codes
    for code in codes:
        asker = Asker()
        asked = [asker.ask(503, code) for _ in range(FAILURES + 1)]
        assert ("new" in asked) is code.startswith("backend_"), code


@pytest.mark.parametrize(
    ("status", "reply"),
    [(503, "rate_limits_unavailable"), (429, "rate_limit_exceeded"), (408, "request_timeout"), (400, "bad_request")],
)
def test_a_reply_that_tells_nothing_of_the_backend_changes_nothing(status: int, reply: str, asker: Asker) -> None:
    assert [asker.ask(503) for _ in range(FAILURES - 1)] == ["old"] * (FAILURES - 1)
    assert [asker.ask(status, reply) for _ in range(3)] == ["old"] * 3
    assert [asker.ask(503), asker.ask()] == ["old", "new"]  # the failures were in a row nevertheless
    asker.clock.now += FIRST + 0.01
    assert [asker.ask(status, reply) for _ in range(3)] == ["old"] * 3  # let through: the next one is, too
    assert [asker.ask(502), asker.ask()] == ["old", "new"]
    asker.clock.now += FIRST + 0.01  # which was a failure once more
    assert asker.ask() == "new"


def test_such_a_reply_to_another_request_frees_no_trial(asker: Asker) -> None:
    asker.ask(503, "backend_unreachable")
    asker.clock.now += FIRST + 0.01
    assert metadata(asker.begin()[1])["model"] == "old"
    assert asker.ask(429, "rate_limit_exceeded", chat("Hello!", model="old")) == "old"
    assert asker.ask() == "new"


def test_one_request_is_let_through_after_a_time_and_brings_it_back(asker: Asker) -> None:
    asker.ask(503, "backend_unreachable")
    asker.clock.now += FIRST + 0.01
    exchange, routed = asker.begin()
    assert metadata(routed)["model"] == "old"
    assert asker.ask() == "new"  # while it isn't known what comes of that
    exchange.receive(response_headers(JSON))
    assert asker.ask() == "old"


def test_each_failure_of_such_a_request_makes_the_next_time_longer(asker: Asker) -> None:
    asker.ask(503, "backend_unreachable")
    pause = FIRST
    for _ in range(8):
        asker.clock.now += pause - 0.01
        assert asker.ask() == "new"
        asker.clock.now += 0.02
        assert asker.ask(502) == "old"
        pause = min(2 * pause, LONGEST)
    assert pause == LONGEST


def test_one_of_which_nothing_is_heard_is_not_waited_for_for_ever(asker: Asker) -> None:
    asker.ask(503, "backend_unreachable")
    asker.clock.now += FIRST + 0.01
    asker.begin()
    asker.clock.now += TRIED - 0.01
    assert asker.ask() == "new"
    asker.clock.now += 0.02
    assert asker.ask() == "old"


def test_a_request_of_which_nothing_can_be_heard_is_no_trial(asker: Asker) -> None:
    asker.ask(503, "backend_unreachable")
    asker.clock.now += FIRST + 0.01
    completion = json.dumps({"model": "coder", "prompt": "Hello!"}).encode()
    assert metadata(asker.begin(completion, "/v1/completions")[1])["model"] == "old"
    assert asker.ask() == "old"


def test_what_was_under_way_before_tells_nothing(asker: Asker) -> None:
    before = [asker.begin()[0] for _ in range(2)]
    asker.context.outages.answered("one", 503, "backend_unreachable")
    before[0].receive(response_headers(JSON))
    assert asker.ask() == "new"
    before[1].receive(response_headers(JSON, 503))
    for exchange in before:
        exchange.close()
    asker.clock.now += FIRST + 0.01  # and made it no longer
    assert asker.ask() == "old"


def test_a_full_backend_is_passed_by(asker: Asker) -> None:
    """By the count of what is under way, keys or not."""
    two = [asker.begin()[0] for _ in range(2)]
    assert asker.ask() == "new"
    two[0].close()
    assert asker.ask() == "old"


def test_one_that_envoy_finds_full_is_passed_by_for_a_second(asker: Asker) -> None:
    assert asker.ask(503, "backend_overloaded") == "old"
    assert asker.ask() == "new"
    asker.clock.now += FULL + 0.01
    assert asker.ask(503, "backend_overloaded") == "old"
    asker.clock.now += FULL + 0.01  # no longer than that
    assert asker.ask() == "old"


def test_the_next_one_is_asked_in_order_and_the_first_when_none_is_left(asker: Asker) -> None:
    for backend, model in (("one", "new"), ("two", "small"), ("three", "old")):
        asker.outages.answered(backend, 503, "backend_unreachable")
        assert asker.ask(418) == model


def test_a_model_that_is_asked_by_its_own_name_has_no_fallback(asker: Asker) -> None:
    asker.outages.answered("one", 503, "backend_unreachable")
    assert asker.ask(body=chat("Hello!", model="old")) == "old"


def test_a_split_without_fallbacks_has_none() -> None:
    asker = Asker(weighed(100, 1))
    for _ in range(5):
        assert asker.ask(503, "backend_unreachable", chat("Hello! Again")) == asker.ask(
            503, "backend_unreachable", chat("Hello! Again")
        )
    assert not asker.context.out()


def test_an_answer_tells_which_it_is_of(asker: Asker) -> None:
    def shown(status: int = 200) -> dict[str, str]:
        exchange, _ = asker.begin()
        return set_fields(
            only(exchange.receive(response_headers(JSON, status))).response_headers.response.header_mutation
        )

    assert shown()[MODEL_HEADER] == "old"
    assert FALLBACK_HEADER not in shown()
    asker.outages.answered("one", 503, "backend_unreachable")
    for status in (200, 400):
        fields = shown(status)
        assert (fields[MODEL_HEADER], fields[FALLBACK_HEADER]) == ("new", "old failing")
    for page in ("fleets.md", "observability.md"):
        told = "\n".join(f"{name}: {fields[name]}" for name in (MODEL_HEADER, FALLBACK_HEADER))
        assert told.replace("new", "small").replace("old", "coder-blue") in (DOCS / page).read_text("utf-8")


def test_of_a_plain_alias_nothing_is_told() -> None:
    asker = Asker(config("{coder: old, other: {split: [{model: new}]}}"))
    exchange, routed = asker.begin()
    assert "alias" not in metadata(routed)
    fields = only(exchange.receive(response_headers(JSON))).response_headers.response.header_mutation
    assert MODEL_HEADER not in set_fields(fields)


def test_names_that_no_header_can_have_are_encoded() -> None:
    settings = parse(
        MODELS.replace("name: old", 'name: "qué\\nqwen/3:1"')
        + 'aliases: {coder: {split: [{model: "qué\\nqwen/3:1"}, {model: new, weight: 0}]}}'
    )
    exchange, _ = Asker(settings).begin()
    fields = only(exchange.receive(response_headers(JSON))).response_headers.response.header_mutation
    assert set_fields(fields)[MODEL_HEADER] == "qu%C3%A9%0Aqwen/3:1"


def test_the_access_log_and_metrics_tell(asker: Asker) -> None:
    told = [metadata(asker.begin()[1])]
    asker.outages.answered("one", 503, "backend_unreachable")
    told.append(metadata(asker.begin()[1]))
    completion = json.dumps({"model": "coder", "prompt": "Hello!"}).encode()
    told.append(metadata(asker.begin(completion, "/v1/completions")[1]))
    kept = [{name: each.get(name) for name in ("alias", "model", "instead_of", "because")} for each in told]
    assert kept[0] == {"alias": "coder", "model": "old", "instead_of": None, "because": None}
    assert kept[1] == kept[2] == {"alias": "coder", "model": "new", "instead_of": "old", "because": "failing"}
    page = asker.telemetry.page().decode()
    assert 'extproc_split_requests_total{alias="coder",model="old"} 1.0' in page
    assert 'extproc_split_requests_total{alias="coder",model="new"} 2.0' in page
    assert 'extproc_split_requests_total{alias="coder",model="small"} 0.0' in page
    assert 'extproc_fallbacks_total{alias="coder",model="old",reason="failing"} 2.0' in page
    assert 'extproc_fallbacks_total{alias="coder",model="old",reason="full"} 0.0' in page


def test_the_log_tells_once_that_a_backend_is_out_and_that_it_is_back(
    asker: Asker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for status in (503, 200, 200):
        asker.ask(status, "backend_unreachable" if status == 503 else "")
    asker.clock.now += FIRST + 0.01
    asker.ask()
    messages = [record.message for record in caplog.records]
    assert "\n".join(messages).replace("'one'", "'blue'") in (DOCS / "observability.md").read_text("utf-8")
    assert messages == [
        "the backend 'one' is failing: for a time, fallbacks are asked instead",
        "the backend 'one' answers again: models that have it are asked again",
    ]


# ---- who may ask

TEAMS = """
api_keys: /keys
teams:
  - {name: every}
  - {name: both, models: [old, new]}
  - {name: by-name, models: [coder]}
  - {name: first, models: [old]}
"""
SPLIT = "{coder: {split: [{model: old}], fallback: [new]}}"


@pytest.mark.parametrize(
    ("team", "listed"),
    [
        ("every", ["old", "new", "small", "coder"]),
        ("both", ["old", "new", "coder"]),
        ("by-name", ["coder"]),
        ("first", ["old"]),
    ],
)
def test_a_team_may_ask_what_it_is_allowed_by_name_or_all_of(team: str, listed: list[str]) -> None:
    settings = config(SPLIT, TEAMS)
    asks = settings.teams_by_name[team]
    names = [each["id"] for each in json.loads(catalogue_answer("/v1/models", settings, {}, 0, asks))["data"]]
    assert names == listed
    for name in ("old", "new", "small", "coder"):
        assert (settings.model_for(asks, name) is not None) == (name in listed)
        if name not in listed:
            with pytest.raises(Exception, match=r"does not exist. Available models: ") as raised:
                prepare(chat("Hello!", model=name), settings, team=asks)
            assert str(raised.value).endswith(f"{', '.join(sorted(settings.names_for(asks)))}.")


def test_a_team_that_may_ask_by_the_alias_gets_the_fallback() -> None:
    settings = config(SPLIT, TEAMS)
    team = settings.teams_by_name["by-name"]
    assert asked_model(chat("Hello!"), settings, team=team, out={"one": "failing"}) == "new"


def test_limits_of_a_key_are_no_reason_to_ask_another() -> None:
    """One more than a key may have under way is a 429, as ever."""
    key = "a-key-that-is-long-enough"
    keys = ApiKeys.parse(f"{hash_line('alice', key)}\n{hash_line('bob', key[::-1])}\n".encode())
    settings = parse(
        MODELS + "aliases: {coder: {split: [{model: new}], fallback: [small]}}\napi_keys: /keys\n"
        "limits: {concurrent_requests: 1}\n"
    )
    context = ExchangeContext(settings, keys)
    statuses = []
    for _ in range(2):
        exchange = Exchange(context, Telemetry(settings))
        exchange.receive(request_headers({**CHAT, "x-api-key": key}))
        reply = only(exchange.receive(request_body(chat("Hello!"))))
        statuses.append(reply.immediate_response.status.code)
    assert statuses == [0, 429]


def test_the_list_of_models_tells_the_length_that_fits_all() -> None:
    reports = {"one": {"old": ModelInfo(max_model_len=4096)}, "two": {"new": ModelInfo(max_model_len=2048)}}
    (told,) = [
        each for each in json.loads(catalogue_answer("/v1/models", HALVES, reports, 7))["data"] if each["id"] == "coder"
    ]
    assert told == {"id": "coder", "object": "model", "created": 7, "owned_by": "extproc", "max_model_len": 2048}


# ---- settings


@pytest.mark.parametrize(
    ("aliases", "problem"),
    [
        ("{coder: nobody}", "aliases.coder: no model is named 'nobody'"),
        (
            "{coder: {split: [{model: old}, {model: nobody}]}}",
            "aliases.coder.split[1].model: no model is named 'nobody'",
        ),
        (
            "{coder: {split: [{model: old}], fallback: [nobody]}}",
            "aliases.coder.fallback[0]: no model is named 'nobody'",
        ),
        ("{coder: {split: [{model: old}, {model: old}]}}", "aliases.coder.split[1].model: 'old' is used twice"),
        ("{coder: {split: [{model: old}], fallback: [new, new]}}", "aliases.coder.fallback[1]: 'new' is used twice"),
        ("{coder: {split: [{model: old, weight: 0}]}}", "expected a weight above 0 for one of them at least"),
        ("{coder: {split: [{model: old, weight: -1}]}}", "aliases.coder.split[0].weight: expected at least 0"),
        ("{coder: {split: []}}", "aliases.coder.split: at least one is needed"),
        ("{coder: {fallback: [old]}}", "aliases.coder.split: is missing"),
        ("{coder: 5}", "aliases.coder: expected a mapping"),
        ("{old: {split: [{model: new}, {model: small}]}}", "aliases.old: a model has this name itself"),
    ],
)
def test_mistakes_are_named(aliases: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=r".*") as raised:
        config(aliases)
    assert problem in str(raised.value)


def test_envoy_needs_no_new_bootstrap_for_other_weights() -> None:
    """So that one which can't follow changes, as others configure it, has canaries too."""
    assert changes_for_envoy(weighed(95, 5), weighed(50, 50, "fallback: [small]")) == []
    one = parse("models: [{name: a, backend: b, tools: native}]\nbackends: [{name: b, address: 127.0.0.1:1}]")
    named = Config.model_validate(one.model_dump() | {"aliases": {"other": "a"}})
    assert changes_for_envoy(one, named) == ["other_paths"]  # which were not read for their model before


def test_models_whose_tools_run_here_are_asked_by_one_name_alone() -> None:
    text = MODELS.replace("backend: two, ", "backend: two, tool_servers: [files], ")
    servers = "tool_servers: [{name: files, url: 'http://127.0.0.1:1/mcp'}]\n"
    assert parse(f"{text}{servers}aliases: {{coder: new}}").model_of("coder") is not None
    with pytest.raises(ConfigError, match="'new' has `tool_servers`, whose runs go by one model"):
        parse(f"{text}{servers}aliases: {{coder: {{split: [{{model: old}}, {{model: new}}]}}}}")


def test_a_recording_has_the_models_of_the_alias() -> None:
    replayed = Config.model_validate(settings_of(HALVES, "coder"))
    assert [model.name for model in replayed.models] == ["old", "new"]
    for count in range(20):
        body = chat(f"Question {count}")
        assert asked_model(body, replayed) == asked_model(body, HALVES)
    plain = Config.model_validate(settings_of(config("{'claude-*': new}"), "claude-3"))
    assert [model.name for model in plain.models] == ["new"]
    assert asked_model(chat("Hello!", model="claude-3"), plain) == "new"

"""The schema of the chart's `config` refuses what the settings' parser refuses for a name, a type, a word or a bound,
and takes what it takes."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from pydantic import ValidationError

from extproc.config import Config, ConfigError, parse
from extproc.config.base import DIRECTORY
from tests.chart.settings_schema import settings_schema
from tests.documented.test_settings import SETTINGS, completed
from tests.site.pages import ROOT

SCHEMA, DEFINITIONS = settings_schema()
OURS = jsonschema_rs.Draft7Validator({**SCHEMA, "definitions": DEFINITIONS})

EVERYTHING = yaml.safe_load(
    """
    listen: 127.0.0.1:10000
    tls: {certificate: /a, key: /b, client_ca: /c}
    api_keys: /keys
    jwt: {issuer: i, audiences: [a], jwks: {url: "https://a.example/keys", ca: /c}, client_claim: sub, team_claim: t,
          without_team: allow}
    teams:
      - {name: t, models: [m], requests_per_minute: 1, concurrent_requests: 1, tokens_per_minute: 1, tokens_per_day: 1,
         priority: batch}
    models:
      - {name: m, backend: b, upstream_model: u, tools: auto, steering: {first: prompt, valid: 0.5, calls: 10,
         back: 10}, format: hermes, response_template: template.json, thinking: open, special_tokens: [t],
         defaults: {top_p: 0.5}, allowed_tools: [t], max_tools: 0, malformed_history: error, tool_result: role,
         escape_markers: true, forced: begun, example: true, tool_servers: [s], reasoning_content: true, repair: true,
         invalid_calls: text, retry: true, min_confidence: 0.9}
    backends:
      - {name: b, address: ["b:1"], tls: {ca: /c, sni: b.example}, api_key: /k, affinity: true,
         health_check: {path: /h, contains: ok}, max_requests: 2, max_batch_requests: 1, priority_scheduling: true,
         server: vllm, structured_outputs: true, parameters: [p], headers: [x-tenant]}
    aliases: {a: {split: [{model: m, weight: 1}], fallback: [n]}, "b*": m}
    other_paths: [/v1/embeddings]
    allowed_origins: ["*"]
    withheld: [user]
    media_urls: none
    limits: {max_body_bytes: 1024, requests_per_minute: null, concurrent_requests: 1, tokens_per_minute: 1,
             tokens_per_day: 1, first_event_seconds: 1, silence_seconds: 0.5}
    rate_limit_service: {address: "r:1", timeout_seconds: 1, when_down: refuse}
    count_every_answer: true
    characters: /characters
    tool_servers:
      - {name: s, url: "http://s/mcp", api_key: /k, command: [c], environment: {A: b}, allowed_tools: [t], run: never,
         seconds: 1, tools: {t: {run: auto, seconds: 1}}}
    runs: {rounds: 1, seconds: 1, calls_at_once: 1, retained_bytes: 1024, keep_alive_seconds: 1,
           character_memory: 67108864, usage: sum, log_arguments: true}
    sockets: /s
    transport: grpcio
    workers: auto
    recording: {directory: /d, files: 1, model: m}
    tracing: {collector: "c:1", sampling: 1, follow_clients: false, attributes: openinference, content: true}
    metrics: {collector: "c:1", interval_seconds: 1}
    watch: true
    """
)
"""Every setting there is. Together some exclude each other, which is for the parser to say."""

WORDS: Sequence[Any] = (
    "no such word",
    0,
    0.5,
    -1,
    1 << 40,
    True,
    None,
    [],
    ["no such word", 3],
    [None],
    {},
    {"no such word": 1},
)
"""What may stand where something else belongs."""

Place = tuple[str | int, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Of all settings, each after what it is in."""
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*at, key)
        yield from places(below, (*at, key))


PLACES = list(places(EVERYTHING))
NAMED = [place for place in PLACES if isinstance(place[-1], str)]


def changed(place: Place, value: Any) -> Any:
    """Everything, with another value there."""
    made = copy.deepcopy(EVERYTHING)
    here = made
    for key in place[:-1]:
        here = here[key]
    here[place[-1]] = value
    return made


def by_parser(settings: Any, folder: Path) -> list[tuple[Place, str]]:
    """What the parser refuses by a name, a type, a word or a bound: all but what functions of its own have found."""
    try:
        Config.model_validate(settings, context={DIRECTORY: folder})
    except ValidationError as error:
        faults = [(fault["loc"], fault["type"]) for fault in error.errors()]
        # A list whose only item is faulty is also reported as too short.
        return [
            (place, kind)
            for place, kind in faults
            if kind != "value_error" and not any(other != place and other[: len(place)] == place for other, _ in faults)
        ]
    return []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "template.json").write_bytes((ROOT / "tests/samples/response_templates/qwen3.json").read_bytes())
    return tmp_path


def test_everything_is_everything(folder: Path) -> None:
    assert {place[0] for place in PLACES} == Config.model_fields.keys()
    assert OURS.is_valid(EVERYTHING)
    assert by_parser(EVERYTHING, folder) == []
    told = {(name, setting) for name, each in DEFINITIONS.items() for setting in each["properties"]}
    mentioned = {place[-1] for place in PLACES}
    assert {setting for _, setting in told} - mentioned == {"file"}, "the other of the two of `jwks`"


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_a_wrong_value_is_refused_by_both_and_a_right_one_by_none(place: Place, folder: Path) -> None:
    for value in WORDS:
        settings = changed(place, value)
        if faults := by_parser(settings, folder):
            assert not OURS.is_valid(settings), (value, faults)
        elif not OURS.is_valid(settings):
            assert place[-1] in OWN_FUNCTIONS or isinstance(value, bool) or value == 0, value


OWN_FUNCTIONS = {"workers", "health_check", "format", "response_template"}
"""Settings whose types the parser looks at by functions of its own. Of all others it takes only a number for true or
false, and the other way round, which the schema doesn't."""


@pytest.mark.parametrize("place", NAMED, ids=lambda place: ".".join(map(str, place)))
def test_a_misspelt_name_is_refused_where_the_parser_refuses_it(place: Place, folder: Path) -> None:
    settings = copy.deepcopy(EVERYTHING)
    here = settings
    for key in place[:-1]:
        here = here[key]
    here[f"{place[-1]}z"] = here.pop(place[-1])
    assert OURS.is_valid(settings) == (not by_parser(settings, folder))


@pytest.mark.parametrize(
    "wrong",
    [
        {"teamz": []},
        {"limits": {"tokens_per_minute": "many"}},
        {"limits": {"tokens_per_minute": 0}},
        {"aliases": 3},
        {"aliases": {"a*b": "m"}},
        {"aliases": {"a": {"split": []}}},
        {"models": []},
        {"models": [{"name": "m", "backend": "b", "tools": "sometimes"}]},
        {"models": [{"name": "m", "backend": "b", "tools": "prompt", "format": "hermess"}]},
        {"models": [{"name": "m", "backend": "b"}]},
        {"backends": [{"name": "b", "address": "b:1", "health_check": None}]},
        {"backends": [{"name": "b", "address": 8000}]},
        {"backends": [{"name": "b", "address": []}]},
        {"workers": 0},
        {"workers": "many"},
    ],
    ids=json.dumps,
)
def test_what_is_wrong_is_refused_by_both(wrong: dict[str, Any]) -> None:
    right = {
        "models": [{"name": "m", "backend": "b", "tools": "prompt"}],
        "backends": [{"name": "b", "address": "b:1"}],
    }
    assert OURS.is_valid(right)
    parse(yaml.safe_dump(right))
    assert not OURS.is_valid(right | wrong)
    with pytest.raises(ConfigError):
        parse(yaml.safe_dump(right | wrong))


# ---- the settings of the repository


def written() -> Iterator[tuple[str, str]]:
    """All that may be a configuration: files, blocks of pages, and texts in tests, each with its place."""
    for folder in ("bench", "deploy", "docs", "envoy", "scripted_vllm", "tests"):
        for path in (ROOT / folder).rglob("*.y*ml"):
            yield str(path), path.read_text(encoding="utf-8")
    for block in SETTINGS:
        yield str(block), completed(block.text)
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "backends:" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and "backends:" in node.value:
                    yield f"{path}:{node.lineno}", node.value


def test_every_configuration_of_the_repository_is_taken(folder: Path) -> None:
    taken = 0
    for place, text in written():
        try:
            parse(text, source=str(folder / "extproc.yaml"))
        except ConfigError:
            continue
        taken += 1
        assert OURS.is_valid(yaml.safe_load(text)), place
    assert taken > 60

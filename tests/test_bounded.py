"""Compiled schemas and grammars are kept: that saves work, within bounds, and has no other effect."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import orjson
import pytest

from extproc.config import parse
from extproc.contract.arguments import ArgumentChecker, schema_check
from extproc.contract.bounded import Bounded
from extproc.surfaces import prepare
from extproc.turn import modes
from tests.request_strategies import Json

CONFIG = parse("""
models:
  - {name: prompt, backend: qwen, tools: prompt, format: hermes}
  - {name: open, backend: qwen, tools: prompt, format: hermes, thinking: open}
  - {name: template, backend: qwen, tools: template, format: qwen3_coder}
backends: [{name: qwen, address: 127.0.0.1:8000}]
""")


def schema(**more: Any) -> Json:
    return {"type": "object", "properties": {"word": {"type": "string", **more}}, "required": ["word"]}


def test_what_was_wanted_last_stays_within_the_bound() -> None:
    kept: Bounded[int] = Bounded(800)
    for number in range(100):
        kept.keep(b"%d" % number, number, 100)
        assert kept[b"0"] == 0
        assert kept.size == 100 * len(kept) <= 800
    for gone in (b"1", b"92"):
        with pytest.raises(KeyError):
            kept[gone]
    assert kept[b"99"] == 99
    kept.keep(b"large", 1, 101)
    with pytest.raises(KeyError):
        kept[b"large"]


def test_a_schema_is_compiled_once_and_nothing_of_the_request_is_kept() -> None:
    sent, again = schema(title="once"), schema(title="once")
    check = schema_check(sent)
    assert check is not None
    assert schema_check(again) is check
    assert check.graph.root == sent
    assert check.graph.root is not sent
    sent["properties"]["word"]["type"] = "integer"
    assert ArgumentChecker({"f": {"function": {"parameters": again}}}).violation("f", '{"word": "x"}') is None
    violation = ArgumentChecker({"f": {"function": {"parameters": sent}}}).violation("f", '{"word": "x"}')
    assert violation is not None
    assert violation.message.endswith("at 'word': expected an integer, got a string.")


@pytest.mark.parametrize(
    "parameters",
    [
        schema(pattern="^a+$"),
        {**schema(), "patternProperties": {"^x-": {}}},
        {**schema(), "description": "x" * 20_000},
    ],
    ids=["pattern", "patternProperties", "long"],
)
def test_what_may_become_large_is_not_kept(parameters: Json) -> None:
    check = schema_check(parameters)
    assert check is not None
    assert schema_check(parameters) is not check


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, True), (0, False), ("1", 1)])
def test_schemas_that_python_takes_for_equal_are_kept_apart(one: Any, other: Any) -> None:
    for value in (one, other, one):
        check = schema_check(schema(const=value, title="apart"))
        assert check is not None
        assert json.dumps(check.graph.root["properties"]["word"]["const"]) == json.dumps(value)


def test_a_known_grammar_is_the_one_that_would_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(name: str, *, strict: bool) -> Json:
        parameters = {**schema(), "additionalProperties": False}
        return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": strict}}

    offers = [[function("f", strict=False), function("g", strict=strict)] for strict in (True, False)]
    offers.append([function("g", strict=True), function("f", strict=False)])
    only = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
    }
    named = {"type": "function", "function": {"name": "f"}}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema()}}
    bodies = [
        orjson.dumps(
            {
                "model": model,
                "messages": [{"role": "user", "content": "Hi"}],
                "tools": tools,
                "tool_choice": choice,
                "parallel_tool_calls": parallel,
                "response_format": wanted,
            }
        )
        for model, tools, choice, parallel, wanted in product(
            [model.name for model in CONFIG.models],
            offers,
            ["auto", "required", named, only],
            [True, False],
            [None, form],
        )
    ]
    with monkeypatch.context() as patched:
        patched.setattr(modes, "_TAGS", Bounded(0))
        made = [prepare(body, CONFIG).body for body in bodies]
    kept: Bounded[str | None] = Bounded(8_000_000)
    monkeypatch.setattr(modes, "_TAGS", kept)
    assert [prepare(body, CONFIG).body for body in bodies] == made
    count = len(kept)
    assert count > 20
    assert [prepare(body, CONFIG).body for body in bodies] == made
    assert len(kept) == count

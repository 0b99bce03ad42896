"""To whom the two exchanges of `example: true` aren't shown: to agents, whose system prompts are long."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from extproc.config import parse
from extproc.surfaces import prepare
from tests.requests import load

CONFIG = parse("""
models: [{name: m, backend: b, tools: prompt, example: true}]
backends: [{name: b, address: 127.0.0.1:1}]
""")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}
WORDS = "Words. " * 1000
"""A user may say as much as they like."""
AGENTS = {
    name: request
    for name, request in load("clients").items()
    if name.startswith(("cline", "kilo", "opencode", "qwen-code"))
    and request.get("tools")
    and request["messages"][0]["role"] in ("system", "developer")
}
assert len(AGENTS) >= 20


def is_shown(request: dict[str, Any], path: str = "/v1/chat/completions") -> bool:
    body = prepare(orjson.dumps(request | {"model": "m"}), CONFIG, path).body
    system, first, *_ = orjson.loads(body or b"")["messages"]
    assert "You can use these tools" in system["content"]
    return bool(first["content"].startswith("(Example"))


class TestChat:
    @pytest.mark.parametrize(
        ("said", "shown"),
        [
            ([], True),
            ([("system", 2999)], True),
            ([("system", 3000)], False),
            ([("developer", 3000)], False),
            ([("system", 1499), ("developer", 1498)], True),
            ([("system", 1499), ("developer", 1499)], False),  # with the blank line between them
        ],
    )
    def test_it_isnt_behind_a_long_system_prompt(self, said: list[tuple[str, int]], shown: bool) -> None:
        messages = [{"role": role, "content": "é" * length} for role, length in said]
        messages.append({"role": "user", "content": WORDS})
        assert is_shown({"messages": messages, "tools": [TOOL]}) is shown

    @pytest.mark.parametrize(("lengths", "shown"), [((1499, 1499), True), ((1499, 1500), False)])
    def test_its_parts_count_together(self, lengths: tuple[int, int], shown: bool) -> None:
        parts = [{"type": "text", "text": "é" * length} for length in lengths]
        messages = [{"role": "system", "content": parts}, {"role": "user", "content": WORDS}]
        assert is_shown({"messages": messages, "tools": [TOOL]}) is shown

    @pytest.mark.parametrize("name", sorted(AGENTS))
    def test_it_isnt_shown_to_real_agents(self, name: str) -> None:
        assert not is_shown(AGENTS[name])


class TestMessages:
    @pytest.mark.parametrize(("length", "shown"), [(1000, True), (1500, False)])
    def test_blocks_of_the_system_prompt_count_together(self, length: int, shown: bool) -> None:
        request = {
            "max_tokens": 9,
            "system": [{"type": "text", "text": "a" * length}, {"type": "text", "text": "b" * length}],
            "messages": [{"role": "user", "content": WORDS}],
            "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
        }
        assert is_shown(request, "/v1/messages") is shown


class TestResponses:
    @pytest.mark.parametrize(("length", "shown"), [(1000, True), (1500, False)])
    def test_instructions_and_what_the_developer_says_count_together(self, length: int, shown: bool) -> None:
        request = {
            "instructions": "a" * length,
            "input": [{"role": "developer", "content": "b" * length}, {"role": "user", "content": WORDS}],
            "tools": [{"type": "function", "name": "get_weather", "parameters": SCHEMA}],
        }
        assert is_shown(request, "/v1/responses") is shown

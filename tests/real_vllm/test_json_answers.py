"""A request with tools and a schema of the answer's text: the real model calls, or answers by the schema."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from tests.real_vllm.conftest import NAME, TEMPLATE, Gateway

pytestmark = pytest.mark.vllm

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "weather", "schema": SCHEMA, "strict": True}}


@pytest.mark.parametrize("mode", [NAME, TEMPLATE], ids=["prompt", "template"])
def test_a_call_or_json(gateway: Gateway, mode: str) -> None:
    """Which of them is the model's choice: this one, of 0.5B, answers at once, whatever it doesn't know."""
    messages: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]
    request: dict[str, Any] = {"model": mode, "tools": [WEATHER], "response_format": FORMAT, "temperature": 0}
    choice = gateway.openai.chat.completions.create(messages=messages, **request, max_tokens=200).choices[0]
    check(choice)
    call = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    messages += [
        {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees and sunny"},
    ]
    check(gateway.openai.chat.completions.create(messages=messages, **request, max_tokens=200).choices[0])


def check(choice: Any) -> None:
    """It is a call that fits its tool, or a text that fits the schema, and nothing besides."""
    if choice.message.tool_calls:
        assert choice.finish_reason == "tool_calls"
        for call in choice.message.tool_calls:
            assert set(json.loads(call.function.arguments)) == {"city"}
    else:
        assert choice.finish_reason == "stop"
        jsonschema_rs.validate(SCHEMA, json.loads(choice.message.content or ""))

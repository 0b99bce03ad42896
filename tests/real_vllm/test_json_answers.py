"""A request with tools and a schema of the answer's text: the real model calls, and then answers by the schema."""

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
def test_a_call_and_then_json(gateway: Gateway, mode: str) -> None:
    messages: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]
    request: dict[str, Any] = {"model": mode, "tools": [WEATHER], "response_format": FORMAT, "temperature": 0}
    message = gateway.openai.chat.completions.create(messages=messages, **request, max_tokens=200).choices[0].message
    assert message.tool_calls, message.content
    messages.append(message)
    messages += [
        {"role": "tool", "tool_call_id": call.id, "content": "18 degrees and sunny"} for call in message.tool_calls
    ]
    choice = gateway.openai.chat.completions.create(messages=messages, **request, max_tokens=200).choices[0]
    if choice.finish_reason == "stop":  # a small model may call once more
        jsonschema_rs.validate(SCHEMA, json.loads(choice.message.content or ""))
    else:
        assert choice.finish_reason == "tool_calls"

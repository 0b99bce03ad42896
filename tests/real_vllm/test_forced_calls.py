"""A demanded call comes, and fits its schema, whatever the model would rather say: each time, in each mode.

The questions have nothing to do with the tools and the temperature is high: left to itself this model would chat.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema_rs
import openai
import pytest

from tests.real_vllm.conftest import NAME, TEMPLATE, Gateway

pytestmark = pytest.mark.vllm

TIMES = int(os.environ.get("DEMANDS", "5"))
"""Of each demand in each mode; docs/forced-decoding.md is of DEMANDS=20."""
TOOLS = {
    "book_room": {
        "type": "object",
        "properties": {
            "nights": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
            "beds": {"type": "string", "enum": ["one", "two"]},
            "breakfast": {"type": "boolean"},
        },
        "required": ["nights", "beds", "breakfast"],
        "additionalProperties": False,
    },
    "set_color": {
        "type": "object",
        "properties": {"color": {"$ref": "#/$defs/color"}, "of": {"anyOf": [{"const": "wall"}, {"type": "null"}]}},
        "required": ["color", "of"],
        "additionalProperties": False,
        "$defs": {"color": {"type": "string", "enum": ["red", "green", "blue"]}},
    },
}
ASKED = ("Tell me a joke.", "What is the capital of France?", "Write a haiku about rain.", "Who are you?")


def offered(*, strict: bool = False) -> list[dict[str, Any]]:
    functions = [{"name": name, "parameters": schema, "strict": strict} for name, schema in TOOLS.items()]
    return [{"type": "function", "function": function} for function in functions]


def calls_of(client: openai.OpenAI, *, stream: bool, **request: Any) -> list[tuple[str, str]]:
    if not stream:
        message: Any = client.chat.completions.create(**request).choices[0].message
    else:
        with client.chat.completions.stream(**request) as events:
            for _ in events:
                pass
            message = events.get_final_completion().choices[0].message
    return [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("mode", [NAME, TEMPLATE], ids=["prompt", "template"])
@pytest.mark.parametrize("demand", ["required", "named", "strict"])
def test_a_demanded_call_comes_and_fits(gateway: Gateway, demand: str, mode: str, stream: bool) -> None:
    named = {"type": "function", "function": {"name": "set_color"}}
    choice = {"required": "required", "named": named, "strict": "required"}[demand]

    def asked(number: int) -> list[tuple[str, str]]:
        return calls_of(
            gateway.openai,
            stream=stream,
            model=mode,
            messages=[{"role": "user", "content": ASKED[number % len(ASKED)]}],
            tools=offered(strict=demand == "strict"),
            tool_choice=choice,
            parallel_tool_calls=False,
            temperature=1.0,
            seed=number,
            max_tokens=100,
        )

    with ThreadPoolExecutor(max_workers=10) as pool:
        answers = list(pool.map(asked, range(TIMES)))
    for calls in answers:
        ((name, arguments),) = calls
        assert demand != "named" or name == "set_color"
        jsonschema_rs.validate(TOOLS[name], json.loads(arguments))

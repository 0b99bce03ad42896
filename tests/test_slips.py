"""A wrong request is fixed in one try, by nothing but what its error says: where the mistake is, and what would do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import openai
import pytest

from scripted_vllm import Reply
from tests.conversation import QUESTION, tool
from tests.gateway import Gateway

ANSWER = "It is done."
WEATHER = tool("get_weather", city={"type": "string"})


def found(pattern: str, message: str) -> str:
    match = re.search(pattern, message)
    assert match is not None, message
    return match.group(1)


NAMED = {"type": "function", "function": {"name": "getweather"}}
NAMELESS = {"type": "function", "function": {"name": "get weather"}}
MISTYPED = tool("get_weather", city={"type": "str"})
TOLD: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
}
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": QUESTION},
    {"role": "assistant", "content": None, "tool_calls": [TOLD]},
]
Mend = Callable[[str], Any]
SLIPS: Mapping[str, tuple[dict[str, Any], Mend]] = {
    "a temperature that is too high": ({"temperature": 3}, lambda said: int(found(r"from 0 to (\d+)", said))),
    "no token at all": ({"max_tokens": 0}, lambda said: 100 * int(found(r"from (\d+) to", said))),
    "a number in quotes": ({"n": "1"}, lambda said: int(found(r"expected an integer from (\d+)", said))),
    "an effort of another API": ({"reasoning_effort": "maximum"}, lambda said: found(r"'(max)'", said)),
    "a choice of another API": ({"tool_choice": "any"}, lambda said: found(r"'(required)'", said)),
    "a tool's name misspelt": ({"tool_choice": NAMED}, lambda said: found(r"there are: (\w+)", said)),
    "a tool's name with a blank": ({"tools": [NAMELESS]}, lambda said: found(r"'(_)'", said).join(["get", "weather"])),
    "a type of another language": ({"tools": [MISTYPED]}, lambda said: retyped(MISTYPED, said)),
    "a model that isn't there": ({"model": "codr"}, lambda said: found(r"\b(coder)\b", said)),
    "a role of another API": (
        {"messages": [{"role": "human", "content": QUESTION}]},
        lambda said: found(r"\b(user)\b", said),
    ),
    "a result of no call": (
        {"messages": [*HISTORY, {"role": "tool", "content": "Fine."}]},
        lambda said: TOLD["id"] if "the id of the tool call" in said else None,
    ),
    "arguments that are no text": (
        {
            "messages": [
                HISTORY[0],
                {**HISTORY[1], "tool_calls": [{**TOLD, "function": {"name": "f", "arguments": {}}}]},
            ]
        },
        lambda said: json.dumps({}) if "a string that holds JSON" in said else None,
    ),
}


@pytest.mark.parametrize(("fields", "fix"), SLIPS.values(), ids=SLIPS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_slip_is_mended_by_what_its_error_says(
    gateway: Gateway, fields: dict[str, Any], fix: Mend, stream: bool
) -> None:
    gateway.backend.play(Reply(ANSWER))
    request = {
        "model": "coder",
        "messages": HISTORY[:1],
        "tools": [WEATHER],
        "stream": stream,
        **json.loads(json.dumps(fields)),
    }
    create: Any = gateway.openai.chat.completions.create
    with pytest.raises(openai.APIStatusError) as refused:
        create(**request)
    assert refused.value.param
    put(request, refused.value.param, fix(refused.value.response.json()["error"]["message"]))
    answer = create(**request)
    pieces = [chunk.choices[0].delta.content or "" for chunk in answer] if stream else []
    assert ("".join(pieces) if stream else answer.choices[0].message.content) == ANSWER
    assert len(gateway.backend.requests) == 1


def retyped(mistyped: dict[str, Any], said: str) -> Any:
    """The schema with the type that is offered, where the message says that the wrong one is."""
    tools = {"tools": [json.loads(json.dumps(mistyped))]}
    put(tools, found(r"'(tools\[0\][^']*)'", said), found(r"'(string)'", said))
    return tools["tools"][0]["function"]["parameters"]


def put(request: dict[str, Any], param: str, value: Any) -> None:
    """Replace what an error's `param` names, such as `messages[0].role`."""
    *steps, last = [int(step) if step.isdigit() else step for step in re.findall(r"[^.\[\]]+", param)]
    place: Any = request
    for step in steps:
        place = place[step]
    place[last] = value

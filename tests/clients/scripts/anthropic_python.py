"""The errand with Anthropic's library: `python anthropic_python.py URL MODEL TASK create|stream`."""

from __future__ import annotations

import json
import sys
from typing import Any

from anthropic import Anthropic
from anthropic.types import ToolParam

from tests.clients.scripts.workspace import TOOLS

_STRING = {"type": "string"}
_PARAMETERS = {"write_file": ("path", "content"), "run_command": ("command",), "read_file": ("path",)}


def main(url: str, model: str, task: str, way: str) -> None:
    client = Anthropic(base_url=url.removesuffix("/v1"), api_key="unused", max_retries=0)
    tools: list[ToolParam] = [
        {
            "name": tool.__name__,
            "description": tool.__doc__ or "",
            "input_schema": {
                "type": "object",
                "properties": dict.fromkeys(_PARAMETERS[tool.__name__], _STRING),
                "required": list(_PARAMETERS[tool.__name__]),
            },
        }
        for tool in TOOLS
    ]
    by_name = {tool.__name__: tool for tool in TOOLS}
    request: dict[str, Any] = {"model": model, "max_tokens": 4096, "tools": tools}
    messages: list[Any] = [{"role": "user", "content": task}]
    told: dict[str, Any] = {"contents": [], "calls": [], "reasons": [], "tokens": 0}
    counted = client.messages.count_tokens(messages=messages, model=model, tools=tools)
    while True:
        if way == "create":
            message = client.messages.create(messages=messages, **request)
        else:
            with client.messages.stream(messages=messages, **request) as stream:
                for _ in stream:
                    pass
                message = stream.get_final_message()
        if len(messages) == 1:
            assert message.usage.input_tokens == counted.input_tokens
        told["tokens"] += message.usage.input_tokens + message.usage.output_tokens
        told["contents"].append("".join(block.text for block in message.content if block.type == "text"))
        told["reasons"].append(message.stop_reason)
        calls = [block for block in message.content if block.type == "tool_use"]
        told["calls"] += [[call.name, call.input] for call in calls]
        if not calls:
            break
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": by_name[call.name](**call.input)}
            for call in calls
        ]
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])

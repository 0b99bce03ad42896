"""The errand with OpenAI's library by Responses: `python openai_responses.py URL MODEL TASK create|stream`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import openai
from openai.types.responses import Response

from tests.clients.scripts import workspace
from tests.clients.scripts.openai_python import MODELS

RUN: dict[str, Callable[..., str]] = {tool.__name__: tool for tool in workspace.TOOLS}
TOOLS: list[Any] = [
    {
        "type": "function",
        "name": name,
        "description": model.__doc__,
        "parameters": model.model_json_schema(),
        "strict": False,
    }
    for name, model in MODELS.items()
]


def create(client: openai.OpenAI, **request: Any) -> Response:
    response = client.responses.create(tools=TOOLS, **request)
    assert isinstance(response, Response)
    return response


def stream(client: openai.OpenAI, **request: Any) -> Response:
    """Through the library's accumulator, whose events have to tell the same as what it returns."""
    content, arguments = "", list[str]()
    with client.responses.stream(tools=TOOLS, **request) as events:
        for event in events:
            if event.type == "response.output_text.delta":
                content += event.delta
            elif event.type == "response.function_call_arguments.done":
                arguments.append(event.arguments)
        response = events.get_final_response()
    assert content == response.output_text
    assert arguments == [item.arguments for item in response.output if item.type == "function_call"]
    return response


def main(url: str, model: str, task: str, way: str) -> None:
    turn = {"create": create, "stream": stream}[way]
    client = openai.OpenAI(base_url=url, api_key="unused", max_retries=0)
    items: list[Any] = [{"role": "user", "content": task}]
    contents, calls, reasons, tokens = list[str](), list[Any](), list[str | None](), 0
    while True:
        response = turn(client, model=model, instructions="Be brief.", input=items)
        assert response.usage is not None
        tokens += response.usage.total_tokens
        reasons.append(response.status)
        contents.append(response.output_text)
        items += response.output
        due = [item for item in response.output if item.type == "function_call"]
        for call in due:
            arguments = json.loads(call.arguments)
            calls.append([call.name, arguments])
            items.append(
                {"type": "function_call_output", "call_id": call.call_id, "output": RUN[call.name](**arguments)}
            )
        if not due:
            break
    print(json.dumps({"contents": contents, "calls": calls, "reasons": reasons, "tokens": tokens}))


if __name__ == "__main__":
    main(*sys.argv[1:])

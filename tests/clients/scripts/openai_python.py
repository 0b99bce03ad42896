"""The errand with OpenAI's library for Python: `python openai_python.py URL MODEL TASK create|stream|parse`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import openai
from openai.types.chat import ChatCompletion
from pydantic import BaseModel

from tests.clients.scripts import workspace


class WriteFile(BaseModel):
    """Write a text to a file."""

    path: str
    content: str


class RunCommand(BaseModel):
    """Run a command in a shell."""

    command: str


class ReadFile(BaseModel):
    """Read a file."""

    path: str


MODELS: dict[str, type[BaseModel]] = {"write_file": WriteFile, "run_command": RunCommand, "read_file": ReadFile}
RUN: dict[str, Callable[..., str]] = {tool.__name__: tool for tool in workspace.TOOLS}
STRICT: list[Any] = [openai.pydantic_function_tool(model, name=name) for name, model in MODELS.items()]
LOOSE: list[Any] = [
    {
        "type": "function",
        "function": {"name": name, "description": model.__doc__, "parameters": model.model_json_schema()},
    }
    for name, model in MODELS.items()
]


def create(client: openai.OpenAI, **request: Any) -> ChatCompletion:
    completion = client.chat.completions.create(tools=LOOSE, **request)
    assert isinstance(completion, ChatCompletion)
    return completion


def stream(client: openai.OpenAI, **request: Any) -> ChatCompletion:
    """Through the library's accumulator, whose events have to tell the same as what it returns."""
    content, arguments = "", list[str]()
    with client.chat.completions.stream(tools=LOOSE, stream_options={"include_usage": True}, **request) as events:
        for event in events:
            if event.type == "content.delta":
                content += event.delta
            elif event.type == "tool_calls.function.arguments.done":
                arguments.append(event.arguments)
        completion = events.get_final_completion()
    message = completion.choices[0].message
    assert content == (message.content or "")
    assert arguments == [call.function.arguments for call in message.tool_calls or ()]
    return completion


def parse(client: openai.OpenAI, **request: Any) -> ChatCompletion:
    """With strict tools, whose arguments come as instances of their models."""
    completion = client.chat.completions.parse(tools=STRICT, **request)
    for call in completion.choices[0].message.tool_calls or ():
        assert isinstance(call.function.parsed_arguments, MODELS[call.function.name])
    return completion


def main(url: str, model: str, task: str, way: str) -> None:
    turn = {"create": create, "stream": stream, "parse": parse}[way]
    client = openai.OpenAI(base_url=url, api_key="unused", max_retries=0)
    messages: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": task}]
    contents, calls, reasons, tokens = list[str](), list[Any](), list[str](), 0
    while True:
        completion = turn(client, model=model, messages=messages)
        assert completion.usage is not None
        tokens += completion.usage.total_tokens
        choice = completion.choices[0]
        reasons.append(choice.finish_reason)
        messages.append(choice.message)
        contents.append(choice.message.content or "")
        if not choice.message.tool_calls:
            break
        for call in choice.message.tool_calls:
            assert call.type == "function"
            arguments = json.loads(call.function.arguments)
            calls.append([call.function.name, arguments])
            result = RUN[call.function.name](**arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    print(json.dumps({"contents": contents, "calls": calls, "reasons": reasons, "tokens": tokens}))


if __name__ == "__main__":
    main(*sys.argv[1:])

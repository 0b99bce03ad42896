"""A client of the gateway as people write them with the official library, and the model at the other end.

The model's turns are written in a format's own text and queued beforehand; what the client then sends it, and what the
client got, is there to be looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from openai.types.chat import ChatCompletion

from scripted_vllm import Reply, Usage
from tests.format_writers import Call, Output, Writer
from tests.gateway import Gateway

QUESTION = "Please do it."


def tool(name: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """A tool whose parameters are all required."""
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": f"Does {name}", "parameters": parameters}}


@dataclass(frozen=True)
class Way:
    """How a model is served, how it writes, and how its answers come back."""

    model: str
    writer: Writer
    stream: bool

    def says(self, *calls: tuple[str, dict[str, Any]], before: str = "", usage: Usage | None = None) -> Reply:
        """One turn of the model, as text of its format."""
        made = tuple(Call(name, arguments, number) for number, (name, arguments) in enumerate(calls))
        return Reply(self.writer.write(Output(made, before=before)), usage=usage)


class Client:
    """A program that works with tools, as people write them with the official client."""

    def __init__(self, gateway: Gateway, way: Way, *tools: dict[str, Any]) -> None:
        self.gateway = gateway
        self.way = way
        self.tools: Any = list(tools)
        self.messages: list[Any] = [{"role": "user", "content": QUESTION}]
        self.completions: list[ChatCompletion] = []

    def ask(self, **fields: Any) -> Any:
        """Have the model take its turn. Returns its message, which is part of the conversation then."""
        request: dict[str, Any] = {"model": self.way.model, "messages": self.messages, "tools": self.tools, **fields}
        completions = self.gateway.openai.chat.completions
        if self.way.stream:
            with completions.stream(**request) as stream:  # raises on deltas that don't fit together
                completion = stream.get_final_completion()
        else:
            completion = completions.create(**request)
        self.completions.append(completion)
        message = completion.choices[0].message
        self.messages.append(message)
        return message

    def tell(self, call: Any, content: str) -> None:
        """Send the result of a call along with the next turn."""
        self.messages.append({"role": "tool", "tool_call_id": call.id, "content": content})

    def work(self, runs: Callable[[str, Any], str], **fields: Any) -> str:
        """Ask, run what is called, and ask again, until there is nothing to run: the model's last words."""
        while (message := self.ask(**fields)).tool_calls:
            for call in message.tool_calls:
                try:
                    result = runs(call.function.name, json.loads(call.function.arguments))
                except Exception as error:  # a tool may fail in any way
                    result = f"Error: {error}"
                self.tell(call, result)
        assert isinstance(message.content, str)
        return message.content

    @property
    def calls(self) -> list[list[tuple[str, Any]]]:
        """The calls of each turn."""
        return [
            [
                (call.function.name, json.loads(call.function.arguments))
                for call in completion.choices[0].message.tool_calls or ()
                if call.type == "function"
            ]
            for completion in self.completions
        ]

    @property
    def reasons(self) -> list[str]:
        return [completion.choices[0].finish_reason for completion in self.completions]

    @property
    def ids(self) -> list[str]:
        return [call.id for completion in self.completions for call in completion.choices[0].message.tool_calls or ()]


def shown(gateway: Gateway, request: int = -1) -> str:
    """All that the model was shown of a conversation, as text."""
    body = gateway.backend.requests[request].json
    return json.dumps([body["messages"], body.get("tools")], ensure_ascii=False)


def in_order(text: str, *parts: str) -> bool:
    """Whether the text has all the parts, one behind the other."""
    return re.search(".*".join(map(re.escape, parts)), text, re.DOTALL) is not None

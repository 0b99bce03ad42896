"""A chat completion request, read and checked as far as this gateway acts on it.

`read_request` takes the body's bytes and returns a `ChatRequest`, or raises the ApiError that tells the client
what to mend. What the gateway doesn't act on is left to the backend, which checks it too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import orjson

from extproc.openai.errors import (
    ApiError,
    invalid_json,
    invalid_request,
    invalid_type,
    invalid_value,
    missing_parameter,
)

Json: TypeAlias = dict[str, Any]

ROLES = ("system", "developer", "user", "assistant", "tool")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


@dataclass(frozen=True, slots=True)
class NamedTool:
    """`tool_choice` that names one function."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a client asked for. `fields` is the whole request object, as sent; the rest is read from it."""

    fields: Json
    model: str
    messages: list[Json]
    tools: list[Json]
    """OpenAI tool definitions; empty when the client offers none."""
    tool_choice: ToolChoice
    parallel_tool_calls: bool
    stream: bool
    include_usage: bool
    """The client wants the usage chunk of a stream."""

    @property
    def offers_tools(self) -> bool:
        """Whether the model may answer with calls."""
        return bool(self.tools) and self.tool_choice != "none"

    @property
    def has_tool_history(self) -> bool:
        """Whether earlier turns hold calls or results."""
        return any(message["role"] == "tool" or message.get("tool_calls") for message in self.messages)


def read_request(body: bytes) -> ChatRequest:
    """Read the body of `POST /v1/chat/completions`. Raises ApiError (400)."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise invalid_json(error) from None
    if not isinstance(fields, dict):
        raise invalid_request(
            "The request body must be a JSON object with 'model' and 'messages'.", code="invalid_json"
        )
    if "model" not in fields:
        raise missing_parameter("model", "Name the model to use; GET /v1/models lists them.")
    model = fields["model"]
    if not isinstance(model, str):
        raise invalid_type("model", "a string", model)
    tools = _tools(fields)
    stream = _flag(fields, "stream", default=False)
    return ChatRequest(
        fields=fields,
        model=model,
        messages=_messages(fields),
        tools=tools,
        tool_choice=_tool_choice(fields, tools),
        parallel_tool_calls=_flag(fields, "parallel_tool_calls", default=True),
        stream=stream,
        include_usage=_include_usage(fields, stream=stream),
    )


def _messages(fields: Json) -> list[Json]:
    if "messages" not in fields:
        raise missing_parameter("messages", "Send an array with at least one message.")
    messages = fields["messages"]
    if not isinstance(messages, list):
        raise invalid_type("messages", "an array", messages)
    if not messages:
        raise invalid_value("messages", "expected at least one message, got an empty array.")
    called: set[str] = set()
    for index, message in enumerate(messages):
        param = f"messages[{index}]"
        if not isinstance(message, dict):
            raise invalid_type(param, "an object with 'role' and 'content'", message)
        if "role" not in message:
            raise missing_parameter(f"{param}.role", f"Expected one of: {', '.join(ROLES)}.")
        role = message["role"]
        if role not in ROLES:
            raise invalid_value(f"{param}.role", f"expected one of {', '.join(ROLES)}, got {role!r}.")
        _check_content(message, param)
        if message.get("tool_calls") is not None:
            called |= _check_tool_calls(message, param)
        if role == "tool":
            _check_tool_result(message, param, called)
    return messages


def _check_content(message: Json, param: str) -> None:
    content = message.get("content")
    if content is None:
        if message["role"] != "assistant":
            raise missing_parameter(f"{param}.content", f"A message of role {message['role']} needs content.")
        return
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise invalid_type(f"{param}.content", "a string or an array of parts", content)
    for index, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise invalid_type(f"{param}.content[{index}]", "an object with a 'type'", part)
        if part["type"] == "text" and not isinstance(part.get("text"), str):
            raise invalid_type(f"{param}.content[{index}].text", "a string", part.get("text"))


def _check_tool_calls(message: Json, param: str) -> set[str]:
    param = f"{param}.tool_calls"
    calls = message["tool_calls"]
    if message["role"] != "assistant":
        raise invalid_value(param, "only a message of role assistant can have tool calls.")
    if not isinstance(calls, list):
        raise invalid_type(param, "an array", calls)
    ids: set[str] = set()
    for index, call in enumerate(calls):
        here = f"{param}[{index}]"
        if not isinstance(call, dict):
            raise invalid_type(here, "an object", call)
        if not isinstance(call.get("id"), str) or not call["id"]:
            raise missing_parameter(f"{here}.id", "Send the id that the call came with.")
        function = call.get("function")
        if not isinstance(function, dict):
            raise missing_parameter(f"{here}.function", "Send an object with 'name' and 'arguments'.")
        if not isinstance(function.get("name"), str):
            raise missing_parameter(f"{here}.function.name", "Name the function that was called.")
        if not isinstance(function.get("arguments"), str):
            raise invalid_type(f"{here}.function.arguments", "a string that holds JSON", function.get("arguments"))
        ids.add(call["id"])
    return ids


def _check_tool_result(message: Json, param: str, called: set[str]) -> None:
    call_id = message.get("tool_call_id")
    if not isinstance(call_id, str):
        raise missing_parameter(f"{param}.tool_call_id", "Send the id of the tool call that this is the result of.")
    if call_id not in called:
        raise invalid_value(
            f"{param}.tool_call_id",
            f"{call_id!r} is the id of no tool call in an earlier assistant message; "
            "send the assistant message with its tool_calls before the results.",
        )


def _tools(fields: Json) -> list[Json]:
    tools = fields.get("tools")
    if tools is None:
        return []
    if not isinstance(tools, list):
        raise invalid_type("tools", "an array", tools)
    names: set[str] = set()
    for index, tool in enumerate(tools):
        param = f"tools[{index}]"
        if not isinstance(tool, dict):
            raise invalid_type(param, "an object", tool)
        if tool.get("type") != "function":
            raise invalid_value(f"{param}.type", f"only 'function' is supported, got {tool.get('type')!r}.")
        function = tool.get("function")
        if not isinstance(function, dict):
            raise missing_parameter(f"{param}.function", "Send an object with 'name', 'description' and 'parameters'.")
        name = function.get("name")
        if not isinstance(name, str):
            raise missing_parameter(f"{param}.function.name", "Name the function.")
        if not TOOL_NAME.match(name):
            raise invalid_value(
                f"{param}.function.name", f"expected 1 to 64 letters, digits, '_' or '-', got {name[:80]!r}."
            )
        if name in names:
            raise invalid_value(f"{param}.function.name", f"{name!r} is used by an earlier tool; names must be unique.")
        names.add(name)
        parameters = function.get("parameters")
        if parameters is not None and not isinstance(parameters, dict):
            raise invalid_type(f"{param}.function.parameters", "a JSON Schema object", parameters)
    return tools


def _tool_choice(fields: Json, tools: list[Json]) -> ToolChoice:
    choice = fields.get("tool_choice")
    if choice is None:
        return "auto" if tools else "none"
    if choice == "none":
        return "none"
    if not tools:
        raise invalid_value("tool_choice", "it is only allowed when 'tools' are given.")
    if choice == "auto":
        return "auto"
    if choice == "required":
        return "required"
    if not isinstance(choice, Mapping):
        raise _bad_choice(choice)
    function = choice.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if choice.get("type") != "function" or not isinstance(name, str):
        raise _bad_choice(choice)
    if name not in (there_are := [tool["function"]["name"] for tool in tools]):
        raise invalid_value(
            "tool_choice.function.name", f"no tool is named {name!r}; 'tools' has: {', '.join(there_are)}."
        )
    return NamedTool(name)


def _bad_choice(choice: object) -> ApiError:
    shown = repr(choice) if isinstance(choice, str) else "something else"
    return invalid_value(
        "tool_choice",
        "expected 'none', 'auto', 'required' or "
        f'{{"type": "function", "function": {{"name": "..."}}}}, got {shown}.',
    )


def _flag(fields: Json, name: str, *, default: bool) -> bool:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise invalid_type(name, "a boolean", value)
    return value


def _include_usage(fields: Json, *, stream: bool) -> bool:
    options = fields.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict):
        raise invalid_type("stream_options", "an object", options)
    if not stream:
        raise invalid_value("stream_options", "it is only allowed when 'stream' is true.")
    value = options.get("include_usage")
    if value is not None and not isinstance(value, bool):
        raise invalid_type("stream_options.include_usage", "a boolean", value)
    return bool(value)

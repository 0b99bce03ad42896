"""The tools that a request offers: `tools`, and `functions` of clients older than tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from extproc.openai.errors import (
    ApiError,
    array_too_long,
    empty_string,
    invalid_schema,
    invalid_type,
    invalid_value,
    missing_parameter,
    quoted,
    string_too_long,
)
from extproc.openai.json_body import encode
from extproc.openai.schemas import schema_problems

Json: TypeAlias = dict[str, Any]

FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_LONGEST_NAME = 64
_NAME = "1 to 64 letters, digits, '_' or '-'"
MOST_TOOLS = 128
MOST_SCHEMA_BYTES = 1024 * 1024
"""Of all tools together. A schema costs up to 1 us per byte to check, and one request must not hold up the others."""

TOOL_PARAMETERS = frozenset({"tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"})
"""The gateway's own business: a backend gets them only in the form that its model's mode needs."""


def definition_problems(fields: Json) -> Iterator[ApiError]:
    """What is wrong with `tools` and `functions`."""
    seen = _Seen()
    if (tools := fields.get("tools")) is not None:
        yield from _list_problems(tools, "tools")
        for index, tool in enumerate(tools if isinstance(tools, list) else ()):
            yield from _tool(tool, f"tools[{index}]", seen)
    if (functions := fields.get("functions")) is not None:
        if tools and functions:
            yield invalid_value("functions", "it can't be combined with 'tools'; send one of the two.")
            return
        yield from _list_problems(functions, "functions")
        for index, function in enumerate(functions if isinstance(functions, list) else ()):
            yield from _function(function, f"functions[{index}]", seen)


def offered(fields: Json) -> list[Json]:
    """The tools of a valid request, as tool definitions."""
    if tools := fields.get("tools"):
        return list(tools)
    return [{"type": "function", "function": function} for function in fields.get("functions") or ()]


def names_of(fields: Json) -> list[str]:
    """The names of the tools that are offered, as far as they can be read."""
    functions = fields.get("functions")
    if isinstance(tools := fields.get("tools"), list) and tools:
        functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
    if not isinstance(functions, list):
        return []
    names = [function.get("name") for function in functions if isinstance(function, dict)]
    return [name for name in names if isinstance(name, str)]


_FUNCTION = "Send an object with 'name', 'description' and 'parameters'."


@dataclass(slots=True)
class _Seen:
    """What the definitions before have used up."""

    names: set[str] = field(default_factory=set)
    schema_bytes: int = 0


def _list_problems(value: Any, param: str) -> Iterator[ApiError]:
    if not isinstance(value, list):
        yield invalid_type(param, "an array", value)
    elif len(value) > MOST_TOOLS:
        yield array_too_long(param, f"at most {MOST_TOOLS} of them", len(value))


def _tool(tool: Any, param: str, seen: _Seen) -> Iterator[ApiError]:
    if not isinstance(tool, dict):
        yield invalid_type(param, "an object with 'type' and 'function'", tool)
        return
    kind = tool.get("type")
    if kind is None:
        yield missing_parameter(f"{param}.type", "Expected 'function'.")
    elif not isinstance(kind, str):
        yield invalid_type(f"{param}.type", "'function'", kind)
    elif kind != "function":
        yield invalid_value(f"{param}.type", f"only 'function' is supported, got {quoted(kind)}.")
    if tool.get("function") is None:
        advice = "Put 'name', 'description' and 'parameters' into it." if "name" in tool else _FUNCTION
        yield missing_parameter(f"{param}.function", advice)
    else:
        yield from _function(tool["function"], f"{param}.function", seen)


def _function(function: Any, param: str, seen: _Seen) -> Iterator[ApiError]:
    if not isinstance(function, dict):
        yield invalid_type(param, "an object with 'name', 'description' and 'parameters'", function)
        return
    yield from _name(function.get("name"), f"{param}.name", seen.names)
    if (description := function.get("description")) is not None and not isinstance(description, str):
        yield invalid_type(f"{param}.description", "a string", description)
    strict = function.get("strict")
    if strict is not None and not isinstance(strict, bool):
        yield invalid_type(f"{param}.strict", "a boolean", strict)
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        yield invalid_type(f"{param}.parameters", "a JSON Schema object", parameters)
    elif parameters:
        seen.schema_bytes += len(encode(parameters))
        if seen.schema_bytes > MOST_SCHEMA_BYTES:
            what = (
                f"'{param}.parameters' is too large, because all schemas together may have {MOST_SCHEMA_BYTES} bytes."
            )
            yield invalid_schema(f"{param}.parameters", function.get("name"), what)
            return
        for problem in schema_problems(parameters, f"{param}.parameters", strict=strict is True):
            yield invalid_schema(f"{param}.parameters", function.get("name"), problem.message)


def _name(name: Any, param: str, names: set[str]) -> Iterator[ApiError]:
    if name is None:
        yield missing_parameter(param, "Name the function.")
    elif not isinstance(name, str):
        yield invalid_type(param, "a string", name)
    elif not name:
        yield empty_string(param, _NAME)
    elif len(name) > _LONGEST_NAME:
        yield string_too_long(param, _NAME, len(name))
    elif not FUNCTION_NAME.match(name):
        yield invalid_value(param, f"expected {_NAME}, got {quoted(name)}.")
    elif name in names:
        yield invalid_value(param, f"{quoted(name)} is used by an earlier tool; names must be unique.")
    else:
        names.add(name)

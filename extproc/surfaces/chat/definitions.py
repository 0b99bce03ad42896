"""The tools that a request offers: `tools`, and `functions` of clients older than tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from extproc.contract.errors import ApiError, invalid_type, invalid_value, missing_parameter, quoted
from extproc.contract.json_array import ToolArray
from extproc.contract.tool_definitions import Definitions, list_problems

Json: TypeAlias = dict[str, Any]


def definition_problems(fields: Json) -> Iterator[ApiError]:
    """What is wrong with `tools` and `functions`."""
    seen = Definitions()
    if (tools := fields.get("tools")) is not None:
        yield from list_problems(tools, "tools")
        for index, tool in enumerate(tools if isinstance(tools, list) else ()):
            yield from _tool(tool, f"tools[{index}]", seen)
    if (functions := fields.get("functions")) is not None:
        if tools and functions:
            yield invalid_value("functions", "it can't be combined with 'tools'; send one of the two.")
            return
        yield from list_problems(functions, "functions")
        for index, function in enumerate(functions if isinstance(functions, list) else ()):
            yield from _function(function, f"functions[{index}]", seen)


def offered(fields: Json) -> Sequence[Json]:
    """The tools of a valid request, as tool definitions."""
    if tools := fields.get("tools"):
        return tools if isinstance(tools, ToolArray) else list(tools)
    return [{"type": "function", "function": function} for function in fields.get("functions") or ()]


def names_of(fields: Json) -> list[str]:
    """The names of the tools that are offered, as far as they can be read."""
    if isinstance(known := fields.get("tools"), ToolArray):
        return list(known.names)
    functions = fields.get("functions")
    if isinstance(tools := fields.get("tools"), list) and tools:
        functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
    if not isinstance(functions, list):
        return []
    names = [function.get("name") for function in functions if isinstance(function, dict)]
    return [name for name in names if isinstance(name, str)]


_FUNCTION = "Send an object with 'name', 'description' and 'parameters'."


def _tool(tool: Any, param: str, seen: Definitions) -> Iterator[ApiError]:
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


def _function(function: Any, param: str, seen: Definitions) -> Iterator[ApiError]:
    if not isinstance(function, dict):
        yield invalid_type(param, "an object with 'name', 'description' and 'parameters'", function)
        return
    name = function.get("name")
    yield from seen.name(name, f"{param}.name")
    if (description := function.get("description")) is not None and not isinstance(description, str):
        yield invalid_type(f"{param}.description", "a string", description)
    strict = function.get("strict")
    if strict is not None and not isinstance(strict, bool):
        yield invalid_type(f"{param}.strict", "a boolean", strict)
    yield from seen.schema(function.get("parameters"), f"{param}.parameters", name, strict=strict is True)

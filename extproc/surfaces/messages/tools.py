"""The tools of a Messages request, and which of them the model may, must or must not call.

A tool with a `type` of Anthropic's own (`web_search_20250305`, `bash_20250124`) runs on Anthropic's servers, or is one
that only Anthropic's models were taught: it is kept back and named. The model isn't shown it and so won't call it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.contract.errors import ApiError, invalid_type, invalid_value, missing_parameter, quoted
from extproc.contract.tool_choice import NamedTool, ToolChoice
from extproc.contract.tool_definitions import MOST_TOOLS_OF_AGENTS, Definitions, list_problems

Json: TypeAlias = dict[str, Any]

LONGEST_NAME = 128
_CHOICES = ("auto", "any", "tool", "none")


_OF_ANTHROPIC = re.compile(r"[a-z_]+_20\d{6}|mcp_toolset|tool_search\w*")
_KNOWN = frozenset({"name", "description", "input_schema", "type", "cache_control", "strict"})
_SHOWN = 64


def is_own(tool: Any) -> bool:
    """Whether the client says itself what the tool is, and runs it."""
    return isinstance(tool, dict) and tool.get("type") in (None, "custom")


def tool_problems(fields: Json) -> Iterator[ApiError]:
    """What is wrong with `tools`."""
    if (tools := fields.get("tools")) is None:
        return
    yield from list_problems(tools, "tools", MOST_TOOLS_OF_AGENTS)
    seen = Definitions(LONGEST_NAME)
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        param = f"tools[{index}]"
        if not isinstance(tool, dict):
            yield invalid_type(param, "an object with 'name', 'description' and 'input_schema'", tool)
            continue
        if (kind := tool.get("type")) is not None and not isinstance(kind, str):
            yield invalid_type(f"{param}.type", "a string", kind)
        elif is_own(tool):
            yield from _own(tool, param, seen)
        elif not _OF_ANTHROPIC.fullmatch(str(kind)):
            yield invalid_value(f"{param}.type", f"expected 'custom', or nothing, got {quoted(str(kind))}.")


def _own(tool: Json, param: str, seen: Definitions) -> Iterator[ApiError]:
    name = tool.get("name")
    yield from seen.name(name, f"{param}.name")
    if (description := tool.get("description")) is not None and not isinstance(description, str):
        yield invalid_type(f"{param}.description", "a string", description)
    strict = tool.get("strict")
    if strict is not None and not isinstance(strict, bool):
        yield invalid_type(f"{param}.strict", "a boolean", strict)
    if tool.get("input_schema") is None:
        yield missing_parameter(f"{param}.input_schema", "Expected a JSON Schema object, of type object.")
    yield from seen.schema(tool.get("input_schema"), f"{param}.input_schema", name, strict=strict is True)


def choice_problems(fields: Json) -> Iterator[ApiError]:
    """What is wrong with `tool_choice`, given the tools."""
    if (choice := fields.get("tool_choice")) is None:
        return
    if not isinstance(choice, dict):
        yield invalid_type("tool_choice", "an object with a 'type'", choice)
        return
    kind = choice.get("type")
    if not isinstance(kind, str) or kind not in _CHOICES:
        yield invalid_value("tool_choice.type", f"expected one of {', '.join(_CHOICES)}.")
    parallel = choice.get("disable_parallel_tool_use")
    if parallel is not None and not isinstance(parallel, bool):
        yield invalid_type("tool_choice.disable_parallel_tool_use", "a boolean", parallel)
    tools = fields.get("tools")
    names = [tool.get("name") for tool in tools if is_own(tool)] if isinstance(tools, list) else []
    if kind == "any" and not names:
        yield invalid_value("tool_choice", "it demands a call, and there are no tools that the client runs.")
    elif kind == "tool":
        if choice.get("name") is None:
            yield missing_parameter("tool_choice.name", "Name the tool to call.")
        elif not isinstance(choice["name"], str):
            yield invalid_type("tool_choice.name", "a string", choice["name"])
        elif choice["name"] not in names:
            yield invalid_value("tool_choice.name", f"no tool is named {quoted(choice['name'])}.")


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a valid request."""

    definitions: Sequence[Json]
    """OpenAI's."""
    places: list[str]
    """Where the name of each stands."""
    kept_back: list[str]
    """What no model gets."""


def read_tools(fields: Json) -> Tools:
    """Those of a valid request."""
    definitions: list[Json] = []
    places: list[str] = []
    kept_back: list[str] = []
    for index, tool in enumerate(fields.get("tools") or ()):
        if not is_own(tool):
            name = tool.get("name")
            kept_back.append(f"tools.{name[:_SHOWN] if isinstance(name, str) and name else tool['type'][:_SHOWN]}")
            continue
        kept_back += sorted(f"tools.{member[:_SHOWN]}" for member in tool.keys() - _KNOWN - _met(tool))
        function = {"name": tool["name"], "parameters": tool["input_schema"]}
        if tool.get("description"):
            function["description"] = tool["description"]
        if tool.get("strict") is not None:
            function["strict"] = tool["strict"]
        definitions.append({"type": "function", "function": function})
        places.append(f"tools[{index}].name")
    return Tools(definitions, places, sorted(set(kept_back)))


def _met(tool: Json) -> set[str]:
    """Input streams as the model writes it: that is what `eager_input_streaming` asks for, unless it is false."""
    return set() if tool.get("eager_input_streaming") is False else {"eager_input_streaming"}


def read_choice(fields: Json, tools: Sequence[Json]) -> tuple[ToolChoice, bool]:
    """The choice of a valid request, and whether calls may be parallel."""
    choice = fields.get("tool_choice") or {}
    parallel = choice.get("disable_parallel_tool_use") is not True
    if not tools:
        return "none", parallel
    match choice.get("type"):
        case "any":
            return "required", parallel
        case "tool":
            return NamedTool(choice["name"]), parallel
        case "none":
            return "none", parallel
        case _:
            return "auto", parallel

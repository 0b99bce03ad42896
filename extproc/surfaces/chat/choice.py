"""Which tools the model may, must or must not call: `tool_choice`, `parallel_tool_calls`, legacy `function_call`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from extproc.contract.errors import ApiError, empty_array, invalid_type, invalid_value, missing_parameter, quoted
from extproc.contract.tool_choice import NamedTool, ToolChoice
from extproc.surfaces.chat.definitions import names_of

Json: TypeAlias = dict[str, Any]


_FORMS = (
    "expected 'none', 'auto', 'required', "
    '{"type": "function", "function": {"name": "..."}} or {"type": "allowed_tools", ...}'
)


def choice_problems(fields: Json) -> Iterator[ApiError]:
    """What is wrong with the choice, given the tools."""
    parallel = fields.get("parallel_tool_calls")
    if parallel is not None and not isinstance(parallel, bool):
        yield invalid_type("parallel_tool_calls", "a boolean", parallel)
    names = names_of(fields)
    if (choice := fields.get("tool_choice")) is not None:
        if fields.get("functions") and not fields.get("tools"):
            yield invalid_value("tool_choice", "with 'functions' the choice is made by 'function_call'.")
        else:
            yield from _tool_choice(choice, names, tools_given=fields.get("tools") is not None)
    if (call := fields.get("function_call")) is not None:
        if fields.get("tools"):
            yield invalid_value("function_call", "with 'tools' the choice is made by 'tool_choice'.")
        else:
            yield from _function_call(call, names, functions_given=fields.get("functions") is not None)


def read_choice(fields: Json, tools: Sequence[Json]) -> tuple[ToolChoice, Sequence[Json]]:
    """The choice of a valid request, and those of its tools that are allowed."""
    choice = fields.get("tool_choice") if fields.get("tools") else fields.get("function_call")
    if not tools or choice == "none":
        return "none", tools
    match choice:
        case "required":
            return "required", tools
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": references}}:
            allowed = {reference["function"]["name"] for reference in references}
            kept = [tool for tool in tools if tool["function"]["name"] in allowed]
            return ("required" if mode == "required" else "auto"), kept
        case {"function": {"name": str(name)}} | {"name": str(name)}:
            return NamedTool(name), tools
        case _:
            return "auto", tools


def _tool_choice(choice: Any, names: Sequence[str], *, tools_given: bool) -> Iterator[ApiError]:
    param = "tool_choice"
    if not isinstance(choice, str | dict):
        yield invalid_type(param, "a string or an object", choice)
    elif isinstance(choice, str) and choice not in ("none", "auto", "required"):
        yield invalid_value(param, f"{_FORMS}, got {quoted(choice)}.")
    elif choice != "none" and not names and not (choice == "auto" and tools_given):
        yield invalid_value(param, "it is only allowed when 'tools' are given.")
    elif isinstance(choice, dict):
        match choice.get("type"):
            case "function":
                yield from _reference(choice, param, names)
            case "allowed_tools":
                yield from _allowed(choice.get("allowed_tools"), f"{param}.allowed_tools", names)
            case None:
                yield missing_parameter(f"{param}.type", "Expected 'function' or 'allowed_tools'.")
            case str(kind):
                yield invalid_value(f"{param}.type", f"expected 'function' or 'allowed_tools', got {quoted(kind)}.")
            case kind:
                yield invalid_type(f"{param}.type", "'function' or 'allowed_tools'", kind)


def _allowed(allowed: Any, param: str, names: Sequence[str]) -> Iterator[ApiError]:
    if allowed is None:
        yield missing_parameter(param, "Send an object with 'mode' and 'tools'.")
        return
    if not isinstance(allowed, dict):
        yield invalid_type(param, "an object with 'mode' and 'tools'", allowed)
        return
    mode, tools = allowed.get("mode"), allowed.get("tools")
    if mode is None:
        yield missing_parameter(f"{param}.mode", "Expected 'auto' or 'required'.")
    elif not isinstance(mode, str):
        yield invalid_type(f"{param}.mode", "'auto' or 'required'", mode)
    elif mode not in ("auto", "required"):
        yield invalid_value(f"{param}.mode", f"expected 'auto' or 'required', got {quoted(mode)}.")
    param = f"{param}.tools"
    if tools is None:
        yield missing_parameter(param, 'Send an array of {"type": "function", "function": {"name": "..."}}.')
    elif not isinstance(tools, list):
        yield invalid_type(param, "an array", tools)
    elif not tools:
        yield empty_array(param, "at least one tool")
    else:
        for index, tool in enumerate(tools):
            here = f"{param}[{index}]"
            if not isinstance(tool, dict):
                yield invalid_type(here, "an object with 'type' and 'function'", tool)
            elif tool.get("type") != "function":
                yield invalid_value(f"{here}.type", "expected 'function'.")
            else:
                yield from _reference(tool, here, names)


def _reference(tool: Json, param: str, names: Sequence[str]) -> Iterator[ApiError]:
    """`{"type": "function", "function": {"name": ...}}`"""
    function = tool.get("function")
    if function is not None and not isinstance(function, dict):
        yield invalid_type(f"{param}.function", "an object with a 'name'", function)
    else:
        yield from _known((function or {}).get("name"), f"{param}.function.name", names)


def _function_call(call: Any, names: Sequence[str], *, functions_given: bool) -> Iterator[ApiError]:
    param = "function_call"
    if not isinstance(call, str | dict):
        yield invalid_type(param, "a string or an object with a 'name'", call)
    elif isinstance(call, str) and call not in ("none", "auto"):
        yield invalid_value(param, f"expected 'none', 'auto' or {{\"name\": \"...\"}}, got {quoted(call)}.")
    elif call != "none" and not names and not (call == "auto" and functions_given):
        yield invalid_value(param, "it is only allowed when 'functions' are given.")
    elif isinstance(call, dict):
        yield from _known(call.get("name"), f"{param}.name", names)


def _known(name: Any, param: str, names: Sequence[str]) -> Iterator[ApiError]:
    if name is None:
        yield missing_parameter(param, "Name the function to call.")
    elif not isinstance(name, str):
        yield invalid_type(param, "a string", name)
    elif name not in names:
        there_are = ", ".join(names[:_NAMED_MOST]) + (", ..." if len(names) > _NAMED_MOST else "")
        yield invalid_value(param, f"no tool is named {quoted(name)}; there are: {there_are}.")


_NAMED_MOST = 5

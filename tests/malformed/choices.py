"""Mistakes in the choice among tools: `tool_choice`, `parallel_tool_calls`, and `function_call` of old."""

from __future__ import annotations

from typing import Any

from tests.malformed.edits import EMPTY_ARRAY, MISSING, TYPE, VALUE, Json, bad, both, drop, made_from, put
from tests.malformed.legal import CHOOSING, LEGACY, PLAIN


def _named(name: Any) -> Json:
    return {"type": "function", "function": {"name": name}}


def _allowed(mode: Any = "auto", tools: Any = ()) -> Json:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools or [_named("get_time")]}}


_ALLOWED = "tool_choice.allowed_tools"

_TOOL_CHOICE = made_from(
    CHOOSING,
    bad("a choice that is a number", put("tool_choice", 1), TYPE),
    bad("a choice that is an array", put("tool_choice", [_named("get_time")]), TYPE),
    bad("a choice that is a boolean", put("tool_choice", True), TYPE),
    bad("a choice that is false", put("tool_choice", False), TYPE),
    bad("an empty choice", put("tool_choice", ""), VALUE),
    bad("Anthropic's choice", put("tool_choice", "any"), VALUE),
    bad("a choice in capitals", put("tool_choice", "AUTO"), VALUE),
    bad("a tool's name as choice", put("tool_choice", "get_time"), VALUE),
    bad("a choice of 100 KB", put("tool_choice", "x" * 100_000), VALUE),
    bad("a choice without a type", put("tool_choice", {}), MISSING, "tool_choice.type"),
    bad(
        "a choice with just a function",
        put("tool_choice", {"function": {"name": "get_time"}}),
        MISSING,
        "tool_choice.type",
    ),
    bad("a choice's type is null", put("tool_choice", {"type": None}), MISSING, "tool_choice.type"),
    bad("a choice's type is a number", put("tool_choice", {"type": 1}), TYPE, "tool_choice.type"),
    bad("a choice's type is an array", put("tool_choice", {"type": ["function"]}), TYPE, "tool_choice.type"),
    bad("a choice of another type", put("tool_choice", {"type": "web_search"}), VALUE, "tool_choice.type"),
    bad("a choice of type auto", put("tool_choice", {"type": "auto"}), VALUE, "tool_choice.type"),
    bad("a choice without a function", put("tool_choice", {"type": "function"}), MISSING, "tool_choice.function.name"),
    bad(
        "a choice in the Responses API's form",
        put("tool_choice", {"type": "function", "name": "get_time"}),
        MISSING,
        "tool_choice.function.name",
    ),
    bad(
        "a choice's function as a string",
        put("tool_choice", {"type": "function", "function": "get_time"}),
        TYPE,
        "tool_choice.function",
    ),
    bad(
        "a choice's function as an array",
        put("tool_choice", {"type": "function", "function": []}),
        TYPE,
        "tool_choice.function",
    ),
    bad("a choice without a name", put("tool_choice", _named(None)), MISSING, "tool_choice.function.name"),
    bad("a choice's name is a number", put("tool_choice", _named(7)), TYPE, "tool_choice.function.name"),
    bad("a choice's name is an array", put("tool_choice", _named(["get_time"])), TYPE, "tool_choice.function.name"),
    bad("a choice's name is empty", put("tool_choice", _named("")), VALUE, "tool_choice.function.name"),
    bad("a choice of no tool", put("tool_choice", _named("get_tide")), VALUE, "tool_choice.function.name"),
    bad("a choice in other letters", put("tool_choice", _named("Get_Time")), VALUE, "tool_choice.function.name"),
    bad(
        "a choice of no tool, of 100 KB", put("tool_choice", _named("x" * 100_000)), VALUE, "tool_choice.function.name"
    ),
)
_ALLOWED_TOOLS = made_from(
    CHOOSING,
    bad("nothing allowed", put("tool_choice", {"type": "allowed_tools"}), MISSING, _ALLOWED),
    bad("allowed as an array", put("tool_choice", {"type": "allowed_tools", "allowed_tools": []}), TYPE, _ALLOWED),
    bad("allowed without a mode", both(put("tool_choice", _allowed()), drop(f"{_ALLOWED}.mode")), MISSING),
    bad("allowed in the mode null", put("tool_choice", _allowed(None)), MISSING, f"{_ALLOWED}.mode"),
    bad("allowed in a numbered mode", put("tool_choice", _allowed(1)), TYPE, f"{_ALLOWED}.mode"),
    bad("allowed in an unknown mode", put("tool_choice", _allowed("none")), VALUE, f"{_ALLOWED}.mode"),
    bad("allowed without tools", both(put("tool_choice", _allowed()), drop(f"{_ALLOWED}.tools")), MISSING),
    bad("allowed: no tool", both(put("tool_choice", _allowed()), put(f"{_ALLOWED}.tools", [])), EMPTY_ARRAY),
    bad("allowed as a name", put("tool_choice", _allowed(tools="get_time")), TYPE, f"{_ALLOWED}.tools"),
    bad("allowed as names", put("tool_choice", _allowed(tools=["get_time"])), TYPE, f"{_ALLOWED}.tools[0]"),
    bad("allowed: null", put("tool_choice", _allowed(tools=[None])), TYPE, f"{_ALLOWED}.tools[0]"),
    bad(
        "allowed: another type of tool",
        put("tool_choice", _allowed(tools=[{**_named("get_time"), "type": "mcp"}])),
        VALUE,
        f"{_ALLOWED}.tools[0].type",
    ),
    bad(
        "allowed: a tool without a name",
        put("tool_choice", _allowed(tools=[_named(None)])),
        MISSING,
        f"{_ALLOWED}.tools[0].function.name",
    ),
    bad(
        "allowed: a tool named by a number",
        put("tool_choice", _allowed(tools=[_named(7)])),
        TYPE,
        f"{_ALLOWED}.tools[0].function.name",
    ),
    bad(
        "allowed: an unknown tool",
        put("tool_choice", _allowed(tools=[_named("get_time"), _named("get_tide")])),
        VALUE,
        f"{_ALLOWED}.tools[1].function.name",
    ),
)
_WITHOUT_TOOLS = [
    *made_from(
        PLAIN,
        bad("auto without tools", put("tool_choice", "auto"), VALUE),
        bad("required without tools", put("tool_choice", "required"), VALUE),
        bad("a named tool without tools", put("tool_choice", _named("get_time")), VALUE),
        bad("allowed tools without tools", put("tool_choice", _allowed()), VALUE),
    ),
    *made_from(
        CHOOSING,
        bad("required of no tool", both(put("tools", []), put("tool_choice", "required")), VALUE),
        bad("a named tool of none", both(put("tools", []), put("tool_choice", _named("get_time"))), VALUE),
        bad("auto of null", both(put("tools", None), put("tool_choice", "auto")), VALUE),
    ),
]
_PARALLEL = [
    *made_from(
        CHOOSING,
        bad("parallel calls as a string", put("parallel_tool_calls", "false"), TYPE),
        bad("parallel calls as a number", put("parallel_tool_calls", 1), TYPE),
        bad("parallel calls as an array", put("parallel_tool_calls", []), TYPE),
    ),
    *made_from(PLAIN, bad("parallel calls of no tool, as a string", put("parallel_tool_calls", "true"), TYPE)),
]
_FUNCTION_CALL = [
    *made_from(
        LEGACY,
        bad("a function to call that is a number", put("function_call", 1), TYPE),
        bad("a function to call in an array", put("function_call", ["get_time"]), TYPE),
        bad("a function to call that is true", put("function_call", True), TYPE),
        bad("a function's name as choice", put("function_call", "get_time"), VALUE),
        bad("required of functions", put("function_call", "required"), VALUE),
        bad("a function to call without a name", put("function_call", {}), MISSING, "function_call.name"),
        bad(
            "a function to call whose name is null", put("function_call", {"name": None}), MISSING, "function_call.name"
        ),
        bad("a function to call named by a number", put("function_call", {"name": 7}), TYPE, "function_call.name"),
        bad(
            "a function to call that isn't there",
            put("function_call", {"name": "get_tide"}),
            VALUE,
            "function_call.name",
        ),
        bad("a tool's choice among functions", both(drop("function_call"), put("tool_choice", "auto")), VALUE),
        bad("a named tool among functions", both(drop("function_call"), put("tool_choice", _named("get_time"))), VALUE),
    ),
    *made_from(
        CHOOSING,
        bad("a function's choice among tools", put("function_call", "auto"), VALUE),
        bad("a named function among tools", put("function_call", {"name": "get_time"}), VALUE),
    ),
    *made_from(
        PLAIN,
        bad("a function's choice without functions", put("function_call", "auto"), VALUE),
        bad("a named function without functions", put("function_call", {"name": "get_time"}), VALUE),
    ),
]

ROWS = [*_TOOL_CHOICE, *_ALLOWED_TOOLS, *_WITHOUT_TOOLS, *_PARALLEL, *_FUNCTION_CALL]

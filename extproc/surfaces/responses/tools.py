"""The tools of a Responses request, and which of them the model may, must or must not call.

Every tool that the client runs is a function for the model. A custom tool, whose input is text, has one parameter for
it; a tool of a namespace has the namespace before its name; one that OpenAI's models were taught is told what they know
(`taught_tools`). `ToolName` tells how a call goes back. Tools that OpenAI's servers run are kept back and named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.contract.errors import ApiError, invalid_type, invalid_value, missing_parameter, quoted
from extproc.contract.tool_choice import NamedTool, ToolChoice
from extproc.contract.tool_definitions import MOST_TOOLS_OF_AGENTS, Definitions, TextGrammar, list_problems
from extproc.prompts.grammar import is_enforceable
from extproc.surfaces.responses.taught_tools import TAUGHT, full_name
from extproc.turn.turn import ToolName

Json: TypeAlias = dict[str, Any]

INPUT = "input"
"""The parameter of a custom tool."""
LONGEST_NAME = 128
_OWN = ("function", "custom", "namespace")
_MODES = ("none", "auto", "required")


def tool_problems(fields: Json) -> Iterator[ApiError]:
    """What is wrong with `tools`, and with those that a client's search has found."""
    if (tools := fields.get("tools")) is not None:
        yield from list_problems(tools, "tools", MOST_TOOLS_OF_AGENTS)
    seen = Definitions(LONGEST_NAME)
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        yield from _tool(tool, f"tools[{index}]", seen, _OWN, None)
    for tool, param in _found_tools(fields):  # the same may well be found again
        yield from _tool(tool, param, Definitions(LONGEST_NAME), _OWN, None)


def _tool(
    tool: Any, param: str, seen: Definitions, allowed: tuple[str, ...], namespace: str | None
) -> Iterator[ApiError]:
    if not isinstance(tool, dict):
        yield invalid_type(param, "an object with a 'type'", tool)
        return
    kind = tool.get("type")
    if kind is None:
        yield missing_parameter(f"{param}.type", f"Expected one of: {', '.join(allowed)}.")
    elif not isinstance(kind, str):
        yield invalid_type(f"{param}.type", "a string", kind)
    elif kind in TAUGHT and namespace is None:
        if not isinstance(where := tool.get("environment"), dict | None):
            yield invalid_type(f"{param}.environment", "an object with a 'type'", where)
        if (told := tool.get("description")) is not None and not isinstance(told, str):
            yield invalid_type(f"{param}.description", "a string", told)
        if TAUGHT[kind].runs_here(tool):
            yield from seen.name(kind, f"{param}.type")
            yield from seen.schema(tool.get("parameters"), f"{param}.parameters", kind)
    elif kind not in allowed:
        if namespace is not None:
            yield invalid_value(f"{param}.type", f"expected one of {', '.join(allowed)}, got {quoted(kind)}.")
    elif kind == "namespace":
        yield from _namespace(tool, param, seen)
    else:
        name = tool.get("name")
        yield from seen.name(full_name(name, namespace) if isinstance(name, str) else name, f"{param}.name")
        if (description := tool.get("description")) is not None and not isinstance(description, str):
            yield invalid_type(f"{param}.description", "a string", description)
        strict = tool.get("strict")
        if strict is not None and not isinstance(strict, bool):
            yield invalid_type(f"{param}.strict", "a boolean", strict)
        if kind == "function":
            yield from seen.schema(tool.get("parameters"), f"{param}.parameters", name, strict=strict is True)
        else:
            yield from _format(tool.get("format"), f"{param}.format")


def _format(format_: Any, param: str) -> Iterator[ApiError]:
    if format_ is None:
        return
    if not isinstance(format_, dict):
        yield invalid_type(param, "an object with a 'type'", format_)
    elif format_.get("type") not in ("text", "grammar"):
        yield invalid_value(f"{param}.type", "expected 'text' or 'grammar'.")
    elif format_["type"] == "grammar":
        if format_.get("syntax") not in ("lark", "regex"):
            yield invalid_value(f"{param}.syntax", "expected 'lark' or 'regex'.")
        if format_.get("definition") is None:
            yield missing_parameter(f"{param}.definition", "Send the grammar.")
        elif not isinstance(format_["definition"], str):
            yield invalid_type(f"{param}.definition", "a string", format_["definition"])


def _namespace(tool: Json, param: str, seen: Definitions) -> Iterator[ApiError]:
    name, tools = tool.get("name"), tool.get("tools")
    if not isinstance(name, str) or not name:
        yield invalid_type(f"{param}.name", "a string that isn't empty", name)
    elif not isinstance(tools, list):
        yield invalid_type(f"{param}.tools", "an array", tools)
    elif not isinstance(description := tool.get("description"), str | None):
        yield invalid_type(f"{param}.description", "a string", description)
    else:
        for index, inner in enumerate(tools):
            yield from _tool(inner, f"{param}.tools[{index}]", seen, ("function", "custom"), name)


def choice_problems(fields: Json) -> Iterator[ApiError]:
    """What is wrong with `tool_choice`, given the tools."""
    choice = fields.get("tool_choice")
    if choice is None:
        return
    names = {name: known for _, name, known, _ in own_tools(fields)}
    if isinstance(choice, str):
        if choice not in _MODES:
            yield invalid_value("tool_choice", f"expected one of {', '.join(_MODES)}, got {quoted(choice)}.")
        elif choice == "required" and not names:
            yield invalid_value("tool_choice", "it demands a call, and there are no tools that the client runs.")
    elif not isinstance(choice, dict):
        yield invalid_type("tool_choice", "a string or an object", choice)
    elif choice.get("type") == "allowed_tools":
        tools = choice.get("tools")
        if choice.get("mode") not in ("auto", "required"):
            yield invalid_value("tool_choice.mode", "expected 'auto' or 'required'.")
        if not isinstance(tools, list) or not tools:
            yield invalid_type("tool_choice.tools", "an array of references to tools", tools)
            return
        for index, reference in enumerate(tools):
            yield from _reference(reference, f"tool_choice.tools[{index}]", names)
    else:
        yield from _reference(choice, "tool_choice", names)


def _reference(reference: Any, param: str, names: Mapping[str, ToolName]) -> Iterator[ApiError]:
    kind = reference.get("type") if isinstance(reference, dict) else None
    if isinstance(kind, str) and kind in names and names[kind].kind == kind:  # a taught tool, which has no other name
        return
    if kind not in ("function", "custom"):
        yield invalid_value(f"{param}.type", "expected 'function' or 'custom': only the client's own tools are called.")
    elif not isinstance(name := reference.get("name"), str):
        yield missing_parameter(f"{param}.name", "Name the tool.")
    elif full_name(name, reference.get("namespace")) not in names:
        yield invalid_value(f"{param}.name", f"no tool is named {quoted(name)}.")


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a valid request."""

    definitions: Sequence[Json]
    """OpenAI's."""
    names: Mapping[str, ToolName]
    """By the name that the model knows: those that are no functions of that name for the client."""
    places: list[str]
    """Where the name of each stands."""
    kept_back: list[str]
    """What of them no model gets, or isn't held to, and what nobody reads."""
    shown: Sequence[Json]
    """As an answer repeats them."""


def read_tools(fields: Json) -> Tools:
    """Those of a valid request."""
    own = list(own_tools(fields))
    return Tools(
        [definition(tool, name, known) for tool, name, known, _ in own],
        {name: known for _, name, known, _ in own if known.kind != "function" or known.namespace},
        [place for *_, place in own],
        [*kept_back(fields), *unread_members(fields)],
        [_shown(tool) for tool in fields.get("tools") or ()],
    )


def _shown(tool: Json) -> Json:
    """As OpenAI shows it: a function has all its fields."""
    if tool["type"] == "function":
        return {"parameters": None, "strict": None, **tool}
    if tool["type"] == "namespace":
        return {"description": "", **tool, "tools": [_shown(inner) for inner in tool["tools"]]}
    return tool


def finds_tools(item: Any) -> bool:
    """Whether an item holds tools that the client's own search has found."""
    return (
        isinstance(item, dict)
        and item.get("type") == TAUGHT["tool_search"].result
        and item.get("execution") == "client"
    )


def _found_tools(fields: Json) -> Iterator[tuple[Any, str]]:
    """Those that the client's own search has found in earlier turns, and where they stand."""
    items = fields.get("input")
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if finds_tools(item):
            found = item.get("tools")
            for at, tool in enumerate(found if isinstance(found, list) else ()):
                yield tool, f"input[{index}].tools[{at}]"


def own_tools(fields: Json) -> Iterator[tuple[Json, str, ToolName, str]]:
    """The client's own tools, with the name that the model knows, how a call goes back, and where the name stands.

    Of one that was found several times, or found and sent, the last counts.
    """
    tools = fields.get("tools")
    offered = [(tool, f"tools[{index}]") for index, tool in enumerate(tools if isinstance(tools, list) else ())]
    last: dict[str, tuple[Json, str, ToolName, str]] = {}
    for tool, param in (*offered, *_found_tools(fields)):
        last.update((own[1], own) for own in _own(tool, param))
    yield from last.values()


def _own(tool: Any, param: str) -> Iterator[tuple[Json, str, ToolName, str]]:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind == "namespace":
        inner = tool.get("tools")
        for at, each in enumerate(inner if isinstance(inner, list) else ()):
            if isinstance(each, dict) and isinstance(name := each.get("name"), str):
                known = _known(each, tool.get("name"))
                yield each, full_name(name, tool.get("name")), known, f"{param}.tools[{at}].name"
    elif isinstance(kind, str) and kind in TAUGHT:
        if TAUGHT[kind].runs_here(tool):
            yield tool, kind, ToolName(kind, None, kind), f"{param}.type"
    elif kind in ("function", "custom") and isinstance(name := tool.get("name"), str):
        yield tool, name, _known(tool, None), f"{param}.name"


def _known(tool: Json, namespace: Any) -> ToolName:
    custom = tool.get("type") == "custom"
    grammar = _grammar(tool) if custom else None
    forced = grammar if grammar is not None and is_enforceable(grammar) else None
    return ToolName(tool["name"], namespace, "custom" if custom else "function", forced)


def _grammar(tool: Json) -> TextGrammar | None:
    """What the input of a custom tool has to follow."""
    match tool.get("format"):
        case {"type": "grammar", "syntax": str(syntax), "definition": str(definition_)}:
            return TextGrammar(INPUT, syntax, definition_)
        case _:
            return None


def kept_back(fields: Json) -> list[str]:
    """What of the tools no model gets, or isn't held to, by the names that clients know."""
    sent = (*(fields.get("tools") or ()), *(tool for tool, _ in _found_tools(fields)))
    names = [
        f"tools.{tool.get('name') or tool['type']}"
        for tool in sent
        if tool["type"] not in _OWN and not (tool["type"] in TAUGHT and TAUGHT[tool["type"]].runs_here(tool))
    ]
    for tool, name, known, _ in own_tools(fields):
        if known.grammar is None and known.kind == "custom" and _grammar(tool) is not None:
            names.append(f"tools.{name}.format")  # it is told to the model, and not forced
        if known.kind in TAUGHT and (tool.get("environment") or {}).get("skills"):
            names.append(f"tools.{name}.environment.skills")
    return names


_READ: Mapping[str, frozenset[str]] = {
    kind: frozenset(f"type name description defer_loading {more}".split())
    for kind, more in {
        "function": "parameters strict",
        "custom": "format",
        "namespace": "tools",
        "local_shell": "",
        "shell": "environment",
        "apply_patch": "",
        "tool_search": "execution parameters",
    }.items()
}
"""The members of tools that are read, or change nothing where all tools are shown at once."""


def unread_members(fields: Json) -> Iterator[str]:
    """What clients say of their own tools and nobody reads, named as `kept_back` does."""
    for tool, name, _, _ in own_tools(fields):
        yield from _unread(tool, name)
    for tool in (*(fields.get("tools") or ()), *(tool for tool, _ in _found_tools(fields))):
        if tool["type"] == "namespace":
            yield from _unread(tool, tool["name"])
            if tool.get("description"):
                yield f"tools.{tool['name']}.description"


def _unread(tool: Json, name: str) -> Iterator[str]:
    for member in sorted(tool.keys() - _READ[tool["type"]]):
        value = tool[member]
        says_nothing = value in (None, False) or (
            member == "allowed_callers" and isinstance(value, list) and "direct" in value
        )
        if not says_nothing:
            yield f"tools.{name}.{member}"


def definition(tool: Json, name: str, known: ToolName) -> Json:
    """As an OpenAI tool definition."""
    if known.kind in TAUGHT:
        return TAUGHT[known.kind].definition(tool)
    function: Json = {"name": name}
    description = tool.get("description") or ""
    if known.kind == "custom":
        told = tool.get("format") or {}
        if told.get("type") == "grammar" and isinstance(told.get("definition"), str):
            description += f"\n\nThe input follows this grammar ({told.get('syntax')}):\n{told['definition']}"
        text = {"type": "string", "description": "The whole input, as plain text"}
        function["parameters"] = {
            "type": "object",
            "properties": {INPUT: text},
            "required": [INPUT],
            "additionalProperties": False,
        }
    else:
        if tool.get("parameters") is not None:
            function["parameters"] = tool["parameters"]
        if tool.get("strict") is not None:
            function["strict"] = tool["strict"]
    if description:
        function["description"] = description
    return {"type": "function", "function": function}


def read_choice(fields: Json, tools: Sequence[Json]) -> tuple[ToolChoice, Sequence[Json]]:
    """The choice of a valid request, and those of its tools that are allowed."""
    choice = fields.get("tool_choice")
    if not tools or choice == "none":
        return "none", tools
    match choice:
        case "required":
            return "required", tools
        case {"type": "allowed_tools", "mode": mode, "tools": references}:
            allowed = {_referred(reference) for reference in references}
            kept = [tool for tool in tools if tool["function"]["name"] in allowed]
            return ("required" if mode == "required" else "auto"), kept
        case dict():
            return NamedTool(_referred(choice)), tools
        case _:
            return "auto", tools


def _referred(reference: Json) -> str:
    """The name that the model knows; one taught tool has no other than its type."""
    kind: str = reference["type"]
    return kind if kind in TAUGHT else full_name(reference["name"], reference.get("namespace"))

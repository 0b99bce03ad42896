"""A call in a JSON object of another shape than a format has: which tool it calls, and with what.

    {"tool": "f", "parameters": {...}}      other words for the keys
    {"name": "f", "a": 1}                   the arguments beside the name
    {"f": {"a": 1}}                         the tool's name as the key
    {"a": 1}                                the arguments alone, where the words before it have named the tool

An answer may look like any of these. So the object has to be JSON, and whole, the tool an offered one, and the
arguments such that the tool's schema has each of them, and all that it requires, with values of the right types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.toolcalls.notations.values import parameter_schemas, said_types
from extproc.toolcalls.repairs import Repair

Tools: TypeAlias = Mapping[str, Mapping[str, Any]]

NAME_KEYS = frozenset({"name", "function", "tool", "tool_name", "function_name", "action"})
ARGUMENTS_KEYS = frozenset(
    {
        *("arguments", "parameters", "args", "params", "input", "kwargs"),
        *("tool_input", "tool_args", "tool_arguments", "tool_parameters", "action_input"),
        *("function_args", "function_arguments", "function_parameters"),
    }
)
WRAPPERS = frozenset({"tool_call", "tool_calls", "function_call", "function_calls", "tool_use", "calls"})
"""Keys of an object, or of a list, that is nothing but calls."""
_BESIDES = frozenset({"id", "type", "tool_call_id", "call_id"})


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse)


@dataclass(frozen=True, slots=True)
class FoundCall:
    """One that an object holds."""

    name: str
    arguments: str
    """JSON text, as it stood there."""
    slip: Repair


@dataclass(frozen=True, slots=True)
class _Member:
    value: Any
    text: str


def found_call(text: str, tools: Tools, announced: str | None) -> FoundCall | None:
    """The call in an object that is the whole `text`; `announced` is the tool that the words before it have named."""
    members = _members(text)
    if members is None:
        return None
    found = _with_other_keys(members, tools) or _beside(members, tools) or _by_name(members, tools)
    if found is None and announced is not None:
        found = FoundCall(announced, text, "prose")
    return found if found is not None and fits(json.loads(found.arguments), tools[found.name]) else None


def _with_other_keys(members: Mapping[str, _Member], tools: Tools) -> FoundCall | None:
    names, arguments = set(members) & NAME_KEYS, set(members) & ARGUMENTS_KEYS
    if len(names) != 1 or len(arguments) != 1 or members.keys() - names - arguments - _BESIDES:
        return None
    name, given = members[names.pop()].value, members[arguments.pop()]
    if not isinstance(name, str) or name not in tools:
        return None
    written = given.value if isinstance(given.value, str) else given.text
    return FoundCall(name, written, "keys") if _members(written) is not None else None


def _beside(members: Mapping[str, _Member], tools: Tools) -> FoundCall | None:
    """The key of the name mustn't be one of the tool's own parameters: then it may be an argument. Where the tool
    requires nothing, too little tells the object from any other that has a name."""
    names = set(members) & NAME_KEYS
    for key in names if len(names) == 1 else ():
        name = members[key].value
        others = [f"{json.dumps(other)}: {member.text}" for other, member in members.items() if other != key]
        if not isinstance(name, str) or name not in tools:
            continue
        schema, properties = parameter_schemas(tools[name])
        if schema.get("required") and key not in properties:
            return FoundCall(name, "{" + ", ".join(others) + "}", "beside")
    return None


def _by_name(members: Mapping[str, _Member], tools: Tools) -> FoundCall | None:
    for name, member in members.items() if len(members) == 1 else ():
        if name in tools and isinstance(member.value, dict):
            return FoundCall(name, member.text, "names")
    return None


def fits(arguments: Mapping[str, Any], tool: Mapping[str, Any]) -> bool:
    """Whether they are what the schema names and requires, as far as types and listed values go."""
    schema, properties = parameter_schemas(tool)
    required = schema.get("required", ())
    if not isinstance(required, Sequence) or not set(required) <= arguments.keys() <= properties.keys():
        return False
    return all(_fits(value, properties[key], schema) for key, value in arguments.items())


def _fits(value: Any, schema: object, root: Mapping[str, Any]) -> bool:
    types = said_types(schema, root)
    if types and types.isdisjoint(_types_of(value)):
        return False
    listed = schema.get("enum") if isinstance(schema, Mapping) else None
    return not isinstance(listed, Sequence) or value in listed


def _types_of(value: Any) -> frozenset[str]:
    match value:
        case None:
            return frozenset({"null"})
        case bool():
            return frozenset({"boolean"})
        case int():
            return frozenset({"integer", "number"})
        case float():
            return frozenset({"integer", "number"} if value.is_integer() else {"number"})
        case str():
            return frozenset({"string"})
        case list():
            return frozenset({"array"})
        case _:
            return frozenset({"object"})


def _members(text: str) -> dict[str, _Member] | None:
    """The members of an object, with their text. None if the text is no object, or has a key twice."""
    members: dict[str, _Member] = {}
    try:
        at = _behind(text, "{", 0)
        while text[at] != "}":
            key, at = _decoder.raw_decode(text, at)
            at = _behind(text, ":", at)
            value, end = _decoder.raw_decode(text, at)
            if not isinstance(key, str) or key in members:
                return None
            members[key] = _Member(value, text[at:end])
            at = _blank(text, end)
            if text[at] != "}":
                at = _behind(text, ",", at)
                if text[at] == "}":
                    return None
        return members if not text[at + 1 :].strip() else None
    except (ValueError, IndexError, RecursionError):
        return None


def _behind(text: str, sign: str, at: int) -> int:
    at = _blank(text, at)
    if text[at] != sign:
        raise ValueError(sign)
    return _blank(text, at + 1)


def _blank(text: str, at: int) -> int:
    while text[at] in " \n\r\t":
        at += 1
    return at

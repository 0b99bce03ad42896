"""A call in a JSON object of another shape than a format has: which tool it calls, and with what.

    {"tool": "f", "parameters": {...}}      other words for the keys
    {"tool": "f", "a": 1}                   the arguments beside a name under such a key
    {"f": {"a": 1}}                         the tool's name as the key

They are read only behind a marker that has announced a call: without one an answer may look like any of them. The tool
has to be an offered one, and the arguments such that its schema has each of them, and all that it requires, with
values of the right types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.toolcalls.notations.json_members import Member
from extproc.toolcalls.notations.quoted_text import json_text
from extproc.toolcalls.notations.values import parameter_schemas, said_types
from extproc.toolcalls.repairs import Repair

Tools: TypeAlias = Mapping[str, Mapping[str, Any]]

_NAME_KEYS = frozenset({"tool", "tool_name", "function_name", "action"})
_ARGUMENTS_KEYS = frozenset(
    {
        *("arguments", "parameters", "args", "params", "input", "kwargs"),
        *("tool_input", "tool_args", "tool_arguments", "tool_parameters", "action_input"),
        *("function_args", "function_arguments", "function_parameters"),
    }
)
_BESIDES = frozenset({"id", "type", "tool_call_id", "call_id"})


@dataclass(frozen=True, slots=True)
class FoundCall:
    """One that an object holds."""

    name: str
    arguments: str
    """JSON text."""
    slip: Repair


def other_call(members: Sequence[Member], arguments: str | None, tools: Tools) -> FoundCall | None:
    """The call in an object without a name under one of the usual keys; `arguments` are what stood under one of those
    for arguments, `members` all the rest."""
    texts = {member.key: "".join(member.pieces) for member in members}
    if len(texts) < len(members):
        return None  # a key came twice
    if arguments is None:
        found = _with_other_keys(texts, tools) or _beside(texts, tools) or _by_name(texts, tools)
    else:
        found = _with_other_keys({**texts, "arguments": arguments or "{}"}, tools)
    if found is None:
        return None
    given = _value(found.arguments)
    return found if isinstance(given, dict) and _fit(given, tools[found.name]) else None


def _with_other_keys(texts: Mapping[str, str], tools: Tools) -> FoundCall | None:
    names, arguments = texts.keys() & _NAME_KEYS, texts.keys() & _ARGUMENTS_KEYS
    if len(names) != 1 or len(arguments) != 1 or texts.keys() - names - arguments - _BESIDES:
        return None
    name, written = _value(texts[names.pop()]), texts[arguments.pop()]
    if not isinstance(name, str) or name not in tools:
        return None
    encoded = _value(written)
    return FoundCall(name, encoded if isinstance(encoded, str) else written, "keys")


def _beside(texts: Mapping[str, str], tools: Tools) -> FoundCall | None:
    """The key of the name mustn't be one of the tool's own parameters: then it may be an argument. Where the tool
    requires nothing, too little tells the object from any other."""
    names = texts.keys() & _NAME_KEYS
    for key in names if len(names) == 1 else ():
        name = _value(texts[key])
        if not isinstance(name, str) or name not in tools:
            continue
        schema, properties = parameter_schemas(tools[name])
        if schema.get("required") and key not in properties:
            others = (f"{json_text(other)}: {text}" for other, text in texts.items() if other != key)
            return FoundCall(name, "{" + ", ".join(others) + "}", "beside")
    return None


def _by_name(texts: Mapping[str, str], tools: Tools) -> FoundCall | None:
    for name, text in texts.items() if len(texts) == 1 else ():
        if name in tools:
            return FoundCall(name, text, "names")
    return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _value(text: str) -> Any:
    """What a JSON text says; None if it is none."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _fit(arguments: Mapping[str, Any], tool: Mapping[str, Any]) -> bool:
    """Whether they are what the schema names and requires, as far as types and listed values go."""
    schema, properties = parameter_schemas(tool)
    required = schema.get("required", ())
    if not isinstance(required, Sequence) or any(key not in list(arguments) for key in required):
        return False
    return all(key in properties and _fits(value, properties[key], schema) for key, value in arguments.items())


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

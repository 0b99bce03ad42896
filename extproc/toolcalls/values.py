"""Types a value that a model wrote as bare text, by the schema of its parameter.

Formats with tags write `<parameter=count>5</parameter>`: whether that is the number 5 or the string "5" only the
tool's schema can tell. The rule: a parameter that may only be a string is the text as it stands. Otherwise the text
is JSON if it fits the schema's types, else a Python literal if that fits (`True`, `None`, single quotes), else a
string after all. Numbers and JSON keep the spelling that the model gave them: `1.0` and integers of any size pass.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

ANY_TYPE = frozenset({"null", "integer", "number", "boolean", "object", "array", "string"})
STRING = frozenset({"string"})
STRING_OR_NULL = frozenset({"string", "null"})

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
_MAX_LITERAL = 200_000  # Python's own parser needs memory in proportion, and a good deal of it


def parameter_schemas(tool: Schema) -> tuple[Schema, Mapping[str, Schema]]:
    """The whole parameter schema of an OpenAI tool definition, for references, and its properties."""
    parameters = tool.get("function", {}).get("parameters")
    if not isinstance(parameters, Mapping):
        return {}, {}
    properties = parameters.get("properties")
    return parameters, properties if isinstance(properties, Mapping) else {}


def allowed_types(schema: object, root: Schema, depth: int = 0) -> frozenset[str]:
    """The JSON types that a schema lets a value have; only strings when it doesn't say."""
    if not isinstance(schema, Mapping) or depth > 16:
        return STRING
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return allowed_types(_resolve(reference, root), root, depth + 1)
    types: set[str] = set()
    match schema.get("type"):
        case str(name):
            types.add(name)
        case [*names]:
            types.update(name for name in names if isinstance(name, str))
    if not types:
        types.update(_type_of(value) for value in schema.get("enum") or ())
        if "const" in schema:
            types.add(_type_of(schema["const"]))
    for word in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(word)
        if isinstance(branches, Sequence) and not types:
            types.update(*(allowed_types(branch, root, depth + 1) for branch in branches))
    if not types and "properties" in schema:
        types.add("object")
    if not types and "items" in schema:
        types.add("array")
    return frozenset(types) & ANY_TYPE or STRING


def typed(text: str, types: frozenset[str]) -> str:
    """The JSON text of a value that was written as `text`."""
    if types == STRING:
        return quoted(text)
    stripped = text.strip()
    if _is_json(stripped, types):
        return stripped
    lowered = stripped.lower()
    if lowered in ("true", "false") and "boolean" in types:
        return lowered
    if stripped in ("None", "null") and "null" in types:
        return "null"
    if types & {"object", "array"} and len(stripped) <= _MAX_LITERAL:
        literal = _literal(stripped)
        if literal is not None and _type_of(literal) in types:
            return json.dumps(literal, ensure_ascii=False)
    return quoted(text)


def object_members(text: str) -> str | None:
    """What stands between the braces of a JSON object; None when it is none, or empty."""
    stripped = text.strip()
    try:
        value = json.loads(stripped, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return stripped[1:-1].strip() if isinstance(value, dict) and value else None


quoted: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode
"""A text as a JSON string. (`json.dumps` would make an encoder at every call.)"""


def _is_json(text: str, types: frozenset[str]) -> bool:
    number = _NUMBER.match(text)
    if number is not None:
        whole = number.group(1) is None and number.group(2) is None
        return "number" in types or ("integer" in types and (whole or float(text).is_integer()))
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return _type_of(value) in types


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _literal(text: str) -> Any:
    """A Python list or dictionary, None when it is neither or holds what JSON can't."""
    if text[:1] not in ("[", "{"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what it thinks of the model's spelling
            value = ast.literal_eval(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def _resolve(reference: str, root: Schema) -> object:
    """What a local reference (`#/$defs/x`) points at; None when it points nowhere."""
    if not reference.startswith("#"):
        return None
    node: object = root
    for part in reference[1:].split("/")[1:]:
        if not isinstance(node, Mapping):
            return None
        node = node.get(part.replace("~1", "/").replace("~0", "~"))
    return node

"""Types a value that a model wrote as bare text, by the schema of its parameter.

Formats with tags write `<parameter=count>5</parameter>`: whether that is the number 5 or the string "5" only the
tool's schema can tell. The rule: a parameter that may only be a string is the text as it stands. Otherwise the text
is JSON if it fits the schema's types, else Python if that fits (`True`, `None`, single quotes), else a string after
all. Numbers and JSON keep the spelling that the model gave them: `1.0` and integers of any size pass.

Where the schema allows no string, a string would be wrong in any case; so more spellings count there: `07` and `+5`,
JSON in quotes or in a fence, objects and lists with slips. What stays a string even so is what could mean two things:
`yes` for a boolean, `1,5` for a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, TypeAlias

from extproc.toolcalls.notations.lenient_literal import JSON_NUMBER, literal, number

Schema: TypeAlias = Mapping[str, Any]

ANY_TYPE = frozenset({"null", "integer", "number", "boolean", "object", "array", "string"})
STRING = frozenset({"string"})
STRING_OR_NULL = frozenset({"string", "null"})
CONTAINERS = frozenset({"array", "object"})
_NUMBERS = frozenset({"integer", "number"})

# What a schema without a type says it with.
OBJECT_WORDS = frozenset(("properties", "additionalProperties", "patternProperties"))
ARRAY_WORDS = frozenset(("items", "prefixItems"))
_MOST_SCHEMAS = 256  # of those that say together what one value is

_NO_VALUE = frozenset(("", "none", "nil", "undefined"))  # what a null may be spelled like, where no string can stand

_MAX_LITERAL = 200_000  # characters of a value that is no JSON and may be repaired
_MOST_QUOTED = 3  # times a value may be quoted over again
_THOUSANDS = re.compile(r"[+\-−]?[0-9]{1,3}(?:,[0-9]{3})+(?P<fraction>\.[0-9]+)?")
_KINDS = {'"': "string", "[": "array", "{": "object"}


def parameter_schemas(tool: Schema) -> tuple[Schema, Mapping[str, Schema]]:
    """The whole parameter schema of an OpenAI tool definition, for references, and its properties."""
    parameters = tool.get("function", {}).get("parameters")
    if not isinstance(parameters, Mapping):
        return {}, {}
    properties = parameters.get("properties")
    return parameters, properties if isinstance(properties, Mapping) else {}


def allowed_types(schema: object, root: Schema) -> frozenset[str]:
    """The JSON types that a schema lets a value have; only strings when it doesn't say."""
    return said_types(schema, root) or STRING


def said_types(schema: object, root: Schema) -> frozenset[str]:
    """The JSON types that a schema names; none when it doesn't say."""
    return frozenset(_types(schema, root, set())) & ANY_TYPE


def _types(schema: object, root: Schema, seen: set[int]) -> set[str]:
    if not isinstance(schema, Mapping) or id(schema) in seen or len(seen) > _MOST_SCHEMAS:
        return set()
    seen.add(id(schema))
    types: set[str] = set()
    match schema.get("type"):
        case str(name):
            types.add(name)
        case [*names]:
            types.update(name for name in names if isinstance(name, str))
    if not types:
        types.update(map(_type_of, _branches(schema, "enum")))
        if "const" in schema:
            types.add(_type_of(schema["const"]))
    if not types and isinstance(reference := schema.get("$ref"), str):
        types = _types(resolved(reference, root), root, seen)
    for word in ("anyOf", "oneOf"):
        for branch in _branches(schema, word) if not types else ():
            types |= _types(branch, root, seen) or (STRING if _is_open(branch) else frozenset())
    if not types:
        for branch in _branches(schema, "allOf"):
            said = _types(branch, root, seen)
            types = (types & said) or types or said
    if not types and not OBJECT_WORDS.isdisjoint(schema):
        types.add("object")
    if not types and not ARRAY_WORDS.isdisjoint(schema):
        types.add("array")
    if types and schema.get("nullable") is True:
        types.add("null")
    return types


def _is_open(schema: object) -> bool:
    """Whether it says nothing, and so allows everything; of that, bare text is a string."""
    return not isinstance(schema, Mapping) or schema.keys().isdisjoint(("$ref", "anyOf", "oneOf", "allOf"))


def alternatives(schema: object, root: Schema) -> list[Schema]:
    """A schema, and those behind its references and in its branches: any of them may describe the value."""
    found: list[Schema] = []
    waiting, seen = [schema], set[int]()
    while waiting and len(found) < _MOST_SCHEMAS:
        one = waiting.pop()
        if isinstance(one, Mapping) and id(one) not in seen:
            seen.add(id(one))
            found.append(one)
            for word in ("allOf", "oneOf", "anyOf"):
                waiting += reversed(_branches(one, word))
            if isinstance(reference := one.get("$ref"), str):
                waiting.append(resolved(reference, root))
    return found


def listed_strings(schema: object, root: Schema) -> frozenset[str]:
    """The strings that a schema lists as values."""
    listed: list[Any] = []
    for one in alternatives(schema, root):
        listed += (*_branches(one, "enum"), one.get("const"))
    return frozenset(value for value in listed if isinstance(value, str))


def _branches(schema: Schema, word: str) -> Sequence[Any]:
    branches = schema.get(word)
    return branches if isinstance(branches, Sequence) and not isinstance(branches, str) else ()


def typed(text: str, types: frozenset[str], words: Container[str] = ()) -> str:
    """The JSON text of a value that was written as `text`; `words` are strings that the schema lists."""
    if types == STRING:
        return quoted(text)
    stripped = text.strip()
    if stripped in words:
        return quoted(stripped)
    if types == STRING_OR_NULL:
        return _constant(stripped, types) or quoted(text)
    if _is_json(stripped, types):
        return stripped
    return _constant(stripped, types) or _mended(stripped, types, 0) or quoted(text)


def _constant(text: str, types: frozenset[str]) -> str | None:
    lowered = text.lower()
    if lowered in ("true", "false") and "boolean" in types:
        return lowered
    if "null" in types:
        if lowered == "null" or text == "None":
            return "null"
        if "string" not in types and lowered in _NO_VALUE:
            return "null"
    return None


def _mended(text: str, types: frozenset[str], quoted_times: int) -> str | None:
    """The JSON of a value that is none yet, if it is certain what it was meant to be."""
    if len(text) > _MAX_LITERAL:
        return None
    found = literal(text)
    if found is not None and _KINDS[found.json[0]] in types & CONTAINERS and (found.exact or "string" not in types):
        return found.json
    if "string" in types:
        return None
    if found is not None and found.json.startswith('"') and quoted_times < _MOST_QUOTED:
        inside = json.loads(found.json).strip()
        if _is_json(inside, types):
            return str(inside)
        return _constant(inside, types) or _mended(inside, types, quoted_times + 1)
    if text.startswith("```") and text.endswith("\n```") and quoted_times < _MOST_QUOTED:
        inside = text[text.index("\n") : -len("```")].strip()
        return inside if _is_json(inside, types) else _mended(inside, types, _MOST_QUOTED)
    return _number(text, types)


def _number(text: str, types: frozenset[str]) -> str | None:
    if not types & _NUMBERS:
        return None
    found = number(text)
    grouped = _THOUSANDS.fullmatch(text) if found is None else None
    # `1,500` is 1.5 in many languages; so it counts where a number has to be whole.
    if grouped and ("number" not in types or grouped["fraction"] or text.count(",") > 1):
        found = number(text.replace(",", ""))
    return found if found is not None and _is_json(found, types) else None


def object_members(text: str) -> str | None:
    """What stands between the braces of an object; None when it is none, or empty."""
    value = typed(text, frozenset(("object",)))
    return value[1:-1].strip() or None if value.startswith("{") else None


quoted: Callable[[str], str] = encode_basestring
"""A text as a JSON string."""


def _is_json(text: str, types: frozenset[str]) -> bool:
    found = JSON_NUMBER.fullmatch(text)
    if found is not None:
        whole = found["fraction"] is None and found["exponent"] is None
        return "number" in types or ("integer" in types and (whole or float(text).is_integer()))
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return _type_of(value) in types


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


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


def resolved(reference: str, root: Schema) -> object:
    """What a local reference (`#/$defs/x`) points at; None when it points nowhere."""
    if not reference.startswith("#"):
        return None
    node: object = root
    for part in reference[1:].split("/")[1:]:
        if not isinstance(node, Mapping):
            return None
        node = node.get(part.replace("~1", "/").replace("~0", "~"))
    return node

"""A call of a tool with placeholders for its arguments, made from its schema.

Small models copy what they see: shown a bare JSON Schema, they copy `required` and `properties` into their arguments.
Shown a call, they fill it in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DEEPEST = 5


def call_template(function: Mapping[str, Any]) -> dict[str, Any]:
    """`{"name": ..., "arguments": {...}}` for an OpenAI function definition; every parameter is shown."""
    parameters = function.get("parameters")
    root = parameters if isinstance(parameters, Mapping) else {}
    return {"name": function["name"], "arguments": _members(root, root, 0)}


def _members(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or depth > _DEEPEST:
        return {}
    return {name: _placeholder(name, member, root, depth + 1) for name, member in properties.items()}


def _placeholder(name: str, schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    schema = _resolved(schema, root)
    values = schema.get("enum")
    if isinstance(values, list) and values:
        return values[0] if not isinstance(values[0], str) else f"<{' or '.join(map(str, values))}>"
    match _type(schema):
        case "string":
            description = schema.get("description")
            return f"<{description if isinstance(description, str) and description else name}>"
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case "array":
            items = schema.get("items")
            return (
                [_placeholder(name, items, root, depth + 1)] if isinstance(items, Mapping) and depth < _DEEPEST else []
            )
        case "object":
            return _members(schema, root, depth)
        case _:
            return None


def _type(schema: Mapping[str, Any]) -> str | None:
    """The schema's type; of several the first that isn't null."""
    kind = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
    said = next((name for name in kinds if isinstance(name, str) and name != "null"), None)
    return said or ("object" if "properties" in schema else None)


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself, behind a local reference or the first alternative that isn't null."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema = _pointed_at(reference, root)
            continue
        alternatives = next((schema[word] for word in ("anyOf", "oneOf", "allOf") if word in schema), None)
        if _type(schema) is not None or not isinstance(alternatives, list):
            return schema
        schema = next((one for one in alternatives if not (isinstance(one, dict) and one.get("type") == "null")), None)
    return {}


def _pointed_at(reference: str, root: Mapping[str, Any]) -> Any:
    node: Any = root
    for part in reference.removeprefix("#").split("/")[1:]:
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, Mapping) else None
    return node

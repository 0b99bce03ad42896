"""A call of a tool with placeholders for its arguments, made from its schema.

It has the required arguments alone: small models fill in whatever they are shown, asked for or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

_DEEPEST = 5
_MOST = 200
"""Placeholders in one template. A schema of a few lines can stand for millions: it may refer to itself."""


def call_template(function: Schema) -> dict[str, Any]:
    """`{"name": ..., "arguments": {...}}` for an OpenAI function definition, with what its schema requires."""
    parameters = function.get("parameters")
    template = _Template(parameters if isinstance(parameters, dict) else {})
    return {"name": function["name"], "arguments": template.members(template.root, 0)}


def required_of(schema: Schema) -> frozenset[str]:
    """The names that a schema requires."""
    names = schema.get("required")
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


class _Template:
    def __init__(self, root: Schema) -> None:
        self.root = root
        self._left = _MOST

    def members(self, schema: Schema, depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        required = required_of(schema)
        if not isinstance(properties, dict) or depth > _DEEPEST:
            return {}
        shown = {}
        for name, member in properties.items():
            if self._left <= 0:
                break
            if name not in required:
                continue
            self._left -= 1
            shown[name] = self._placeholder(name, member, depth + 1)
        return shown

    def _placeholder(self, name: str, schema: Any, depth: int) -> Any:
        schema = self._resolved(schema)
        if "const" in schema:
            return schema["const"]
        values = schema.get("enum")
        if isinstance(values, list) and values:
            return f"<{' or '.join(map(str, values))}>" if isinstance(values[0], str) else values[0]
        match _type(schema):
            case "string":
                return f"<{name}>"
            case "integer" | "number":
                return 1
            case "boolean":
                return True
            case "array":
                items = schema.get("items")
                shown = isinstance(items, dict) and depth < _DEEPEST and self._left > 0
                return [self._placeholder(name, items, depth + 1)] if shown else []
            case "object":
                return self.members(schema, depth)
            case _:
                return None

    def _resolved(self, schema: Any) -> Schema:
        """The schema itself, behind local references and the first alternative that isn't null."""
        for _ in range(_DEEPEST):
            if not isinstance(schema, dict):
                break
            reference = schema.get("$ref")
            if isinstance(reference, str):
                schema = self._pointed_at(reference)
                continue
            if _type(schema) is not None:
                return schema
            alternatives = next((schema[word] for word in ("anyOf", "oneOf", "allOf") if word in schema), None)
            if not isinstance(alternatives, list):
                return schema
            schema = next(
                (one for one in alternatives if not (isinstance(one, dict) and one.get("type") == "null")), None
            )
        return {}

    def _pointed_at(self, reference: str) -> Any:
        node: Any = self.root
        for part in reference.removeprefix("#").split("/")[1:]:
            node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        return node


def _type(schema: Schema) -> str | None:
    """The schema's type; of several the first that isn't null."""
    kind = schema.get("type")
    said = kind if isinstance(kind, str) and kind != "null" else None
    if isinstance(kind, list):
        said = next((name for name in kind if isinstance(name, str) and name != "null"), None)
    return said or ("object" if "properties" in schema else None)

"""The words of the tables: a tool, what is asked of it and what the answer would be, and short names for schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """A tool, whose schema shows one feature of JSON Schema."""

    feature: str
    name: str
    description: str
    parameters: Schema
    asks: tuple[tuple[str, Mapping[str, Any]], ...]
    """Questions that need the tool, each with arguments that would be right."""
    near: str
    """A question about something near, which needs no tool."""
    strict: bool = False

    @property
    def definition(self) -> Schema:
        function: Schema = {"name": self.name, "description": self.description, "parameters": self.parameters}
        if self.strict:
            function["strict"] = True
        return {"type": "function", "function": function}


TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
YES_NO: Schema = {"type": "boolean"}


def text(description: str = "", **more: Any) -> Schema:
    return {"type": "string", **({"description": description} if description else {}), **more}


def whole(description: str = "", **more: Any) -> Schema:
    return {"type": "integer", **({"description": description} if description else {}), **more}


def one_of(*values: Any, **more: Any) -> Schema:
    return {"type": "string", "enum": list(values), **more}


def array(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def record(properties: Mapping[str, Schema], optional: tuple[str, ...] = (), /, **more: Any) -> Schema:
    """An object; all of its properties are required but these."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, **more}

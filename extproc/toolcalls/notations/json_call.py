"""A JSON object that holds a call, as formats' tables have it; `json_call_reader.py` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extproc.toolcalls.notations.json_call_reader import JsonCallReader
from extproc.toolcalls.repairs import Repair
from extproc.toolcalls.table import Body, Reader


@dataclass(frozen=True, slots=True)
class JsonCall(Body):
    """An object such as `{"name": "f", "arguments": {...}}`, keys in any order."""

    offered_only: bool = False
    """Without a marker that says "call", only an object with arguments that names an offered tool is one."""
    name_keys: frozenset[str] = frozenset({"name", "function"})
    arguments_keys: frozenset[str] = frozenset({"arguments", "parameters"})
    other_keys: frozenset[str] = frozenset({"id", "type"})
    """What else a call may hold. Any other key shows that an object without a marker is no call. Behind a marker the
    others are the arguments, if no key of `arguments_keys` comes."""

    name_is_key: bool = False
    """The object is `{"NAME": {...}}`. Each further member is a call of its own, read from its key on."""

    slips: bool = False
    """Behind the marker that announces it, it may have another shape (`other_shapes.py`)."""
    slip: Repair | None = None
    """What is wrong with every call that is read here."""

    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        return JsonCallReader(self, tools)

"""Tools as prompt mode shows them: a heading, the purpose, a line for each parameter, and a call to be filled in.

What is read is a schema again, as far as the lines say it. Only what the gateway says itself begins a line; a purpose
goes on behind blanks. A line behind blanks is a parameter's if it reads as one. Each line is read once, from left to
right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

_HEADING, _CALL, _MORE = "## ", "Call:", "Arguments also have to fit: "
_NAME = re.compile(r'(?P<indent> *)- (?:(?P<plain>[\w$@.:/-]+)|(?="))')
_LIST_OF = "array of "
_WORD = re.compile(r"string|integer|number|boolean|object|array|null|any|never allowed")
_JSON = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Signature:
    """A tool that is shown so."""

    name: str
    description: str
    parameters: Schema


@dataclass(slots=True)
class _Tool:
    """One whose lines are being read; `above` are the parameters that the next line may be inside of."""

    name: str
    description: list[str] = field(default_factory=list)
    parameters: Schema = field(default_factory=lambda: {"type": "object", "properties": {}, "required": []})
    above: list[tuple[int, Schema]] = field(default_factory=list)

    def read(self, line: str) -> None:
        if line.startswith(_MORE):
            self.parameters |= _object(line.removeprefix(_MORE))
        elif (found := _parameter(line)) is not None and (self.above or found[0] == 0):
            self._add(*found)
        elif not self.above:
            self.description.append(line.strip())

    def _add(self, depth: int, name: str, schema: Schema, is_required: bool) -> None:
        while self.above and self.above[-1][0] >= depth:
            self.above.pop()
        holder = self.above[-1][1] if self.above else self.parameters
        holder.setdefault("properties", {})[name] = schema
        if is_required:
            holder.setdefault("required", []).append(name)
        inner = schema
        while isinstance(inner.get("items"), dict):
            inner = inner["items"]
        self.above.append((depth, inner))


def signatures(text: str) -> Iterator[Signature]:
    """All that the text shows, in its order."""
    tool: _Tool | None = None
    for line in text.splitlines():
        if line.startswith(_HEADING):
            tool = _Tool(line.removeprefix(_HEADING))
        elif tool is not None and line.startswith(_CALL):
            yield Signature(tool.name, "\n".join(tool.description), tool.parameters)
            tool = None
        elif tool is not None:
            tool.read(line)


def _parameter(line: str) -> tuple[int, str, Schema, bool] | None:
    """Depth, name, schema, whether it is required; None if the line is no parameter's."""
    head = _NAME.match(line)
    if head is None:
        return None
    try:
        name, at = (head["plain"], head.end()) if head["plain"] else _JSON.raw_decode(line, head.end())
        return _facts(line, at, len(head["indent"]), name)
    except ValueError:
        return None


def _facts(line: str, at: int, depth: int, name: str) -> tuple[int, str, Schema, bool] | None:
    """What stands in brackets behind the name. Raises ValueError where JSON should be and isn't."""
    if not line.startswith(" (", at):
        return None
    at += len(" (")
    schema: Schema = {}
    if not line.startswith(("optional", "{"), at):
        schema, at = _kind(line, at)
    is_required = True
    while not line.startswith(")", at):
        at += len(", ") if line.startswith(", ", at) else 0
        if line.startswith("optional", at):
            is_required, at = False, at + len("optional")
        elif line.startswith("default ", at):
            schema["default"], at = _JSON.raw_decode(line, at + len("default "))
        else:
            more, at = _JSON.raw_decode(line, at)
            schema |= more if isinstance(more, dict) else {}
    _, _, description = line[at:].partition("): ")
    return depth, name, schema | ({"description": description} if description else {}), is_required


def _kind(line: str, at: int) -> tuple[Schema, int]:
    """The types that stand here with bars between them, or the values."""
    kinds: list[Schema] = []
    values: list[Any] = []
    while True:
        kind_at = at
        while line.startswith(_LIST_OF, kind_at):
            kind_at += len(_LIST_OF)
        word = _WORD.match(line, kind_at)
        if word is not None:
            kind: Schema = {} if word[0] in ("any", "never allowed") else {"type": word[0]}
            for _ in range((kind_at - at) // len(_LIST_OF)):
                kind = {"type": "array", "items": kind}
            kinds.append(kind)
            values += [None] if kind == {"type": "null"} else []
            at = word.end()
        else:
            value, at = _JSON.raw_decode(line, at)
            values.append(value)
        if not line.startswith(" | ", at):
            break
        at += len(" | ")
    if any(value is not None for value in values):
        return {"enum": values}, at
    if len(kinds) == 1:
        return kinds[0], at
    names = [kind["type"] for kind in kinds if "type" in kind]
    return {**next((kind for kind in kinds if "items" in kind), {}), "type": names}, at


def _object(text: str) -> Schema:
    """The object that the text is; an empty one if it is none."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}

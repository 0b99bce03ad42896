"""Tools as prompt mode shows them: a heading, the purpose, a line for each parameter, and a call to be filled in.

What is read is a schema again, as far as the lines say it. Purposes are markdown of their own, with headings and lists:
so a tool goes from its heading to the call of that name, and a line of it is a parameter's only if a type comes first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

_TOOL = re.compile(
    r'^## (?P<name>[^\n]+)\n(?P<text>.*?)^Call: (?=\{"name": "(?P=name)")[^\n]*$', re.DOTALL | re.MULTILINE
)
_MORE = re.compile(r"^Arguments also have to fit: (\{.*\})$", re.MULTILINE)
_TYPE = r"(?:string|integer|number|boolean|object|array(?: of .+?)?|null|any|\".*?\"|\d+)"
_PARAMETER = re.compile(
    rf"^(?P<indent> *)- (?P<name>[^\s(]+) \((?P<kind>{_TYPE}(?: \| {_TYPE})*)(?P<optional>, optional)?"
    r"(?:, default (?P<default>.*?))?(?:, (?P<more>\{.*\}))?\)(?:: (?P<description>.*))?$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Signature:
    """A tool that is shown so."""

    name: str
    description: str
    parameters: Schema


def signatures(text: str) -> Iterator[Signature]:
    """All that the text shows, in its order."""
    for shown in _TOOL.finditer(text):
        lines = list(_PARAMETER.finditer(shown["text"]))
        more = _MORE.search(shown["text"])
        ends = [found.start() for found in (*lines[:1], more) if found is not None]
        schema = _object(lines) | (_json(more[1]) if more else {})
        yield Signature(shown["name"], shown["text"][: min(ends, default=None)].strip(), schema)


def _object(lines: list[re.Match[str]]) -> Schema:
    """The schema that these lines tell, each deeper one below the last that is less deep."""
    root: Schema = {"type": "object", "properties": {}, "required": []}
    above = [(-1, root)]
    for line in lines:
        depth = len(line["indent"])
        while above[-1][0] >= depth:
            above.pop()
        schema = _schema(line)
        holder = above[-1][1]
        holder.setdefault("properties", {})[line["name"]] = schema
        if not line["optional"]:
            holder.setdefault("required", []).append(line["name"])
        inner = schema
        while isinstance(inner.get("items"), dict):
            inner = inner["items"]
        above.append((depth, inner))
    return root


def _schema(line: re.Match[str]) -> Schema:
    schema = _kind(line["kind"])
    if line["description"]:
        schema["description"] = line["description"]
    return schema | (_json(line["more"]) if line["more"] else {})


def _kind(kind: str) -> Schema:
    if kind.startswith("array of "):
        return {"type": "array", "items": _kind(kind.removeprefix("array of "))}
    values = [_json(value) for value in kind.split(" | ")]
    if None not in values:
        return {"enum": values}
    types = kind.split(" | ")
    return {} if types == ["any"] else {"type": types[0] if len(types) == 1 else types}


def _json(text: str) -> Any:
    """The value that the text is; None if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None

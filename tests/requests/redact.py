"""Takes everything out of a captured request that somebody wrote, and leaves what a machine reads.

    python -m tests.requests.redact CAPTURED.json tests/requests/clients/NAME.json

What a client says to its model is its author's work and is never kept: every text becomes filler of the same length,
with the same line breaks. What a gateway has to cope with stays: fields and their order, roles, ids, names of tools
and of properties, types, numbers, schema keywords, enumerations of words, the shape of contents and of arguments.

Redacting twice changes nothing more, so a file can be checked by redacting it again. Arguments that are no JSON pass
as they are: no client writes those, only the scripts in this folder do.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.requests import Json

_FILLER = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore "
_WORD = re.compile(r"[\w.:/#@$+-]{1,60}")
"""What a schema may say in a string: a type, a format, a reference, one of an enumeration's words."""

_TEXT_FIELDS = frozenset({"content", "text", "refusal", "thinking", "reasoning", "reasoning_content"})
_KEPT_FIELDS = frozenset({"role", "type", "id", "index", "name", "tool_call_id", "image_url"})
_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose keys are names of the schema's author, so that a property may be called `description`."""


def filler(text: str) -> str:
    """Words without meaning, as long as `text`, line by line."""
    return "\n".join(_line(len(line)) for line in text.split("\n"))


def redacted(request: Json) -> Json:
    """The request without any text of its client."""
    return {name: _FIELDS.get(name, _kept)(value) for name, value in request.items()}


def written(request: Json) -> str:
    """The request as JSON, a line for each message and each tool."""
    fields = [f"{json.dumps(name)}: {_list(value)}" for name, value in request.items()]
    return "{\n " + ",\n ".join(fields) + "\n}\n"


def _line(length: int) -> str:
    line = (_FILLER * (length // len(_FILLER) + 1))[:length]
    return line[:-1] + "." if line.endswith(" ") else line


def _list(value: Any) -> str:
    if not isinstance(value, list) or not any(isinstance(item, dict) for item in value):
        return json.dumps(value, ensure_ascii=False)
    return "[\n  " + ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in value) + "\n ]"


def _kept(value: Any) -> Any:
    return value


def _messages(messages: list[Json]) -> list[Json]:
    return [_message(message) for message in messages]


def _message(message: Any) -> Any:
    """A message, or anything inside one: every string becomes filler unless its field says that it is no text."""
    if isinstance(message, list):
        return [_message(item) for item in message]
    if not isinstance(message, dict):
        return filler(message) if isinstance(message, str) else message
    result: Json = {}
    for name, value in message.items():
        if name in _KEPT_FIELDS:
            result[name] = value
        elif name in _TEXT_FIELDS and isinstance(value, str):
            result[name] = filler(value)
        elif name == "arguments" and isinstance(value, str):
            result[name] = _arguments(value)
        elif name == "parsed_arguments":
            result[name] = _values(value)
        else:
            result[name] = _message(value)
    return result


def _arguments(text: str) -> str:
    try:
        arguments = json.loads(text)
    except ValueError:
        return text
    for separators in ((",", ":"), (", ", ": ")):
        if json.dumps(arguments, ensure_ascii=False, separators=separators) == text:
            return json.dumps(_values(arguments), ensure_ascii=False, separators=separators)
    return json.dumps(_values(arguments))


def _values(value: Any) -> Any:
    """An argument's value: the names in it stay."""
    if isinstance(value, dict):
        return {name: _values(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_values(item) for item in value]
    return filler(value) if isinstance(value, str) else value


def _tools(tools: list[Json]) -> list[Json]:
    return [{**tool, "function": _function(tool["function"])} for tool in tools]


def _functions(functions: list[Json]) -> list[Json]:
    return [_function(function) for function in functions]


def _function(function: Json) -> Json:
    """A function's definition, or a JSON schema with a name around it."""
    wording: Mapping[str, Any] = {"description": filler, "parameters": _schema, "schema": _schema}
    return {name: wording.get(name, _kept)(value) for name, value in function.items()}


def _schema(schema: Any) -> Any:
    """A JSON schema, or anything inside one that is no map of names."""
    if isinstance(schema, list):
        return [_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return filler(schema) if isinstance(schema, str) and not _WORD.fullmatch(schema) else schema
    result: Json = {}
    for keyword, value in schema.items():
        if keyword == "description" and isinstance(value, str):
            result[keyword] = filler(value)
        elif keyword in _NAMED_SCHEMAS and isinstance(value, dict):
            result[keyword] = {name: _schema(item) for name, item in value.items()}
        else:
            result[keyword] = _schema(value)
    return result


def _response_format(wanted: Json) -> Json:
    return {name: _function(value) if name == "json_schema" else value for name, value in wanted.items()}


_FIELDS: Mapping[str, Any] = {
    "messages": _messages,
    "tools": _tools,
    "functions": _functions,
    "response_format": _response_format,
}


def main(source: str, target: str) -> None:
    """Redact one file of a capture: the request alone, or with its headers beside it."""
    captured = json.loads(Path(source).read_bytes())
    Path(target).write_text(written(redacted(captured.get("body", captured))))


if __name__ == "__main__":
    main(*sys.argv[1:])

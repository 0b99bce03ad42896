"""A tool as prompt mode shows it: its purpose, a line for each parameter, and a call to be filled in.

    ## get_weather
    Get the current weather in a city
    - city (string): The city's name
    - unit ("celsius" | "fahrenheit", optional, default "celsius")
    Call: {"name": "get_weather", "arguments": {"city": "<city>"}}

Small models copy what they see: shown a bare JSON Schema, they copy `required` and `properties` into their arguments,
and shown a call with every parameter, they fill in those that nobody asked for. So the call has the required ones alone
(docs/prompt-mode.md has the numbers). Nothing of a schema gets lost: what has no words here stands in the line as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from extproc.prompts.escaping import Escaper
from extproc.prompts.template import call_template
from extproc.toolcalls import CallSyntax

Schema: TypeAlias = Mapping[str, Any]

_DEEPEST = 5
_MOST_VALUES = 20
"""Values of an enumeration that stand in a parameter's line; more of them stand behind it as JSON."""
_INDENT = "  "
_IN_WORDS = frozenset({"type", "description", "enum", "default", "properties", "required", "items"})
_SAYS_NOTHING = frozenset({"$schema", "$id", "title", "type", "properties", "required", "description"})
"""Of a tool's whole schema: what the lines say, and what says nothing of arguments."""


def signature(function: Schema, syntax: CallSyntax, escaper: Escaper) -> str:
    """An OpenAI function definition for a model that reads text, its calls written in this syntax."""
    parameters = function.get("parameters")
    schema: Schema = parameters if isinstance(parameters, dict) else {}
    return "\n".join(
        (
            f"## {function['name']}",
            *((escaper.text(function["description"]),) if function.get("description") else ()),
            *_members(schema, "", escaper, 0),
            *_rest(schema, escaper),
            _call(function, syntax, escaper),
        )
    )


def _call(function: Schema, syntax: CallSyntax, escaper: Escaper) -> str:
    made = call_template(function)
    if '"{name}"' in syntax.begin:  # where calls are objects, the bare object says enough
        return f"Call: {shown_json(made, escaper)}"
    arguments = _ENCODER.encode(made["arguments"])
    shown = escaper.json(arguments) if syntax.style == "json" else arguments
    written = syntax.write([(made["name"], shown)], harmless=escaper.text)
    return f"Call:\n{written}" if "\n" in written else f"Call: {written}"


def _members(schema: Schema, indent: str, escaper: Escaper, depth: int) -> Iterator[str]:
    """A line for each property, and below it those of its own."""
    required = schema.get("required")
    properties = schema.get("properties")
    for name, member in properties.items() if isinstance(properties, dict) else ():
        is_required = isinstance(required, list) and name in required
        yield _line(name, member, indent, escaper, is_required=is_required, deeper=depth < _DEEPEST)
        if depth < _DEEPEST:
            yield from _members(_inner(member), indent + _INDENT, escaper, depth + 1)


def _line(name: str, schema: Any, indent: str, escaper: Escaper, *, is_required: bool, deeper: bool) -> str:
    facts = [_kind(schema, escaper)]
    if not is_required:
        facts.append("optional")
    if isinstance(schema, dict):
        if "default" in schema:
            facts.append(f"default {shown_json(schema['default'], escaper)}")
        if more := _unsaid(schema, deeper=deeper):
            facts.append(shown_json(more, escaper))
    line = f"{indent}- {escaper.text(name)} ({', '.join(facts)})"
    description = schema.get("description") if isinstance(schema, dict) else None
    if not isinstance(description, str) or not description.strip():
        return line
    return f"{line}: {escaper.text(description.strip()).replace(chr(10), chr(10) + indent + _INDENT)}"


def _kind(schema: Any, escaper: Escaper) -> str:
    """The type in a word or two, or the values that there are."""
    if not isinstance(schema, dict):
        return "any"
    values = schema.get("enum")
    if isinstance(values, list) and _is_short(values):
        return " | ".join(shown_json(value, escaper) for value in values)
    match schema.get("type"):
        case "array":
            return f"array of {_kind(schema['items'], escaper)}" if isinstance(schema.get("items"), dict) else "array"
        case str(kind):
            return escaper.text(kind)
        case list(kinds):
            return " | ".join(escaper.text(str(kind)) for kind in kinds)
        case _:
            return "object" if "properties" in schema else "any"


def _inner(schema: Any) -> Schema:
    """Where a parameter's own properties are: in it, or in what its lists hold."""
    while isinstance(schema, dict) and "properties" not in schema and isinstance(schema.get("items"), dict):
        schema = schema["items"]
    return schema if isinstance(schema, dict) else {}


def _unsaid(schema: Schema, *, deeper: bool) -> dict[str, Any]:
    """What of a parameter's schema no word says."""
    unsaid = {word: value for word, value in schema.items() if word not in _IN_WORDS and word != "title"}
    if "enum" in schema and not _is_short(schema["enum"]):
        unsaid["enum"] = schema["enum"]
    items = schema.get("items")
    if "items" in schema and (schema.get("type") != "array" or not isinstance(items, dict)):
        unsaid["items"] = items
    elif isinstance(items, dict) and (more := _unsaid(items, deeper=deeper) | _of_items(items)):
        unsaid["items"] = more
    if not deeper and "properties" in schema:
        unsaid["properties"] = schema["properties"]
    return unsaid


def _of_items(schema: Schema) -> dict[str, Any]:
    """Of what a list holds, what stands in no line of its own."""
    return {word: schema[word] for word in ("description", "default") if schema.get(word)}


def _is_short(values: Any) -> bool:
    return isinstance(values, list) and 0 < len(values) <= _MOST_VALUES


def _rest(schema: Schema, escaper: Escaper) -> Iterator[str]:
    """What the whole schema says beyond its properties. That it takes no others is said of all tools."""
    more = {word: value for word, value in schema.items() if word not in _SAYS_NOTHING}
    if more.get("additionalProperties") is False:
        del more["additionalProperties"]
    if more:
        yield f"Arguments also have to fit: {shown_json(more, escaper)}"


def shown_json(value: Any, escaper: Escaper) -> str:
    """The value as JSON in which no marker is spelled."""
    return escaper.json(_ENCODER.encode(value))


_ENCODER = json.JSONEncoder(ensure_ascii=False)

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
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from extproc.prompts.escaping import Escaper
from extproc.prompts.template import call_template, required_of
from extproc.toolcalls import CallSyntax

Schema: TypeAlias = Mapping[str, Any]

_DEEPEST = 5
_MOST_VALUES = 20
"""Values of an enumeration that stand in a parameter's line; more of them stand behind it as JSON."""
_INDENT = "  "
_IN_WORDS = frozenset({"type", "title", "description", "enum", "default", "properties", "required", "items"})
_SAYS_NOTHING = frozenset({"$schema", "$id", "title", "type", "properties", "required"})
"""Of a tool's whole schema: what the lines say, and what says nothing of arguments."""
_OBJECT = '{"name": "{name}", "arguments": '
"""How calls begin that are objects: the bare object says enough, whatever stands around it."""


def signature(function: Schema, syntax: CallSyntax, escaper: Escaper) -> str:
    """An OpenAI function definition for a model that reads text, its calls written in this syntax.

    Only what is ours begins a line: a name that isn't a plain word is quoted, and further lines of a description are
    indented. So no schema can pose as another tool.
    """
    parameters = function.get("parameters")
    schema: Schema = parameters if isinstance(parameters, dict) else {}
    purpose = function.get("description")
    told = (
        f"## {shown_name(function['name'])}",
        *((_below(purpose, _INDENT),) if isinstance(purpose, str) and purpose.strip() else ()),
        *_members(schema, "", 0),
        *_rest(schema, purpose),
    )
    # Escaped all at once: markers can't come together from pieces, and each search has its price.
    return escaper.text("\n".join(told)) + "\n" + _call(function, syntax, escaper)


def shown_name(name: str) -> str:
    """On one line and as one word, whatever it is: quoted unless it is a plain one."""
    return name if _PLAIN_NAME.fullmatch(name) else _json(name)


_PLAIN_NAME = re.compile(r"[\w.:/-]{1,256}")


def _below(text: str, indent: str) -> str:
    return f"\n{indent}".join(text.strip().splitlines())


def _call(function: Schema, syntax: CallSyntax, escaper: Escaper) -> str:
    made = call_template(function)
    if _OBJECT in syntax.begin:
        return f"Call: {shown_json(made, escaper)}"
    arguments = _json(made["arguments"])
    shown = escaper.json(arguments) if syntax.style == "json" else arguments
    written = syntax.write([(made["name"], shown)], harmless=escaper.text)
    return f"Call:\n{written}" if "\n" in written else f"Call: {written}"


def _members(schema: Schema, indent: str, depth: int) -> Iterator[str]:
    """A line for each property, and below it those of its own."""
    required = required_of(schema)
    properties = schema.get("properties")
    for name, member in properties.items() if isinstance(properties, dict) else ():
        yield _line(name, member, indent, is_required=name in required, deeper=depth < _DEEPEST)
        if depth < _DEEPEST:
            yield from _members(_inner(member), indent + _INDENT, depth + 1)


def _line(name: str, schema: Any, indent: str, *, is_required: bool, deeper: bool) -> str:
    more = _unsaid(schema, deeper=deeper) if isinstance(schema, dict) else {}
    kind = _kind(schema)
    facts = [] if kind == _ANY and more else [kind]
    if not is_required:
        facts.append("optional")
    if isinstance(schema, dict) and "default" in schema:
        facts.append(f"default {_json(schema['default'])}")
    if more:
        facts.append(_json(more))
    line = f"{indent}- {shown_name(name)} ({', '.join(facts)})"
    description = schema.get("description") if isinstance(schema, dict) else None
    if not isinstance(description, str) or not description.strip():
        return line
    return f"{line}: {_below(description, indent + _INDENT)}"


_ANY = "any"


def _kind(schema: Any) -> str:
    """The type in a word or two, or the values that there are."""
    if not isinstance(schema, dict):
        return "never allowed" if schema is False else _ANY
    values = schema.get("enum")
    if isinstance(values, list) and _is_short(values):
        return " | ".join(_json(value) for value in values)
    kinds = _types(schema)
    if not kinds:
        return "object" if "properties" in schema else _ANY
    return " | ".join(_array(schema) if kind == "array" else kind for kind in kinds)


def _types(schema: Schema) -> list[str]:
    """Those that it names, itself or as alternatives that are nothing but a type."""
    said = schema.get("type")
    if isinstance(said, str):
        return [said]
    return [str(kind) for kind in said] if isinstance(said, list) else _bare_types(schema)


def _bare_types(schema: Schema) -> list[str]:
    """Of a schema without a type, whose `anyOf` says nothing but types."""
    alternatives = schema.get("anyOf")
    if "type" in schema or not isinstance(alternatives, list):
        return []
    kinds = [_bare_type(one) for one in alternatives]
    return [kind for kind in kinds if kind is not None] if None not in kinds else []


def _bare_type(schema: Any) -> str | None:
    is_bare = isinstance(schema, dict) and schema.keys() <= {"type", "title"}
    return schema["type"] if is_bare and isinstance(schema.get("type"), str) else None


def _array(schema: Schema) -> str:
    return f"array of {_kind(schema['items'])}" if isinstance(schema.get("items"), dict) else "array"


def _inner(schema: Any) -> Schema:
    """Where a parameter's own properties are: in it, or in what its lists hold."""
    while isinstance(schema, dict) and _items_are_told(schema):
        schema = schema["items"]
    return schema if isinstance(schema, dict) else {}


def _items_are_told(schema: Schema) -> bool:
    """In words, and in lines below the one of the list: where nothing else has to stand there."""
    return isinstance(schema.get("items"), dict) and "array" in _types(schema) and "properties" not in schema


def _unsaid(schema: Schema, *, deeper: bool) -> dict[str, Any]:
    """What of a parameter's schema no word says."""
    unsaid = {word: value for word, value in schema.items() if word not in _IN_WORDS}
    if unsaid.get("additionalProperties") is False:
        del unsaid["additionalProperties"]
    if _bare_types(schema):
        del unsaid["anyOf"]
    if "enum" in schema and not _is_short(schema["enum"]):
        unsaid["enum"] = schema["enum"]
    if _items_are_told(schema):
        items = schema["items"]
        if more := {word: items[word] for word in ("description", "default") if word in items} | _unsaid(
            items, deeper=deeper
        ):
            unsaid["items"] = more
    elif "items" in schema:
        unsaid["items"] = schema["items"]
    if not deeper and "properties" in schema:
        unsaid["properties"] = schema["properties"]
    return unsaid | _required_besides(schema, deeper=deeper)


def _required_besides(schema: Schema, *, deeper: bool) -> dict[str, Any]:
    """What is required and has no line that could say so."""
    properties = schema.get("properties")
    told = properties if deeper and isinstance(properties, dict) else {}
    left = [name for name in schema["required"] if name not in told] if required_of(schema) else []
    return {"required": left} if left else {}


def _is_short(values: Any) -> bool:
    return isinstance(values, list) and 0 < len(values) <= _MOST_VALUES


def _rest(schema: Schema, purpose: Any) -> Iterator[str]:
    """What the whole schema says beyond its properties. That it takes no others is said of all tools."""
    more = {word: value for word, value in schema.items() if word not in _SAYS_NOTHING}
    more |= _required_besides(schema, deeper=True)
    if more.get("additionalProperties") is False:
        del more["additionalProperties"]
    if more.get("description") == purpose:
        more.pop("description", None)
    if more:
        yield f"Arguments also have to fit: {_json(more)}"


def shown_json(value: Any, escaper: Escaper) -> str:
    """The value as JSON in which no marker is spelled."""
    return escaper.json(_json(value))


def _json(value: Any) -> str:
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False)

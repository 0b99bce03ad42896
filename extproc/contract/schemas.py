"""Whether a tool's `parameters` are a JSON Schema, and which keyword has to be fixed if they are none.

A schema is held against the meta-schema of the draft that its `$schema` names, 2020-12 if it names none that is known.
References are followed within the schema only: nothing is ever fetched. Patterns are not compiled: what this gateway's
engine can't read, the client's may.

Whatever the schema, the work is in proportion to its size. No reference is followed twice, and jsonschema-rs, whose
errors hold copies of all that is wrong, is asked for one fault of one subschema at a time. Nothing here recurses in
Python; how deep a schema nests, the JSON reader has bounded.

Sources: the meta-schemas of https://json-schema.org/specification, as jsonschema-rs has them; 2020-12's core, sections
8 and 9, for `$id`, `$anchor` and `$ref`; OpenAI's guide to structured outputs for the rules of `strict`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

from jsonschema_rs import Draft202012Validator, ValidationError
from jsonschema_rs import ValidationErrorKind as Kind

from extproc.contract.errors import ApiError, invalid_value, json_type, quoted
from extproc.contract.json_body import encode
from extproc.contract.schema_graph import (
    A_SCHEMA,
    DEFINITIONS,
    REFERENCES,
    Dialect,
    Path,
    SchemaGraph,
    dialect_of,
    is_object,
    without_empty,
)

Json: TypeAlias = dict[str, Any]

STRICT_PROPERTIES = 5_000
STRICT_LEVELS = 10
STRICT_VALUES = 1_000
STRICT_CHARACTERS = 120_000
STRICT_LONG_ENUM = (250, 15_000)
"""Of an enum with more values than the first, the strings have at most so many characters together."""


def schema_problems(schema: Json, param: str, *, strict: bool) -> Iterator[ApiError]:
    """What has to be fixed before `schema` can be a tool's parameters; of each keyword, the first fault.

    An empty schema stands for no parameters.
    """
    if not schema or (not strict and _is_plain(schema)):
        return
    graph = SchemaGraph(schema)
    told: set[str | None] = set()
    for problem in chain(
        _root_problems(schema, param),
        _keyword_problems(graph, param),
        (invalid_value(_dotted(param, path), complaint) for path, complaint in graph.dead_ends),
        _strict_problems(graph, param) if strict else (),
    ):
        if problem.param not in told:
            told.add(problem.param)
            yield problem


_LOCAL = r"^#/(?:\$defs|definitions)/[A-Za-z0-9_.\-]{1,200}$"
"""A reference to a definition of the schema's own, in which nothing has to be unescaped."""
_WITHOUT_REFERENCES = Draft202012Validator(
    {
        "properties": dict.fromkeys((*REFERENCES, "$id"), False) | {"$ref": {"type": "string", "pattern": _LOCAL}},
        "additionalProperties": {"$ref": "#"},
        "items": {"$ref": "#"},
    }
)
"""Holds where all references are local, wherever they are: also where they'd be none, as in a default."""
_REFERENCE = re.compile(rb'"\$ref":"#/([^"/]+)/([^"]+)"')


def _is_plain(schema: Json) -> bool:
    """Whether a glance shows that nothing is wrong with a schema, as it does for nearly all."""
    dialect = dialect_of(schema)
    return (
        schema.get("type") == "object"
        and dialect.identifier == "$id"  # properties called `id` are many
        and dialect.meta_schema.is_valid(schema)
        and _WITHOUT_REFERENCES.is_valid(schema)
        and _has_definitions(schema, dialect)
    )


def _has_definitions(schema: Json, dialect: Dialect) -> bool:
    """Whether there is a definition, which the meta-schema has seen, for each of the references, all of them local."""
    for place, name in set(_REFERENCE.findall(encode(schema))):
        definitions = schema.get(place.decode())
        if place.decode() not in dialect.named or not isinstance(definitions, dict) or name.decode() not in definitions:
            return False
    return True


def _root_problems(schema: Json, param: str) -> Iterator[ApiError]:
    if schema.get("type") != "object":
        got = f"got {_shown(schema['type'])}" if "type" in schema else "it is missing"
        yield invalid_value(f"{param}.type", f"expected 'object', because a tool's arguments are one, but {got}.")


def _keyword_problems(graph: SchemaGraph, param: str) -> Iterator[ApiError]:
    if graph.fits_meta_schema():
        return
    for path, schema in graph.subschemas:
        alone = _alone(schema, graph.dialect)
        while error := _first_error(alone, graph.dialect):
            where = path
            for step in error.instance_path:
                where = where, step[1:] if where is not path and isinstance(step, str) else step
            yield invalid_value(_dotted(param, where), _complaint(error, graph.dialect))
            if not error.instance_path:
                break
            del alone[str(error.instance_path[0])]


def _alone(schema: Json, dialect: Dialect) -> Json:
    """The schema without what is in its subschemas, as jsonschema-rs tells best what is wrong with it.

    Where a keyword takes one thing or another, all that is wrong with either is one error: of an array's faults only
    the first is left. In paths, names that look like numbers become numbers, and empty names nothing: names are marked.
    """
    alone = without_empty(schema, dialect)
    for keyword, value in schema.items():
        if keyword in dialect.applicators:
            if isinstance(value, dict):
                alone[keyword] = {}
            elif isinstance(value, list):
                emptied = ({} if isinstance(inner, dict) else inner for inner in value)
                alone[keyword] = _to_first(emptied, lambda inner: not dialect.meta_schema.is_valid(inner))
        elif isinstance(value, dict):
            alone[keyword] = {f".{name}": _emptied(inner) for name, inner in value.items()}
        elif keyword == "type" and isinstance(value, list):
            alone[keyword] = value[: len(_TYPES) + 1]  # so many hold one twice, or something else
    return alone


def _emptied(inner: Any) -> Any:
    if isinstance(inner, dict):
        return {}
    return _to_first(inner, lambda name: not isinstance(name, str)) if isinstance(inner, list) else inner


def _to_first(elements: Iterable[Any], last: Callable[[Any], bool]) -> list[Any]:
    taken = []
    for element in elements:
        taken.append(element)
        if last(element):
            break
    return taken


def _first_error(alone: Json, dialect: Dialect) -> ValidationError | None:
    try:
        dialect.meta_schema.validate(alone)
    except ValidationError as error:
        if isinstance(error.kind, Kind.AnyOf):
            for alternative in error.kind.context:
                if not any(_is_of_another_type(inner, error.instance_path) for inner in alternative):
                    return alternative[0]  # this is what it was meant to be
        return error
    return None


def _is_of_another_type(error: ValidationError, path: list[str | int]) -> bool:
    return isinstance(error.kind, Kind.Type | Kind.Enum) and error.instance_path == path


_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_A_TYPE = f"one of {', '.join(map(repr, _TYPES))}"
_ALTERNATIVES = {
    "type": f"{_A_TYPE}, or an array of these",
    "items": "a schema or an array of schemas",
    "dependencies": "a schema or an array of property names",
}
_HINTS = {
    ("required", "a boolean"): " List the names of the required properties in the object that has them.",
    ("items", "an array"): " The schemas of a tuple's elements belong in 'prefixItems'.",
    ("exclusiveMinimum", "a boolean"): " Give the bound itself.",
    ("exclusiveMaximum", "a boolean"): " Give the bound itself.",
}


def _complaint(error: ValidationError, dialect: Dialect) -> str:
    """What the value of a keyword should have been, and what it is."""
    keyword, *inside = map(str, error.instance_path or [""])
    got = f"got {_shown(error.instance)}"
    match error.kind:
        case Kind.AnyOf():
            return f"expected {_ALTERNATIVES.get(keyword, A_SCHEMA)}, {got}."
        case Kind.Enum():
            return f"expected {_A_TYPE}, {got}."
        case Kind.Type(types=types):
            is_schema = keyword in dialect.applicators or (keyword in dialect.named and inside)
            expected = A_SCHEMA if is_schema and "object" in types else one_of_types(types)
            return f"expected {expected}, {got}.{_HINTS.get((keyword, json_type(error.instance)), '')}"
        case Kind.UniqueItems():
            return "expected every element only once."
        case Kind.MinItems():
            return "expected at least one element, got none."
        case Kind.Minimum(limit=limit):
            return f"expected at least {limit}, {got}."
        case Kind.ExclusiveMinimum(limit=limit):
            return f"expected more than {limit}, {got}."
        case Kind.Pattern(pattern=pattern):
            return f"expected a string that matches {pattern}, {got}."
        case _:
            return f"{error.message[:_LONGEST_NAME]}."


def one_of_types(types: Iterable[str]) -> str:
    """JSON Schema's names of types, with their articles."""
    names = sorted(types, key="null".__eq__)  # null comes last
    return " or ".join(name if name == "null" else f"{'an' if name[0] in 'aio' else 'a'} {name}" for name in names)


def _shown(value: Any) -> str:
    """A value in a message: itself if it is a word or a small number, else what kind of value it is."""
    if isinstance(value, str):
        return quoted(value)
    return str(value) if type(value) is int and abs(value) < 10**9 else json_type(value)


def _strict_problems(graph: SchemaGraph, param: str) -> Iterator[ApiError]:
    count = values = characters = 0
    for path, schema in graph.subschemas:
        enum = schema.get("enum")
        enum = enum if isinstance(enum, list) else []
        strings = sum(len(value) for value in enum if isinstance(value, str))
        if len(enum) > STRICT_LONG_ENUM[0] and strings > STRICT_LONG_ENUM[1]:
            yield invalid_value(
                _dotted(param, (path, "enum")),
                f"expected at most {STRICT_LONG_ENUM[1]} characters in an enum of more than {STRICT_LONG_ENUM[0]} "
                f"values, because the tool is strict, got {strings}.",
            )
        values += len(enum)
        characters += strings + _characters(schema)
        if "patternProperties" in schema:
            yield invalid_value(
                _dotted(param, (path, "patternProperties")),
                "expected none, because the tool is strict: its objects have no properties but those they list.",
            )
        if not is_object(schema):
            continue
        if schema.get("additionalProperties") is not False:
            yield invalid_value(
                _dotted(param, (path, "additionalProperties")),
                "expected false, because the tool is strict: its objects have no properties but those they list.",
            )
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            continue
        count += len(properties)
        listed = {name: None for name in required if isinstance(name, str)}
        if missing := [name for name in properties if name not in listed]:
            yield invalid_value(
                _dotted(param, (path, "required")),
                f"expected all properties, because the tool is strict, but {_enumerated(missing)} missing. "
                "Make a property optional by allowing null in its type.",
            )
        elif unknown := [name for name in listed if name not in properties]:
            yield invalid_value(
                _dotted(param, (path, "required")),
                f"expected the object's own properties, because the tool is strict, but {_enumerated(unknown)} none "
                "of them.",
            )
    for most, of_what, got in (
        (STRICT_PROPERTIES, "properties", count),
        (STRICT_VALUES, "enum values", values),
        (STRICT_CHARACTERS, "characters in names of properties and definitions, enum and const values", characters),
    ):
        if got > most:
            yield invalid_value(param, f"expected at most {most} {of_what} of a strict tool, got {got}.")
    if (depth := graph.object_levels()) > STRICT_LEVELS:
        yield invalid_value(
            param, f"expected objects at most {STRICT_LEVELS} levels deep of a strict tool, got {depth} levels."
        )


def _characters(schema: Json) -> int:
    """Of a subschema's own names, and of its `const`."""
    named = (schema.get(keyword) for keyword in ("properties", *DEFINITIONS))
    const = schema.get("const")
    return sum(len(name) for names in named if isinstance(names, dict) for name in names) + (
        len(const) if isinstance(const, str) else 0
    )


def _enumerated(names: list[str]) -> str:
    """The first few names, with the verb that goes with all."""
    first = ", ".join(map(quoted, names[:10]))
    if len(names) > 10 or len(first) > _LONGEST_NAME:
        return f"{first[:_LONGEST_NAME]}… ({len(names)} in all) are"
    return f"{first} {'is' if len(names) == 1 else 'are'}"


def _dotted(param: str, path: Path) -> str:
    """The path as it is written in an error's `param`."""
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return param + written(reversed(steps))


def written(steps: Iterable[str | int]) -> str:
    """Steps as they follow on a name: `.city[0]`."""
    return "".join(
        f"[{step}]"
        if isinstance(step, int)
        else f".{step if len(step) <= _LONGEST_NAME else f'{step[:_LONGEST_NAME]}…'}"
        for step in steps
    )


_LONGEST_NAME = 100

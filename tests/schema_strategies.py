"""Schemas as tools have them, and worse, with values that are valid under them."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any, TypeAlias

from hypothesis import assume
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

Json: TypeAlias = dict[str, Any]

NAMES = ("a", "b", "c", "id")
_scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-20, 20),
    st.sampled_from([2**53 - 1, 2**63, -(10**30), 0.5, -1e-9, 1e20, 3.0, 0.1]),
    st.sampled_from(["", "abc", "a\nb", 'say "hi"', "\\", "é😀", "</tool_call>", "2026-12-20", "x" * 300]),
    st.text(string.ascii_lowercase, max_size=5),
)
values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=5,
)
_bounds = st.sampled_from([-(2**63) - 1, -(2**53) + 1, -3, 0, 0.5, 1, 7, 100, 2**53 - 1, 2**63, 1e300])
_counts = st.integers(0, 3)
_PATTERNS = ("^[a-z]+$", "^(abc|de)$", "^[a-z]{2,4}$", "a", "^a", "^(?!x).*$", ".", "^\\S+$", "^[^a]$")
_TYPES = ("string", "integer", "number", "boolean", "null", "object", "array")


def _keywords(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """A schema with some of these keywords."""
    return st.fixed_dictionaries({}, optional=strategies)


_leaves: st.SearchStrategy[Any] = st.one_of(
    _keywords(type=st.sampled_from(_TYPES) | st.lists(st.sampled_from(_TYPES), min_size=1, unique=True)),
    _keywords(type=st.just("string"), minLength=_counts, maxLength=_counts, pattern=st.sampled_from(_PATTERNS)),
    _keywords(type=st.just("string"), format=st.sampled_from(["date", "date-time", "email", "uri", "int32"])),
    _keywords(
        type=st.sampled_from(["integer", "number", ["integer", "null"], ["number", "string"]]),
        minimum=_bounds,
        maximum=_bounds,
        exclusiveMinimum=_bounds,
        exclusiveMaximum=_bounds,
        multipleOf=st.sampled_from([1, 5, 0.01]),
    ),
    _keywords(enum=st.lists(values, min_size=1, max_size=4, unique_by=repr), type=st.sampled_from(_TYPES)),
    _keywords(const=values),
    st.sampled_from([{"$ref": "#"}, {"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}, {"$ref": "#/$defs/x/items"}]),
    st.booleans(),
    st.just({}),
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return _keywords(
        type=st.sampled_from(["object", ["object", "null"]]),
        properties=st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
        required=st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        additionalProperties=inner,
        patternProperties=st.dictionaries(st.sampled_from(["^i", "[a-b]", ""]), inner, max_size=2),
        unevaluatedProperties=st.booleans(),
        propertyNames=_keywords(maxLength=_counts),
        minProperties=_counts,
        maxProperties=_counts,
        dependentRequired=st.just({"a": ["b"]}),
    )


def _others(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        _keywords(
            type=st.just("array"),
            items=inner,
            prefixItems=st.lists(inner, min_size=1, max_size=2),
            minItems=_counts,
            maxItems=_counts,
            uniqueItems=st.booleans(),
            contains=inner,
        ),
        _keywords(type=st.just("object"), anyOf=some, oneOf=some, allOf=some),
        _keywords(allOf=some),
        _keywords(anyOf=some),
        _keywords(oneOf=some, **{"not": inner}),
        _keywords(**{"if": inner, "then": inner, "else": inner}),
    )


_schemas: st.SearchStrategy[Any] = st.recursive(
    _leaves, lambda inner: _objects(inner) | _objects(inner) | _others(inner), max_leaves=8
)


@st.composite
def parameters(draw: st.DrawFn) -> Json:
    """A schema as a tool's parameters can have it."""
    schema = draw(st.one_of(_objects(_schemas), _others(_schemas)))
    definitions = {"x": {"type": "array", "items": draw(_schemas)}, "y": draw(_schemas)}
    return {**schema, "type": "object", "$defs": definitions}


@st.composite
def arguments(draw: st.DrawFn, schema: Json) -> Json:
    """Arguments that are valid under the schema."""
    value = _guess(draw, schema, schema, 5)
    assume(isinstance(value, dict) and Draft202012Validator(schema).is_valid(value))
    found: Json = value
    return found


def _guess(draw: st.DrawFn, schema: Any, root: Json, depth: int) -> Any:
    """A value that has a good chance to be valid."""
    parts = _parts(draw, schema, root)
    if depth == 0 or not parts:
        return draw(values)
    choices = [value for part in parts for value in part.get("enum", [part["const"]] if "const" in part else [])]
    if choices:
        return draw(st.sampled_from(choices))
    kinds = next((part["type"] for part in parts if "type" in part), _TYPES)
    match draw(st.sampled_from([kinds] if isinstance(kinds, str) else list(kinds))):
        case "object":
            return _guessed_object(draw, parts, root, depth)
        case "array":
            prefix: list[Any] = next((part["prefixItems"] for part in parts if "prefixItems" in part), [])
            items = next((part["items"] for part in parts if "items" in part), True)
            schemas = [*prefix, items, items, items][: draw(st.integers(0, 4))]
            return [_guess(draw, inner, root, depth - 1) for inner in schemas]
        case "string":
            return draw(st.sampled_from(["abc", "de", "", "2026-12-20", 'a "\n\\', "x" * 300]))
        case "integer" | "number" as kind:
            bounds = [part[key] for part in parts for key in part if key.endswith("imum")]
            near = draw(st.sampled_from([*bounds, 0])) + draw(st.integers(-1, 1))
            return int(near) if kind == "integer" else draw(st.sampled_from([near, near + 0.000000123]))
        case "boolean":
            return draw(st.booleans())
        case _:
            return None


def _guessed_object(draw: st.DrawFn, parts: list[Any], root: Json, depth: int) -> Json:
    found = {}
    for part in parts:
        for name, inner in part.get("properties", {}).items():
            if name in part.get("required", ()) or draw(st.booleans()):
                found[name] = _guess(draw, inner, root, depth - 1)
    for name in [*(name for part in parts for name in part.get("required", ())), draw(st.sampled_from(["", "z"]))]:
        if name and name not in found:
            others = next((part["additionalProperties"] for part in parts if "additionalProperties" in part), True)
            found[name] = _guess(draw, others, root, depth - 1)
    return found


def _parts(draw: st.DrawFn, schema: Any, root: Json) -> list[Any]:
    """The schema, and what else has to hold: of alternatives, one."""
    parts: list[Any] = []
    left = [schema]
    while left and len(parts) < 10:
        part = left.pop()
        if not isinstance(part, Mapping):
            continue
        parts.append(part)
        left += [draw(st.sampled_from(part[keyword])) for keyword in ("anyOf", "oneOf") if keyword in part]
        left += part.get("allOf", ())
        if "$ref" in part:
            target: Any = root
            for step in part["$ref"].split("/")[1:]:
                target = target[step]
            left.append(target)
    return parts

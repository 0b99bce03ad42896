"""Tools' schemas in the part of JSON Schema that xgrammar reads as it is meant.

Of the schemas that clients send, xgrammar refuses some, and with them the whole request; others it misreads without a
word, mostly so that right values can no longer be written. docs/forced-decoding.md tells which, as measured on 0.2.8.
So a schema is written anew, with the keywords that mean the same to both and nothing else, and all that xgrammar would
assume is said.

A rewritten schema is looser than the original, never tighter: what is valid can be written. That includes `format`,
which is a note, and properties that a schema doesn't name. Arguments are validated when they are there.

The work, and what comes of it, stay in proportion to the schema's size. A reference stays one, to a definition that is
written once, so that cycles stay cycles; and there is a limit, behind which everything is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from extproc.contract.schema_graph import SchemaGraph
from extproc.prompts.grammar_pattern import is_plain_pattern

Json: TypeAlias = dict[str, Any]
Types: TypeAlias = frozenset[str]

_ORDER = ("string", "integer", "number", "boolean", "null", "object", "array")
ANY_TYPE: Types = frozenset(_ORDER)
_OBJECT: Types = frozenset({"object"})
"""JSON's types. Whole numbers are of both numeric types, so that `number` without `integer` never stands alone."""

_MOST_SUBSCHEMAS = 2_000
_DEEPEST = 24  # vLLM takes a structural tag of 80 levels of JSON: two for each of these, and what is around them
_MOST_OPTIONAL = 128  # properties of an object: compiling takes 0.3 s for 200, 10 s for 1000
_MOST_CHOICES = 2_000  # of an enum: with 20000, each token takes 30 to 200 ms
_CHEAP = 20  # choices, and steps through `allOf` and references, cost as much as a subschema
_LONGEST_PREFIX = 100
_LONGEST_ARRAY = 10_000
_INTEGERS = range(-(2**63), 2**63)


def simplified(schema: Json, most: int = _MOST_SUBSCHEMAS, types: Types = _OBJECT) -> Json:
    """The schema of a tool's parameters, or of another value of these types, as a grammar can take it.

    `schema` is one in which `schema_problems` finds nothing wrong. `most` is how many subschemas the result may have.
    """
    rewriting = _Rewriting(schema, min(most, _MOST_SUBSCHEMAS))
    root = rewriting.all_of([schema], types, 0)
    if root is None:  # nothing fits it at all
        return _anything(types)
    definitions = rewriting.definitions()
    return {**root, "$defs": definitions} if definitions else root


def _circular(definitions: Json) -> Iterator[str]:
    """Definitions that lead to themselves, or to such a one, before any text is written: they say nothing."""
    targets = {name: set(_first_references(schema)) for name, schema in definitions.items()}
    users: dict[str, list[str]] = {name: [] for name in definitions}
    for name, referred in targets.items():
        for target in referred:
            users[target].append(name)
    straight = [name for name, referred in targets.items() if not referred]
    for name in straight:  # grows
        for user in users[name]:
            targets[user].remove(name)
            if not targets[user]:
                straight.append(user)
    yield from (name for name, referred in targets.items() if referred)


def _first_references(schema: Json) -> Iterator[str]:
    alternatives = [schema]
    for alternative in alternatives:  # grows
        alternatives += alternative.get("anyOf", ())
        if "$ref" in alternative:
            yield alternative["$ref"].rpartition("/")[2]


_CONSTRAINING = frozenset(
    """type enum const anyOf oneOf properties patternProperties additionalProperties unevaluatedProperties required
    items prefixItems additionalItems minItems maxItems minimum maximum exclusiveMinimum exclusiveMaximum
    pattern""".split()
)
_STRUCTURE = {"properties", "items", "prefixItems"}
_NAMES_MORE = {"anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "patternProperties"}
"""Where `unevaluatedProperties` looks for names besides `properties`."""


class _Rewriting:
    """One schema on its way. None stands for a schema under which nothing is valid."""

    def __init__(self, root: Json, most: int) -> None:
        self._targets = SchemaGraph(root).targets
        self._names: dict[tuple[Types, tuple[int, ...]], str] = {}
        self._unwritten: list[tuple[str, Types, list[Json]]] = []
        self._left = most

    def definitions(self) -> Json:
        """What references in the rewritten schema lead to."""
        written: Json = {}
        while self._unwritten:
            name, types, parts = self._unwritten.pop()
            schema = self._merged(parts, types, 1)
            written[name] = {} if schema is None else schema
        for name in _circular(written):
            written[name] = {}
        return written

    def all_of(self, sources: Sequence[Any], types: Types, depth: int) -> Json | None:
        """A schema for values of these types that are valid under all the sources."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return _anything(types)
        parts = self._parts(sources)
        if parts is None:
            return None
        if not parts:
            return _anything(types)
        if len(parts) == len(sources) == 1 and parts[0] is sources[0]:
            return self._merged(parts, types, depth)
        key = types, tuple(map(id, parts))
        if key not in self._names:
            self._names[key] = str(len(self._names) + 1)
            self._unwritten.append((self._names[key], types, parts))
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def _parts(self, sources: Sequence[Any]) -> list[Json] | None:
        """The schemas whose own keywords have to hold: of what is referred to or in `allOf`, that instead.

        What stands beside a reference doesn't count: whether it holds depends on the draft.
        """
        parts: list[Json] = []
        seen: set[int] = set()
        stack = list(reversed(sources))
        while stack:
            source = stack.pop()
            if source is False:
                return None
            if not isinstance(source, dict) or id(source) in seen:
                continue
            seen.add(id(source))
            if "$ref" in source:
                stack.append(self._targets.get(id(source), True))
                continue
            stack += reversed(source.get("allOf", ()))
            if source.keys() & _CONSTRAINING:
                parts.append(source)
        self._left -= len(seen) // _CHEAP
        return parts

    def _merged(self, parts: Sequence[Json], types: Types, depth: int) -> Json | None:
        for part in parts:
            types &= _types(part)
        if not types:
            return None
        lists = [_values(part) for part in parts if part.keys() & {"enum", "const"}]
        if lists:
            values = min(lists, key=len)
            self._left -= len(values) // _CHEAP
            return _choice(values, types)
        if not any(part.keys() & _STRUCTURE for part in parts):
            for part in parts:
                for keyword in ("anyOf", "oneOf"):
                    if keyword in part:
                        return self._any_of(part[keyword], types, depth)
        return self._typed(parts, types, depth)

    def _any_of(self, branches: Iterable[Any], types: Types, depth: int) -> Json | None:
        written: list[Json] = []
        for branch in branches:
            schema = self.all_of([branch], types, depth + 1)
            if schema == {}:
                return {}
            if schema is not None and schema not in written:
                written.append(schema)
        return {"anyOf": written} if len(written) > 1 else next(iter(written), None)

    def _typed(self, parts: Sequence[Json], types: Types, depth: int) -> Json:
        written = _anything(types, spelled_out=True)
        if "object" in types:
            written |= self._object(parts, depth)
        if "array" in types:
            written |= self._array(parts, depth)
        if "string" in types:
            patterns = [part["pattern"] for part in parts if "pattern" in part and is_plain_pattern(part["pattern"])]
            written |= {"pattern": patterns[0]} if patterns else {}
        if "integer" in types and "number" not in types:
            written |= _bounds(parts)
        return {} if written == _anything(ANY_TYPE, spelled_out=True) else written

    def _object(self, parts: Sequence[Json], depth: int) -> Json:
        sources: dict[str, list[Any]] = {}
        for part in parts:
            for name, source in part.get("properties", {}).items():
                sources.setdefault(name, []).append(source)
        required = {name: True for part in parts for name in part.get("required", ())}
        if len(sources.keys() - required.keys()) > _MOST_OPTIONAL or len(required) > self._left:
            return {}
        others = self._other_properties(parts, depth)
        properties = {name: self.all_of(source, ANY_TYPE, depth + 1) for name, source in sources.items()}
        for name in (name for name in required if name not in properties):
            properties[name] = {} if isinstance(others, bool) else others
        possible = {name: schema for name, schema in properties.items() if schema is not None}
        needed = [name for name in required if name in possible]
        return {
            **({"properties": possible} if possible else {}),
            **({"required": needed} if needed else {}),
            "additionalProperties": others,
        }

    def _other_properties(self, parts: Sequence[Json], depth: int) -> Json | bool:
        """What the properties may be that have no schema of their own."""
        given = [part["additionalProperties"] for part in parts if "additionalProperties" in part]
        if not given and not any(part.keys() & _NAMES_MORE for part in parts):
            given = [part["unevaluatedProperties"] for part in parts if "unevaluatedProperties" in part]
        if not given:
            return True
        sources = [] if False in given else given[:1]
        for part in parts:
            sources += part.get("patternProperties", {}).values()
        schema = self._any_of(sources, ANY_TYPE, depth)
        return False if schema is None else schema or True

    def _array(self, parts: Sequence[Json], depth: int) -> Json:
        items: Any = True
        prefix: Sequence[Any] = ()
        for part in parts:
            if part.keys() & {"items", "prefixItems"}:
                items, prefix = part.get("items", True), part.get("prefixItems", ())
                if isinstance(items, list):  # as the drafts before 2020-12 have it
                    items, prefix = part.get("additionalItems", True), items
                break
        if len(prefix) > _LONGEST_PREFIX:
            return {}
        least = max((int(part.get("minItems", 0)) for part in parts), default=0)
        most = min((int(part["maxItems"]) for part in parts if "maxItems" in part), default=None)
        first: list[Json] = []
        for source in prefix if most is None else prefix[:most]:
            schema = self.all_of([source], ANY_TYPE, depth + 1)
            if schema is None:
                break
            first.append(schema)
        rest = self.all_of([items], ANY_TYPE, depth + 1) if len(first) == len(prefix) else None
        written: Json = {"items": False if rest is None else rest}
        if first:
            written["prefixItems"] = first
        longest = len(first) if rest is None else most
        if 0 < least <= _LONGEST_ARRAY and (longest is None or least <= longest):
            written["minItems"] = least
        if rest is not None and most is not None and most <= _LONGEST_ARRAY:
            written["maxItems"] = most
        return written


def _types(schema: Json) -> Types:
    """The types that a schema allows by `type`."""
    given = schema.get("type", _ORDER)
    names = {given} if isinstance(given, str) else set(given)
    return frozenset(names | {"integer"} if "number" in names else names) & ANY_TYPE


def _anything(types: Types, *, spelled_out: bool = False) -> Json:
    """A schema for all values of these types. It says what is in objects and arrays: xgrammar takes some for empty."""
    if types == ANY_TYPE and not spelled_out:
        return {}
    names = [name for name in _ORDER if name in types and not (name == "integer" and "number" in types)]
    return {
        "type": names[0] if len(names) == 1 else names,
        **({"additionalProperties": True} if "object" in types else {}),
        **({"items": {}} if "array" in types else {}),
    }


def _values(schema: Json) -> Sequence[Any]:
    return [schema["const"]] if "const" in schema else schema["enum"]


def _choice(values: Sequence[Any], types: Types) -> Json | None:
    """One of these values. xgrammar knows one spelling of each, and of some the wrong one: those become their type."""
    kept: dict[tuple[type, Any], Any] = {}
    loosened: set[str] = set()
    too_many = len(values) > _MOST_CHOICES
    for value in values:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        name = _type_of(value)
        if name not in types:
            continue
        if too_many or isinstance(value, float | dict | list) or (isinstance(value, int) and value not in _INTEGERS):
            loosened |= {name, "integer"} if name == "number" else {name}
        else:
            kept[type(value), value] = value
    choices = [{"enum": list(kept.values())}] if kept else []
    if loosened:
        choices.append(_anything(frozenset(loosened)))
    return {"anyOf": choices} if len(choices) > 1 else next(iter(choices), None)


_TYPES: Mapping[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    dict: "object",
    list: "array",
}


def _type_of(value: Any) -> str:
    return _TYPES[type(value)]


def _bounds(parts: Iterable[Json]) -> Json:
    """The range of a whole number. Nothing if it is empty, which xgrammar refuses."""
    lower: list[int] = []
    upper: list[int] = []
    for part in parts:
        if "minimum" in part:
            lower.append(math.ceil(part["minimum"]))
        if "maximum" in part:
            upper.append(math.floor(part["maximum"]))
        if not isinstance(limit := part.get("exclusiveMinimum", False), bool):  # in draft 4 it is about `minimum`
            lower.append(math.floor(limit) + 1)
        if not isinstance(limit := part.get("exclusiveMaximum", False), bool):
            upper.append(math.ceil(limit) - 1)
    if lower and upper and max(lower) > min(upper):
        return {}
    bounds: Json = {}
    if lower and max(lower) in _INTEGERS:
        bounds["minimum"] = max(lower)
    if upper and min(upper) in _INTEGERS:
        bounds["maximum"] = min(upper)
    return bounds

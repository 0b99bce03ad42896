"""A JSON Schema as a graph: its subschemas, what they are by their draft, and where their references lead.

References are followed within the schema only: nothing is ever fetched. The work is in proportion to the schema's size:
no reference is followed twice, and nothing here recurses.

Sources: the meta-schemas of https://json-schema.org/specification, as jsonschema-rs has them; 2020-12's core, sections
8 and 9, for `$id`, `$anchor` and `$ref`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from jsonschema_rs import (
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
    Validator,
)

from extproc.openai.errors import json_type, quoted

Json: TypeAlias = dict[str, Any]

Path: TypeAlias = "tuple[Path, str | int] | None"
"""A place in a schema, linked from its end, so that a step costs the same however deep it lies. None is the root."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a draft takes for a schema."""

    validator: type[Validator]
    meta_schema: Validator
    applicators: frozenset[str]
    """The keywords that hold a schema, or an array of schemas."""
    named: frozenset[str]
    """The keywords that hold schemas by name."""
    identifier: str


def _dialect(
    uri: str, validator: type[Validator], applicators: Iterable[str], named: Iterable[str], identifier: str = "$id"
) -> Dialect:
    meta_schema = validator({"$ref": uri}, offline=True, validate_formats=False)  # `pattern` has the format `regex`
    return Dialect(validator, meta_schema, frozenset(applicators), frozenset(named), identifier)


_APPLICATORS_4 = {"allOf", "anyOf", "oneOf", "not", "items", "additionalItems", "additionalProperties"}
_APPLICATORS_6 = _APPLICATORS_4 | {"contains", "propertyNames"}
_APPLICATORS_7 = _APPLICATORS_6 | {"if", "then", "else"}
_APPLICATORS_2019 = _APPLICATORS_7 | {"contentSchema", "unevaluatedItems", "unevaluatedProperties"}
_APPLICATORS_2020 = (_APPLICATORS_2019 | {"prefixItems"}) - {"additionalItems"}
_NAMED_4 = {"definitions", "dependencies", "patternProperties", "properties"}
_NAMED_2019 = _NAMED_4 | {"$defs", "dependentSchemas"}

_URI_4 = "http://json-schema.org/draft-04/schema#"
_URI_6 = "http://json-schema.org/draft-06/schema#"
_URI_7 = "http://json-schema.org/draft-07/schema#"
_URI_2019 = "https://json-schema.org/draft/2019-09/schema"
_URI_2020 = "https://json-schema.org/draft/2020-12/schema"

_LATEST = _dialect(_URI_2020, Draft202012Validator, _APPLICATORS_2020, _NAMED_2019)
_EARLIER = {
    _URI_4: _dialect(_URI_4, Draft4Validator, _APPLICATORS_4, _NAMED_4, "id"),
    _URI_6: _dialect(_URI_6, Draft6Validator, _APPLICATORS_6, _NAMED_4),
    _URI_7: _dialect(_URI_7, Draft7Validator, _APPLICATORS_7, _NAMED_4),
    _URI_2019: _dialect(_URI_2019, Draft201909Validator, _APPLICATORS_2019, _NAMED_2019),
}


def _bare(uri: str) -> str:
    """The URI without what people get wrong about it."""
    return uri.partition("://")[2].rstrip("#")


_BY_URI = {_bare(uri): dialect for uri, dialect in _EARLIER.items()}


def dialect_of(schema: Json) -> Dialect:
    uri = schema.get("$schema")
    return _BY_URI.get(_bare(uri), _LATEST) if isinstance(uri, str) else _LATEST


class Subschema(NamedTuple):
    """A schema that is an object, and where it lies."""

    path: Path
    schema: Json
    level: int
    """How many objects it lies in, itself included if it describes one: 1 for the arguments as a whole."""


class Reference(NamedTuple):
    """A `$ref`, as it is written."""

    path: Path
    holder: Json
    keyword: str
    base: str
    """The URI that it is relative to; empty where no schema around it has an `$id`."""


class SchemaGraph:
    """A schema's subschemas, in the order of the document, and where its references lead.

    The schema has to be a tree, as JSON is: subschemas are told apart by their identity.
    """

    def __init__(self, root: Json) -> None:
        self.dialect = dialect_of(root)
        self.roots: list[Json] = []
        """The schema, and what references lead to although the draft doesn't look for schemas there."""
        self.subschemas: list[Subschema] = []
        self.references: list[Reference] = []
        self.targets: dict[int, Json | bool] = {}
        """What the `$ref` of a subschema leads to, by the subschema's identity."""
        self.dead_ends: list[tuple[Path, str]] = []
        """References that lead to no schema, each with a complaint."""
        self._resources: dict[str, tuple[Path, Json]] = {"": (None, root)}
        self._anchors: dict[tuple[str, str], tuple[Path, Json]] = {}
        self._seen: set[int] = set()
        self._add(None, root, "")
        for reference in self.references:  # grows as what they lead to is added
            complaint = self._follow(reference)
            if complaint is not None:
                self.dead_ends.append((reference.path, complaint))

    @property
    def fits_meta_schema(self) -> bool:
        """Whether all its keywords are as the draft has them."""
        return all(map(self.dialect.meta_schema.is_valid, self.roots))

    def _add(self, path: Path, root: Json, base: str) -> None:
        self.roots.append(root)
        stack = [(path, root, 0, base)]
        while stack:
            path, schema, level, base = stack.pop()
            if id(schema) in self._seen:
                continue
            self._seen.add(id(schema))
            base = self._identify(path, schema, base)
            level += is_object(schema)
            self.subschemas.append(Subschema(path, schema, level))
            self.references += [
                Reference((path, keyword), schema, keyword, base) for keyword in REFERENCES if keyword in schema
            ]
            stack += reversed([(at, inner, level, base) for at, inner in self._inner(path, schema)])

    def _inner(self, path: Path, schema: Json) -> Iterator[tuple[Path, Json]]:
        applicators, named = self.dialect.applicators, self.dialect.named
        for keyword, value in schema.items():
            if keyword in applicators:
                if isinstance(value, dict):
                    yield (path, keyword), value
                elif isinstance(value, list):
                    for index, inner in enumerate(value):
                        if isinstance(inner, dict):
                            yield ((path, keyword), index), inner
            elif keyword in named and isinstance(value, dict):
                for name, inner in value.items():
                    if isinstance(inner, dict):
                        yield ((path, keyword), name), inner

    def _identify(self, path: Path, schema: Json, base: str) -> str:
        """Note the names by which references know a schema. Returns the URI that those in it are relative to."""
        identifier = schema.get(self.dialect.identifier)
        if isinstance(identifier, str):
            uri, fragment = _resolved(base, identifier)
            if identifier.startswith("#"):  # how the earlier drafts write an anchor
                self._anchors[base, fragment] = path, schema
            else:
                base = uri
                self._resources[base] = path, schema
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := schema.get(keyword), str):
                self._anchors[base, anchor] = path, schema
        return base

    def _follow(self, reference: Reference) -> str | None:
        """Returns a complaint if the reference leads to no schema."""
        value = reference.holder[reference.keyword]
        if not isinstance(value, str):
            return f"expected a string, got {json_type(value)}."
        uri, fragment = _resolved(reference.base, value)
        resource = self._resources.get(uri)
        if resource is None:
            return f"{quoted(value)} lies outside of this schema, and nothing is fetched. {_DEFINE_IT}"
        by_pointer = not fragment or fragment.startswith("/")
        found = _at(*resource, fragment) if by_pointer else self._anchors.get((uri, fragment))
        if found is None:
            return f"{quoted(value)} leads nowhere in this schema. {_DEFINE_IT}"
        path, target = found
        if not isinstance(target, dict | bool):
            return f"{quoted(value)} leads to {json_type(target)}; expected {A_SCHEMA} there."
        self.targets[id(reference.holder)] = target
        if isinstance(target, dict) and id(target) not in self._seen:
            self._add(path, target, uri)
        return None


REFERENCES = ("$ref", "$dynamicRef")
A_SCHEMA = "a schema (an object or a boolean)"
_DEFINE_IT = "Put the definition under '$defs' and refer to it as '#/$defs/' and its name."
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def _resolved(base: str, reference: str) -> tuple[str, str]:
    """The URI of the schema that a reference speaks of, and the fragment within it."""
    if reference.startswith("#"):  # by hand, because urljoin resolves against the schemes that it knows only
        return base, unquote(reference[1:])
    try:
        uri, fragment = urldefrag(urljoin(base, reference))
    except ValueError:  # not a URI
        return reference, ""
    return uri, unquote(fragment)


def _at(path: Path, value: Any, pointer: str) -> tuple[Path, Any] | None:
    """What a JSON pointer leads to."""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            path, value = (path, name), value[name]
        elif isinstance(value, list) and _INDEX.fullmatch(name) and int(name) < len(value):
            path, value = (path, int(name)), value[int(name)]
        else:
            return None
    return path, value


def is_object(schema: Json) -> bool:
    kind = schema.get("type")
    return kind == "object" or "properties" in schema or (isinstance(kind, list) and "object" in kind)

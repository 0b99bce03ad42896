"""A JSON Schema as a graph: its subschemas, what they are by their draft, and where their references lead.

References are followed within the schema only: nothing is ever fetched. The work is in proportion to the schema's size:
no reference is followed twice, nothing here recurses, and the URIs that are to be resolved are few and short.

The outermost `$schema` says by which draft all of it is read: 4, 6, 7 or 2019-09 if it names one of these, else
2020-12, also for draft 3.

Sources: the meta-schemas of https://json-schema.org/specification, as jsonschema-rs has them; 2020-12's core, sections
8 and 9, for `$id`, `$anchor` and `$ref`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
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

from extproc.contract.errors import json_type, quoted

Json: TypeAlias = dict[str, Any]

Path: TypeAlias = "tuple[Path, str | int] | None"
"""A place in a schema, linked from its end, so that a step costs the same however deep it lies. None is the root."""


@dataclass(frozen=True)
class Dialect:
    """What a draft takes for a schema."""

    uri: str
    validator: type[Validator]
    applicators: frozenset[str]
    """The keywords that hold a schema, or an array of schemas."""
    named: frozenset[str]
    """The keywords that hold schemas by name."""
    identifier: str
    may_be_empty: frozenset[str]
    """The keywords whose arrays may be empty here although the meta-schema says otherwise."""

    @cached_property
    def meta_schema(self) -> Validator:
        """Compiled with the first schema of its draft: each takes a millisecond and a megabyte, and most clients use
        one of the five."""
        return self.validator({"$ref": self.uri}, offline=True, validate_formats=False)  # `pattern` has a format too


def _dialect(
    uri: str,
    validator: type[Validator],
    applicators: Iterable[str],
    named: Iterable[str],
    identifier: str = "$id",
    may_be_empty: Iterable[str] = (),
) -> Dialect:
    return Dialect(uri, validator, frozenset(applicators), frozenset(named), identifier, frozenset(may_be_empty))


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
    _URI_4: _dialect(_URI_4, Draft4Validator, _APPLICATORS_4, _NAMED_4, "id", {"enum", "required"}),
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
        self.root = root
        self.subschemas: list[Subschema] = []
        self.references: list[Reference] = []
        self.targets: dict[int, Json | bool] = {}
        """What the `$ref` of a subschema leads to, by the subschema's identity."""
        self.dead_ends: list[tuple[Path, str]] = []
        """References that lead to no schema, and `$id`s that lead nobody to theirs, each with a complaint."""
        self._roots: dict[int, Json] = {}
        self._resources: dict[str, tuple[Path, Json]] = {"": (None, root)}
        self._anchors: dict[tuple[str, str], tuple[Path, Json]] = {}
        self._uris: dict[tuple[str, str], tuple[str, str] | None] = {}
        self._seen: set[int] = set()
        self._add(None, root, "")
        for reference in self.references:  # grows as what they lead to is added
            complaint = self._follow(reference)
            if complaint is not None:
                self.dead_ends.append((reference.path, complaint))

    @property
    def is_known_whole(self) -> bool:
        """Whether all its subschemas lie where the draft looks for them, not just where a reference leads to."""
        return len(self._roots) == 1

    def fits_meta_schema(self) -> bool:
        """Whether all its keywords are as the draft has them."""
        is_valid, roots = self.dialect.meta_schema.is_valid, self._roots.values()
        if all(map(is_valid, roots)):
            return True
        if not self.dialect.may_be_empty:
            return False
        copies = self.copies(lambda schema: without_empty(schema, self.dialect))
        return all(is_valid(copies[id(root)]) for root in roots)

    def copies(self, change: Callable[[Json], Json]) -> dict[int, Json]:
        """Copies of all subschemas, changed, by the identity of what they are copies of.

        Those that lie where the draft looks for schemas lie in each other as the originals do.
        """
        copies: dict[int, Json] = {id(schema): {} for _, schema in self.subschemas}
        for _, schema in self.subschemas:
            copy = copies[id(schema)]
            for keyword, value in change(schema).items():
                if id(value) in copies:
                    copy[keyword] = copies[id(value)]
                elif isinstance(value, dict):
                    copy[keyword] = {name: copies.get(id(inner), inner) for name, inner in value.items()}
                elif isinstance(value, list):
                    copy[keyword] = [copies.get(id(inner), inner) for inner in value]
                else:
                    copy[keyword] = value
        return copies

    def object_levels(self) -> int:
        """How many objects lie in each other at most, those included that references lead to.

        A reference to what it lies in goes no deeper: of what goes round, each object counts once.
        """
        levels: dict[int, int] = {}
        stack = [(self.root, False)]
        while stack:
            schema, is_done = stack.pop()
            if is_done:
                within = max((levels[id(inner)] for inner in self._within(schema)), default=0)
                levels[id(schema)] = within + is_object(schema)
            elif id(schema) not in levels:
                levels[id(schema)] = 0  # until it is done: that is what a reference back to it finds
                stack.append((schema, True))
                stack += [(inner, False) for inner in self._within(schema)]
        return levels[id(self.root)]

    def _within(self, schema: Json) -> Iterator[Json]:
        """What a subschema is made of: definitions belong to those that refer to them."""
        target = self.targets.get(id(schema))
        if isinstance(target, dict):
            yield target
        for keyword, value in schema.items():
            if keyword not in DEFINITIONS:
                yield from (inner for _, inner in self._inner(None, {keyword: value}))

    def _add(self, path: Path, root: Json, base: str) -> None:
        self._roots[id(root)] = root
        stack = [(path, root, base)]
        while stack:
            path, schema, base = stack.pop()
            if id(schema) in self._seen:
                if schema is not root:
                    self._roots.pop(id(schema), None)  # it lies in this root
                continue
            self._seen.add(id(schema))
            base = self._identify(path, schema, base)
            self.subschemas.append(Subschema(path, schema))
            self.references += [
                Reference((path, keyword), schema, keyword, base) for keyword in REFERENCES if keyword in schema
            ]
            stack += reversed([(at, inner, base) for at, inner in self._inner(path, schema)])

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
            uri, complaint = self._resolve(base, identifier)
            if not complaint and len(uri[0]) > LONGEST_URI:
                complaint = f"expected a URI of at most {LONGEST_URI} characters, with what it is relative to."
            if complaint:
                self.dead_ends.append(((path, self.dialect.identifier), complaint))
            elif identifier.startswith("#"):  # how the earlier drafts write an anchor
                self._anchors[uri] = path, schema
            else:
                base = uri[0]
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
        (uri, fragment), complaint = self._resolve(reference.base, value)
        if complaint:
            return complaint
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

    def _resolve(self, base: str, reference: str) -> tuple[tuple[str, str], str]:
        """The URI of the schema that a reference speaks of, and the fragment within it; or a complaint."""
        if len(reference) > LONGEST_REFERENCE:
            return ("", ""), f"expected at most {LONGEST_REFERENCE} characters, got {len(reference)}."
        if reference.startswith("#"):  # by hand, because urljoin resolves against the schemes that it knows only
            return (base, unquote(reference[1:])), ""
        uri = self._uris.get((base, reference))
        if uri is None:
            if len(self._uris) == MOST_URIS:
                return ("", ""), f"expected at most {MOST_URIS} different URIs in '$id's and references of one schema."
            uri = self._uris[base, reference] = _resolved(base, reference)
        return uri, ""


LONGEST_REFERENCE = 2_000
"""Characters of a `$ref` or an `$id`, as it is written."""
LONGEST_URI = 250
"""Characters of an `$id`, resolved: each reference that is relative to it takes work in proportion to them."""
MOST_URIS = 200
"""Of one schema: to resolve one takes some 20 us."""

REFERENCES = ("$ref", "$dynamicRef")
DEFINITIONS = frozenset({"$defs", "definitions"})
A_SCHEMA = "a schema (an object or a boolean)"
_DEFINE_IT = "Put the definition under '$defs' and refer to it as '#/$defs/' and its name."
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def _resolved(base: str, reference: str) -> tuple[str, str]:
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


def without_empty(schema: Json, dialect: Dialect) -> Json:
    """The schema without the empty arrays that only its draft's meta-schema minds: generators write them."""
    return {keyword: value for keyword, value in schema.items() if value != [] or keyword not in dialect.may_be_empty}


def is_object(schema: Json) -> bool:
    kind = schema.get("type")
    return kind == "object" or "properties" in schema or (isinstance(kind, list) and "object" in kind)

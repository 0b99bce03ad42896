"""What a tool's schema says of an element, and of the elements in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from extproc.toolcalls.notations.values import (
    ARRAY_WORDS,
    CONTAINERS,
    OBJECT_WORDS,
    STRING,
    STRING_OR_NULL,
    Schema,
    alternatives,
    listed_strings,
    said_types,
)

_Made: TypeAlias = dict[tuple[int, ...], "ElementSchema"]


class ElementSchema:
    """The schemas that an element may follow: all that stand behind references, and in branches."""

    __slots__ = ("_arrays", "_made", "_objects", "_root", "_said", "_schemas", "says_members", "types", "words")

    def __init__(self, schemas: Sequence[object], root: Schema, made: _Made | None = None) -> None:
        self._root = root
        self._made = {} if made is None else made
        self._schemas = schemas  # kept, so that no other one gets its id
        said = frozenset[str]().union(*(said_types(schema, root) for schema in schemas))
        self._said = said
        self.types: frozenset[str] = said or STRING
        """The types it may have. An element that isn't described is a string."""
        self.words = frozenset[str]().union(*(listed_strings(schema, root) for schema in schemas if said != STRING))
        """The strings it may be, where they are listed."""
        described = [one for schema in schemas for one in alternatives(schema, root)]
        self._objects = [one for one in described if _is_a("object", OBJECT_WORDS, one)]
        self._arrays = [one for one in described if _is_a("array", ARRAY_WORDS, one)]
        self.says_members = any(_mapping(one.get(word)) for one in self._objects for word in OBJECT_WORDS)
        """It says something about the members of the object that it may be."""

    @property
    def is_object(self) -> bool:
        return bool(self._objects)

    @property
    def is_array(self) -> bool:
        return bool(self._arrays)

    @property
    def is_text(self) -> bool:
        """It can be nothing but text, or nothing."""
        return self._said in (STRING, STRING_OR_NULL)

    @property
    def may_hold_elements(self) -> bool:
        """Nothing is said of it, or it may be an object or an array."""
        return not self._said or bool(self._objects or self._arrays)

    @property
    def streams(self) -> bool:
        """A long text in it can only be a string."""
        return "string" in self._said and CONTAINERS.isdisjoint(self._said)

    @property
    def nothing(self) -> ElementSchema:
        """The schema of what isn't described."""
        return self._of(())

    def knows(self, key: str) -> bool:
        """Whether an object has this property."""
        return any(key in _mapping(one.get("properties")) for one in self._objects)

    def has_room_for(self, key: str) -> bool:
        """Whether an object may have this member."""
        return self.knows(key) or any(
            _mapping(one.get(word)) for one in self._objects for word in ("additionalProperties", "patternProperties")
        )

    def member(self, key: str) -> ElementSchema:
        properties = [_mapping(one.get("properties")) for one in self._objects]
        if named := [each[key] for each in properties if key in each]:
            return self._of(named)
        loose: list[object] = []
        for one in self._objects:
            loose += _mapping(one.get("patternProperties")).values()
            loose.append(one.get("additionalProperties"))
        return self._of(loose)

    def item(self, number: int) -> ElementSchema:
        found: list[object] = []
        for one in self._arrays:
            rest = one.get("items")
            first = rest if isinstance(rest, list) else one.get("prefixItems")
            if isinstance(first, list) and number < len(first):
                found.append(first[number])
            else:
                found.append(one.get("additionalItems") if isinstance(rest, list) else rest)
        return self._of(found)

    def _of(self, schemas: Iterable[object]) -> ElementSchema:
        described = [schema for schema in schemas if isinstance(schema, Mapping)]
        key = tuple(map(id, described))
        if key not in self._made:
            self._made[key] = ElementSchema(described, self._root, self._made)
        return self._made[key]


def _is_a(type_: str, words: frozenset[str], schema: Schema) -> bool:
    match schema.get("type"):
        case None:
            return not words.isdisjoint(schema)
        case str(name):
            return name == type_
        case types:
            return isinstance(types, list) and type_ in types


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

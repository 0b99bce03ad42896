"""Objects as a template has them: what every installation has, and what only some have, under a condition.

A condition is an expression of Helm's templates, such as `.Values.tls.enabled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(slots=True)
class Either:
    """One of two, by a condition."""

    when: str
    yes: Node
    no: Node


@dataclass(slots=True)
class Hole:
    """A scalar that the values say, as an expression."""

    text: str


@dataclass(slots=True)
class Block:
    """A map, a list or a text of several lines that the values say, as an expression, which starts on a new line."""

    text: str
    literal: bool = False
    """A text, and not YAML."""


@dataclass(slots=True)
class Further:
    """Entries that the values add to a map or a list, if they have any: the path of them within the values."""

    path: str


@dataclass(slots=True)
class Entry:
    """Of a map."""

    key: str
    value: Node
    when: str | None = None


@dataclass(slots=True)
class Item:
    """Of a list."""

    value: Node
    when: str | None = None


@dataclass(slots=True)
class Map:
    entries: list[Entry | Further] = field(default_factory=list)

    def entry(self, key: str) -> Entry:
        """Raises KeyError."""
        for each in self.entries:
            if isinstance(each, Entry) and each.key == key:
                return each
        raise KeyError(key)


@dataclass(slots=True)
class Seq:
    items: list[Item | Further] = field(default_factory=list)


Scalar: TypeAlias = str | int | float | bool | None
Plain: TypeAlias = "Scalar | dict[str, Plain] | list[Plain]"
Node: TypeAlias = "Scalar | Map | Seq | Either | Hole | Block"


@dataclass(slots=True)
class Template:
    """An object, and when there is one."""

    kind: str
    name: str
    tree: Map
    conditions: list[str] = field(default_factory=list)


def node(plain: Plain) -> Node:
    """What everybody has."""
    if isinstance(plain, dict):
        return Map([Entry(key, node(value)) for key, value in plain.items()])
    if isinstance(plain, list):
        return Seq([Item(node(each)) for each in plain])
    return plain


def plain(tree: Node) -> Plain:
    """The other way round; of what has a condition nothing can be said, which is a TypeError."""
    match tree:
        case Map(entries):
            return {each.key: plain(each.value) for each in _certain(entries)}
        case Seq(items):
            return [plain(each.value) for each in _certain(items)]
        case Either() | Hole() | Block():
            raise TypeError(tree)
    return tree


def _certain(parts: Sequence[Entry | Item | Further]) -> Sequence[Entry]:
    if any(isinstance(each, Further) or each.when is not None for each in parts):
        raise TypeError(parts)
    return parts  # type: ignore[return-value]

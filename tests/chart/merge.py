"""One template of several renderings: what kustomize makes of the base, and of the base with each component.

What a component adds stands under its condition, where it added it; what it replaces is one of two. A component that
takes something away has no place here: ValueError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.chart.tree import Either, Entry, Item, Map, Node, Plain, Seq, Template, node

Rendering = Sequence[Mapping[str, Any]]
Variants = list[tuple[str, Any]]
"""The same thing in the renderings that differ, each with its condition."""


def templates(base: Rendering, variants: Mapping[str, Rendering]) -> list[Template]:
    """A template of each object, those of the base first. `variants` are renderings by their conditions."""
    known = {_identity(each): each for each in base}
    others = {when: {_identity(each): each for each in rendering} for when, rendering in variants.items()}
    made = []
    for identity, each in known.items():
        gone = [when for when, objects in others.items() if identity not in objects]
        if gone:
            raise ValueError(f"{gone[0]} takes {identity} away")
        made.append(Template(*identity, _map(each, [(when, objects[identity]) for when, objects in others.items()])))
    for when, objects in others.items():
        for identity in objects.keys() - known.keys():
            if any(identity in there for name, there in others.items() if name != when):
                raise ValueError(f"{identity} comes with {when}, and with another condition too")
        added = (each for each in objects if each not in known)
        made += [Template(*each, _map(objects[each], []), [when]) for each in added]
    return made


def _identity(each: Mapping[str, Any]) -> tuple[str, str]:
    return each["kind"], each["metadata"]["name"]


def merged(base: Plain, variants: Variants) -> Node:
    variants = [(when, other) for when, other in variants if other != base]
    if not variants:
        return node(base)
    if isinstance(base, dict) and all(isinstance(other, dict) for _, other in variants):
        return _map(base, variants)
    if isinstance(base, list) and all(_grew(base, other) for _, other in variants):
        return _seq(base, variants)
    ((when, other),) = variants  # of two, neither would be right where both are on
    return Either(when, node(other), node(base))


def _map(base: Mapping[str, Any], variants: Variants) -> Map:
    made = Map()
    for key, value in base.items():
        for when, other in variants:
            if key not in other:
                raise ValueError(f"{when} takes {key} away")
        made.entries.append(Entry(key, merged(value, [(when, other[key]) for when, other in variants])))
    for when, other in variants:
        made.entries += [Entry(key, node(value), when) for key, value in other.items() if key not in base]
    return made


def _seq(base: list[Any], variants: Variants) -> Seq:
    """Each list is walked along the base's; what it has in between is its own."""
    rest = {when: list(other) for when, other in variants}
    made = Seq()
    for each in base:
        found: Variants = []
        for when, other in rest.items():
            made.items += _until(each, when, other)
            found.append((when, other.pop(0)))
        made.items.append(Item(merged(each, found)))
    for when, other in rest.items():
        made.items += [Item(node(each), when) for each in other]
    return made


def _until(each: Any, when: str, other: list[Any]) -> Iterable[Item]:
    while _key(other[0]) != _key(each):
        yield Item(node(other.pop(0)), when)


def _grew(base: list[Any], other: object) -> bool:
    """Whether the base's items are all there, in their order."""
    if not isinstance(other, list):
        return False
    left = iter([_key(each) for each in other])
    return all(_key(each) in left for each in base)


def _key(item: Any) -> object:
    """By what an item of a list is known in all renderings."""
    return ("name", item["name"]) if isinstance(item, dict) and "name" in item else item

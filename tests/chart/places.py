"""Where in the templates a value stands, as a path: `spec.containers[envoy].args[2]`.

In brackets is the name of a list's item, or its number. What has a condition is found like all else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.chart.tree import Entry, Item, Map, Node, Seq, Template


def find(templates: Sequence[Template], place: str) -> Entry | Item:
    """What holds the value at `Kind/name:path`. Raises KeyError when there is nothing."""
    identity, _, path = place.partition(":")
    here: Entry | Item | None = None
    tree: Node = of(templates, identity).tree
    for step in steps(path):
        here = _step(tree, step)
        tree = here.value
    assert here is not None, place
    return here


def of(templates: Sequence[Template], identity: str) -> Template:
    """The template of `Kind/name`. Raises KeyError."""
    for each in templates:
        if f"{each.kind}/{each.name}" == identity:
            return each
    raise KeyError(identity)


def steps(path: str) -> list[str]:
    """A map's keys, and what stands in brackets, with its first bracket."""
    return [step.removesuffix("]") for step in re.findall(r"\[[^]]*\]|[^.\[]+", path)]


def _step(tree: Node, step: str) -> Entry | Item:
    if not step.startswith("["):
        if isinstance(tree, Map):
            return tree.entry(step)
        raise KeyError(step)
    if not isinstance(tree, Seq):
        raise KeyError(step)
    items = [each for each in tree.items if isinstance(each, Item)]
    for number, each in enumerate(items):
        if step[1:] == str(number) or (isinstance(each.value, Map) and _name(each.value) == step[1:]):
            return each
    raise KeyError(step)


def _name(tree: Map) -> object:
    try:
        return tree.entry("name").value
    except KeyError:
        return None

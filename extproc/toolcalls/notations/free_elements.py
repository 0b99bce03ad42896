"""Makes JSON of elements that no schema describes: they are kept until they are complete.

Elements inside an element make it an object, and a list if all of them are called `item`. Those of one name are a list
in that object. Text beside elements becomes a member of its own.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable
from typing import TypeAlias

from extproc.toolcalls.notations.values import quoted

ITEM = "item"
TEXT = "$text"
"""The member that text beside elements becomes; with as many more `$` as it takes to be no other's name."""

Json: TypeAlias = "str | list[Json]"
"""The pieces of a JSON text, in lists that may be nested; joined only once, however deep the elements are."""

Children: TypeAlias = "deque[tuple[str, Json]]"
"""The elements in an element: their names, and what they are."""

_only_marks = re.compile(r"[\s,;|]*").fullmatch


def joined(json: Json) -> str:
    texts: list[str] = []
    waiting: list[Json] = [json]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            texts.append(one)
        else:
            waiting += reversed(one)
    return "".join(texts)


def counts(text: str) -> bool:
    """Whether text beside elements is more than white space, and commas between them."""
    return _only_marks(text) is None


def unused(name: str, used: Collection[str | None]) -> str:
    while name in used:
        name = "$" + name
    return name


def array(values: Iterable[Json]) -> list[Json]:
    out: list[Json] = []
    for value in values:
        out += (", " if out else "[", value)
    return [*out, "]"] if out else ["[]"]


def tree(children: Children, text: str, *, is_object: bool) -> Json:
    """The object or list that `children` make, with `text` beside them; `is_object` if it can't be a list."""
    if not is_object and not counts(text) and all(name == ITEM for name, _ in children):
        return array(value for _, value in children)
    out: list[Json] = []
    members = _members(children)
    if counts(text):
        members[unused(TEXT, members)] = [quoted(text)]
    for name, values in members.items():
        out += (", " if out else "{", quoted(name), ": ", values[0] if len(values) == 1 else array(values))
    return [*out, "}"]


def beginning(children: Children, text: str, open_child: str | None, *, is_object: bool) -> list[Json]:
    """The same as far as it came, when the output breaks off in it: up to where `open_child` begins, if one has."""
    names = {name for name, _ in children} | {open_child}
    if not is_object and not counts(text) and names <= {ITEM}:
        out: list[Json] = []
        for _, value in children:
            out += (", " if out else "[", value)
        return out if open_child is None else [*out, ", " if out else "["]
    members = _members(children)
    last = members.pop(open_child, []) if open_child is not None else []
    if counts(text):
        members[unused(TEXT, {*members, open_child})] = [quoted(text)]
    out = []
    for name, values in members.items():
        out += (", " if out else "{", quoted(name), ": ", values[0] if len(values) == 1 else array(values))
    if open_child is not None:
        out += (", " if out else "{", quoted(open_child), ": ")
        for number, value in enumerate(last):
            out += (", " if number else "[", value)
        if last:
            out.append(", ")
    return out


def _members(children: Children) -> dict[str, list[Json]]:
    members: dict[str, list[Json]] = {}
    for name, value in children:
        members.setdefault(name, []).append(value)
    return members

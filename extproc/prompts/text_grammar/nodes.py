"""What a grammar is made of, whatever it was written in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from extproc.prompts.text_grammar.characters import Characters, only, union

ROOT = ""
"""The name of the rule of whole texts."""
MOST_NESTED = 32
"""Groups in one another. What reads and writes them recurses."""


MOST_TIMES = 256
"""Of what is repeated. Where a class is, compiling takes up to 25 ms for each time."""


class UnsupportedGrammarError(ValueError):
    """A grammar that can't be enforced; the text names what of it can't, for the client."""


class Work:
    """What reading the classes of a grammar may take: ranges that are looked at."""

    def __init__(self) -> None:
        self._left = 100_000

    def spend(self, ranges: int) -> None:
        """Raises UnsupportedGrammarError if it is too much."""
        self._left -= ranges
        if self._left < 0:
            raise UnsupportedGrammarError("the grammar has too many large classes of characters")


@dataclass(frozen=True, slots=True)
class Text:
    """This very text, which may be empty."""

    text: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """One character of a set."""

    characters: Characters


@dataclass(frozen=True, slots=True)
class Sequence:
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """At least so many times, and at most so many: None is any number."""

    node: Node
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Reference:
    """The rule of that name."""

    name: str


Node: TypeAlias = Text | OneOf | Sequence | Choice | Repeat | Reference


def sequence(nodes: list[Node]) -> Node:
    """The nodes one after another; characters become one text."""
    joined: list[Node] = []
    for node in nodes:
        if isinstance(node, Text) and joined and isinstance(last := joined[-1], Text):
            joined[-1] = Text(last.text + node.text)
        elif not (isinstance(node, Sequence) and not node.nodes):
            joined.append(node)
    return joined[0] if len(joined) == 1 else Sequence(tuple(joined))


def choice(nodes: list[Node]) -> Node:
    """Any of the nodes; of characters it becomes one set."""
    if len(nodes) == 1:
        return nodes[0]
    sets = [found for node in nodes if (found := _as_set(node)) is not None]
    return OneOf(union(sets)) if len(sets) == len(nodes) else Choice(tuple(nodes))


def _as_set(node: Node) -> Characters | None:
    match node:
        case OneOf(characters):
            return characters
        case Text(text) if len(text) == 1:
            return only(text)
        case _:
            return None


def repeat(node: Node, least: int, most: int | None) -> Node:
    """The node so many times. `(x?|y+)*` becomes `(x|y)*`: xgrammar is slow where a text can be read in many ways."""
    match node:
        case Repeat(inner, (0 | 1) as inner_least, inner_most) if (
            most is None and least <= 1 and inner_most in (None, 1)
        ):
            return repeat(inner, least * inner_least, None)
        case Repeat(inner, (0 | 1) as inner_least, None) if most != 0 and least <= 1:
            return Repeat(inner, least * inner_least, None)
        case Choice(nodes) if most is None and least <= 1:
            least = 0 if any(_is_optional(part) for part in nodes) else least
            parts = [_once(part) for part in nodes if part not in (Text(""), Sequence(()))]
            return Repeat(choice(parts), least, None) if parts else Text("")
        case _:
            return Repeat(node, least, most)


def _is_optional(node: Node) -> bool:
    return node in (Text(""), Sequence(())) or (isinstance(node, Repeat) and node.least == 0)


def _once(node: Node) -> Node:
    match node:
        case Repeat(inner, 0 | 1, None | 1):
            return inner
        case _:
            return node


def references(node: Node) -> Iterator[str]:
    """The names of the rules that a node refers to."""
    waiting = [node]
    while waiting:
        match waiting.pop():
            case Reference(name):
                yield name
            case Sequence(nodes) | Choice(nodes):
                waiting.extend(nodes)
            case Repeat(repeated):
                waiting.append(repeated)
            case _:
                pass

"""What a grammar is made of, whatever it was written in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from extproc.prompts.text_grammar.characters import Characters

ROOT = ""
"""The name of the rule of whole texts."""
MOST_NESTED = 32
"""Groups in one another. What reads and writes them recurses."""


MOST_TIMES = 1000
"""Of what is repeated."""


class UnsupportedGrammar(ValueError):
    """A grammar that can't be enforced; the text names what of it can't, for the client."""


class Work:
    """What reading the classes of a grammar may take: ranges that are looked at."""

    def __init__(self) -> None:
        self._left = 100_000

    def spend(self, ranges: int) -> None:
        """Raises UnsupportedGrammar if it is too much."""
        self._left -= ranges
        if self._left < 0:
            raise UnsupportedGrammar("the grammar has too many large classes of characters")


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
    """Any of the nodes."""
    return nodes[0] if len(nodes) == 1 else Choice(tuple(nodes))


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

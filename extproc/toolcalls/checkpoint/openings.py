"""What opens fields: literals in a row, merged into states where several begin alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from extproc.toolcalls.checkpoint.patterns import Atom, Kind, Row
from extproc.toolcalls.checkpoint.problems import ResponseTemplateError
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.table import WHITE_SPACE, Behind, Gap, Rules, Transition

_CLASS = re.compile(r"(\[\^?\]?(?:\\.|[^\]\\])*\]|\\[wWdDsS])[*]\??", re.DOTALL)


@dataclass(slots=True)
class _Node:
    """A place in the rows, behind a literal."""

    state: StateName
    junk: re.Pattern[str] = WHITE_SPACE
    next: dict[str, _Node | StateName] = field(default_factory=dict)
    to_text: bool = False
    """Text may begin behind it, and not only calls."""

    def transitions(self) -> dict[str, Transition]:
        return {literal: Transition(to.state if isinstance(to, _Node) else to) for literal, to in self.next.items()}


class Openings:
    """Collects rows; then `root` are the markers in text, and `states` what lies behind those."""

    def __init__(self) -> None:
        self._root = _Node(State.PROSE)
        self._nodes: list[_Node] = []
        self.of_calls: set[str] = set()
        """The markers in text that only lead to calls."""

    @property
    def root(self) -> Mapping[str, Transition]:
        return self._root.transitions()

    def states(self) -> dict[StateName, Rules]:
        return {
            node.state: Gap(node.transitions(), junk=node.junk, behind=Behind.CALL if node.to_text else Behind.PART)
            for node in self._nodes
        }

    def add(self, row: Row, to: StateName, *, text: bool) -> None:
        """A row of literals that leads to a state; `text`: what begins there is text. Raises ResponseTemplateError."""
        *steps, (junk, last) = _steps(row)
        node, path = self._root, ""
        for junk_before, literal in steps:
            _between(node, junk_before, literal)
            path += literal
            following = node.next.setdefault(literal, _Node((State.SECTION, path)))
            if not isinstance(following, _Node):
                raise ResponseTemplateError(f"{literal!r} is an opening, and the beginning of one")
            if following not in self._nodes:
                self._nodes.append(following)
            node = following
            node.to_text = node.to_text or text
        _between(node, junk, last)
        if node.next.setdefault(last, to) != to:
            raise ResponseTemplateError(f"{last!r} opens two things")
        first = (steps or [(junk, last)])[0][1]
        if not text:
            self.of_calls.add(first)


def _between(node: _Node, junk: re.Pattern[str], literal: str) -> None:
    """What stands in front of a literal, behind this place."""
    if node.state is State.PROSE:
        return
    if node.next and node.junk != junk:
        raise ResponseTemplateError(f"what may stand in front of {literal!r} differs")
    node.junk = junk


def _steps(row: Row) -> list[tuple[re.Pattern[str], str]]:
    """The literals, each with what may stand in front of it."""
    steps: list[tuple[re.Pattern[str], str]] = []
    junk = WHITE_SPACE
    for atom in row:
        if atom.kind is Kind.LITERAL:
            if junk is not WHITE_SPACE and junk.fullmatch(atom.literal[0]):
                raise ResponseTemplateError(f"where {junk.pattern!r} ends, and {atom.literal!r} begins, can't be told")
            steps.append((junk, atom.literal))
            junk = WHITE_SPACE
        elif atom.kind is not Kind.SPACE:
            junk = _junk(atom)
    if not steps:
        raise ResponseTemplateError("it has no literal")
    return steps


def _junk(atom: Atom) -> re.Pattern[str]:
    characters = _CLASS.fullmatch(atom.source) if atom.kind is Kind.OTHER else None
    if characters is None:
        raise ResponseTemplateError(f"{atom.source!r} can't be told from text")
    return re.compile(f"{characters[1]}*")

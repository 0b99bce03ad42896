r"""Regular expressions of response templates, taken apart as far as tables can follow them.

A delimiter such as `<tool_call>\s*<function=(?P<name>\w+)>` is a row of literals with something between them. What a
table needs of it are the literals, which become markers, and what may stand between two: white space, characters of a
class, or text that a pattern checks once it is there. Sources: Hugging Face transformers 5.23, `utils/chat_parsing`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from extproc.toolcalls.checkpoint.problems import ResponseTemplateError


class Kind(enum.Enum):
    LITERAL = enum.auto()
    SPACE = enum.auto()
    """White space, or none."""
    CAPTURE = enum.auto()
    """Text that a group has a name for."""
    OTHER = enum.auto()
    """Any other text, such as `[^<]*`."""
    EDGE = enum.auto()
    """A place: `\\b`."""
    START = enum.auto()
    """`^`"""
    END = enum.auto()
    """`$`"""


@dataclass(frozen=True, slots=True)
class Atom:
    """One thing in a row."""

    kind: Kind
    source: str
    literal: str = ""


Row = tuple[Atom, ...]

_MOST_ROWS = 32
_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d*,?\d*\})[?+]?")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_GROUP = re.compile(r"\((?:\?:|\?P<(?P<name>\w+)>)?(?!\?)")
_CODE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})")
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_EDGES = {"b": Kind.EDGE, "B": Kind.EDGE, "A": Kind.START, "Z": Kind.END}


def alternatives(pattern: str) -> list[Row]:
    """The rows that a pattern is a choice of: groups without a name, and what is optional, are told apart.

    Raises ResponseTemplateError, also for what is no regular expression.
    """
    _check(pattern)
    found, _ = _choice(pattern, 0, apart=True)
    return list(dict.fromkeys(map(_merged, found)))


def one_row(pattern: str) -> Row:
    """The row that a pattern is, with groups as they are. Raises ResponseTemplateError."""
    _check(pattern)
    found, _ = _choice(pattern, 0, apart=False)
    if len(found) != 1:
        raise ResponseTemplateError(f"{pattern!r} has alternatives")
    return _merged(found[0])


def _check(pattern: str) -> None:
    try:
        re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise ResponseTemplateError(f"{pattern!r} is no regular expression: {error}") from None


def trimmed(row: Row) -> Row:
    """Without white space and places at the ends."""
    idle = (Kind.SPACE, Kind.EDGE, Kind.END)
    atoms = list(row)
    while atoms and atoms[0].kind in idle:
        del atoms[0]
    while atoms and atoms[-1].kind in idle:
        del atoms[-1]
    return tuple(atoms)


def source(row: Row) -> str:
    return "".join(atom.source for atom in row)


def _choice(pattern: str, at: int, *, apart: bool) -> tuple[list[Row], int]:
    """The alternatives from `at` up to the end of the group that they stand in; `apart`: groups are taken apart."""
    choices: list[Row] = []
    found: list[Row] = [()]
    while at < len(pattern) and pattern[at] != ")":
        if pattern[at] == "|":
            choices += found
            found = [()]
            at += 1
            continue
        parts, at = _part(pattern, at, apart=apart)
        found = [(*row, *part) for row in found for part in parts]
        if len(found) + len(choices) > _MOST_ROWS:
            raise ResponseTemplateError(f"{pattern!r} has too many alternatives")
    return choices + found, at


def _part(pattern: str, at: int, *, apart: bool) -> tuple[list[Row], int]:
    """What one element with its quantifier may be."""
    begin = at
    character = pattern[at]
    inside: list[Row]
    if character == "(":
        group = _GROUP.match(pattern, at)
        if group is None:
            raise ResponseTemplateError(f"{pattern!r} looks around, or is conditional, at {pattern[at : at + 8]!r}")
        inside, at = _choice(pattern, group.end(), apart=apart)
        at += 1
        if group["name"] or not apart:
            inside = [(Atom(Kind.CAPTURE if group["name"] else Kind.OTHER, pattern[begin:at]),)]
    elif character == "[":
        found = _CLASS.match(pattern, at)
        assert found is not None  # else it wouldn't have compiled
        inside, at = [(Atom(Kind.OTHER, found.group()),)], found.end()
    elif character == "\\":
        atom, at = _escape(pattern, at)
        inside = [(atom,)]
    else:
        kind = {"^": Kind.START, "$": Kind.END, ".": Kind.OTHER}.get(character, Kind.LITERAL)
        inside, at = [(Atom(kind, character, character if kind is Kind.LITERAL else ""),)], at + 1
    quantifier = _QUANTIFIER.match(pattern, at)
    if quantifier is None:
        return inside, at
    at = quantifier.end()
    if quantifier.group() in ("?", "??", "?+") and apart and not _is_space(inside):
        return [*inside, ()], at
    kind = Kind.SPACE if _is_space(inside) else Kind.OTHER
    if len(inside) == 1 and any(atom.kind is Kind.CAPTURE for atom in inside[0]):
        raise ResponseTemplateError(f"{pattern!r} repeats a group that has a name")
    return [(Atom(kind, pattern[begin:at]),)], at


def _is_space(inside: list[Row]) -> bool:
    return [source(row) for row in inside] == [r"\s"]


def _escape(pattern: str, at: int) -> tuple[Atom, int]:
    if code := _CODE.match(pattern, at):
        return Atom(Kind.LITERAL, code.group(), chr(int(code.group()[2:], 16))), code.end()
    text, character = pattern[at : at + 2], pattern[at + 1]
    if character in _CONTROL:
        return Atom(Kind.LITERAL, text, _CONTROL[character]), at + 2
    if character in _EDGES:
        return Atom(_EDGES[character], text), at + 2
    if character.isdigit():
        raise ResponseTemplateError(f"{pattern!r} refers back to a group")
    return (Atom(Kind.OTHER, text) if character.isalpha() else Atom(Kind.LITERAL, text, character)), at + 2


def _merged(row: Row) -> Row:
    """With literals that stand side by side made one."""
    return tuple(_pairs(row))


def _pairs(row: Row) -> Iterator[Atom]:
    held: Atom | None = None
    for atom in row:
        if held is not None and atom.kind is held.kind is Kind.LITERAL:
            held = replace(held, source=held.source + atom.source, literal=held.literal + atom.literal)
            continue
        if held is not None:
            yield held
        held = atom
    if held is not None:
        yield held

"""What a model says and calls, before any format: and what a writer is, which turns it into the model's text.

A writer spells a format's markup out by itself, from the models' chat templates, and takes nothing from the parser. It
also says what its format can't express, so that a property holds for all the rest.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

THINK = ("<think>\n", "\n</think>\n\n")
TAGS = ("<think>", "</think>")
FENCE_OR_BARE = r"`|(?:^|\n)\s*[{\[]"
"""The pattern of text that may be a call where calls need no marker."""
ENDS_A_TURN = r"</s>\s*\Z"
"""That of text that ends with Mistral's token for the end of a turn, which no reader sees."""


_OPENS_FENCE = re.compile(r"```\w*\s*\Z")


class Spelled(float):
    """A number that is to be written as it was spelled: `1.0`, `1e5`."""

    spelling: str

    def __new__(cls, spelling: str) -> Spelled:
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool; `number` counts the calls of an output."""

    name: str
    arguments: Mapping[str, Any]
    number: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """One output of a model."""

    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    before: str = ""
    between: str = ""
    after: str = ""
    thinking_is_open: bool = False
    """The prompt has opened the thinking already, so the output begins inside it."""
    ascii_only: bool = False
    compact: bool = False
    """No blanks in JSON."""

    def json(self, value: object) -> str:
        """`value` as this model spells JSON."""
        comma, colon = (",", ":") if self.compact else (", ", ": ")
        match value:
            case Spelled():
                return value.spelling
            case Mapping():
                members = (f"{self.json(key)}{colon}{self.json(member)}" for key, member in value.items())
                return "{" + comma.join(members) + "}"
            case list():
                return "[" + comma.join(self.json(element) for element in value) + "]"
            case _:
                return json.dumps(value, ensure_ascii=self.ascii_only)

    def sections(self) -> list[tuple[Call, ...]]:
        """The calls that stand together: all of them, unless there is text between."""
        if self.between or not self.calls:
            return [(call,) for call in self.calls]
        return [self.calls]


class Place(enum.Enum):
    """Where text may stand, beside the calls."""

    BEFORE = enum.auto()
    BETWEEN = enum.auto()
    AFTER = enum.auto()


EVERYWHERE = frozenset(Place)
BEFORE = frozenset({Place.BEFORE})
AROUND = frozenset({Place.BEFORE, Place.AFTER})
NOWHERE: frozenset[Place] = frozenset()


class Types(enum.Enum):
    """What tells a value's type."""

    OUTPUT = enum.auto()
    """The output itself: no schema is needed."""
    SCHEMA = enum.auto()
    ELEMENTS = enum.auto()
    """The schema, and every value inside a value has one too."""


def _anything(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Writer:
    """How one family of models writes an output."""

    format: str
    write: Callable[[Output], str]
    markup: tuple[str, ...]
    """The literals of the format, none of which can stand in its text."""
    variant: str = ""
    places: frozenset[Place] = EVERYWHERE
    thinks: bool = True
    most_calls: int = 20
    types: Types = Types.OUTPUT
    verbatim: bool = False
    """Arguments are JSON, which is handed on as it stands."""
    offered_only: bool = False
    """Nothing but an offered tool's name shows that it is a call."""
    holds: Callable[[str], bool] = _anything
    """Whether a value can hold this string."""
    names: Callable[[str], bool] = _anything
    """Whether an argument can have this name."""
    plain_keys: bool = False
    """... which goes for the keys inside values too."""
    says: Callable[[str], bool] = _anything
    """Whether text can be this, besides having no markup in it."""

    @property
    def name(self) -> str:
        return f"{self.format}: {self.variant}" if self.variant else self.format

    def can_say(self, text: str) -> bool:
        # A fence that opens right in front of a call is the call's, in any format.
        in_front = _OPENS_FENCE.search(text) is not None
        return not in_front and not any(marker in text for marker in self.markup) and self.says(text)


def laid_out(
    output: Output,
    section: Callable[[Sequence[Call]], str],
    *,
    thinking: tuple[str, str] = THINK,
    gap: str = "\n",
    say: Callable[[str], str] = str,
) -> str:
    """The thinking, then text and sections of calls in turn, `gap` between them."""
    pieces = [say(output.before)] if output.before else []
    for number, calls in enumerate(output.sections()):
        if number and output.between:
            pieces.append(say(output.between))
        pieces.append(section(calls))
    if output.after:
        pieces.append(say(output.after))
    return thought(output, thinking) + gap.join(pieces)


def thought(output: Output, thinking: tuple[str, str] = THINK) -> str:
    """The thinking between its tags."""
    if not output.reasoning:
        return ""
    opening, closing = thinking
    return f"{'' if output.thinking_is_open else opening}{output.reasoning}{closing}"


def without(*patterns: str) -> Callable[[str], bool]:
    """Whether none of these regular expressions is found in a text."""
    search = re.compile("|".join(patterns)).search
    return lambda text: search(text) is None


def closing(tag: str, *followers: str) -> str:
    """The pattern of a closing tag inside a value that nothing tells from the real one: what may follow it does."""
    return rf"{re.escape(tag)}\s*(?:{either(followers)})"


def last(tag: str) -> str:
    """The pattern of a value that ends in its own closing tag: it can't be told from one that comes twice."""
    return rf"{re.escape(tag)}\s*\Z"


def quoted(opening: str, name: str, *parts: str) -> str:
    """The pattern of a call's beginning in a value: all up to where that call ends belongs to it, and then some."""
    return rf"{re.escape(opening)}{name}\s*(?:{either(parts)})"


def either(literals: Iterable[str]) -> str:
    return "|".join(re.escape(literal) for literal in literals)


def is_word(key: str) -> bool:
    """A key that needs no quotes between tags."""
    return bool(key) and key == key.strip() and not re.search(r"[<>\"'\n=]", key)


def raw(output: Output, value: object) -> str:
    """A string as it is, anything else as JSON."""
    return value if isinstance(value, str) else output.json(value)


def lines_with(literal: str) -> str:
    """The pattern of a literal that begins a line, but the first."""
    return rf"\n{either([literal])}"

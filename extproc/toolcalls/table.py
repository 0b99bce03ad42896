"""What a format is: a frozen table that the machine of `machine.py` runs.

A format names its states. Each state says what happens to the text in it and which markers lead where:

- `Prose`   free text, for the reader or as reasoning, up to a marker.
- `JsonCall` a JSON object that holds a call's name and arguments, up to the object's end.
- `Gap`     what may stand between the parts of a call and means nothing, up to a marker or to prose again.

A marker that leads into a `JsonCall` is only a candidate until the object has shown itself to be a call: until
then all of its text is kept, and given back as prose when it is none.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from extproc.toolcalls.lexer import Lexer


class Sink(enum.Enum):
    """Where free text goes."""

    CONTENT = enum.auto()
    REASONING = enum.auto()


@dataclass(frozen=True, slots=True)
class Rule:
    """What a marker does."""

    to: str
    """The state it leads to."""
    shown: bool = False
    """The marker is itself part of the text (the opening of a code block)."""
    line_start: bool = False
    """It counts only as the first thing on a line."""
    keep: bool = False
    """The marker is the first character of what the next state reads (the `{` of a bare object)."""


@dataclass(frozen=True, slots=True)
class Prose:
    """Free text up to a marker."""

    sink: Sink
    rules: Mapping[str, Rule]
    lexer: Lexer = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lexer", Lexer(self.rules))


@dataclass(frozen=True, slots=True)
class JsonCall:
    """An object such as `{"name": "f", "arguments": {...}}`, keys in any order."""

    then: str
    """The state behind a call."""
    otherwise: str
    """The state when it proves to be no call, and its text has been given back."""
    offered_only: bool
    """Without a marker that says "call", only an object with arguments that names an offered tool is one."""
    name_keys: frozenset[str] = frozenset({"name"})
    arguments_keys: frozenset[str] = frozenset({"arguments", "parameters"})
    other_keys: frozenset[str] = frozenset({"id", "type"})
    """What else a call may hold. Any other key shows that an object without a marker is no call."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Meaningless text between the parts of a call; the first thing that is neither junk nor a marker is prose."""

    junk: re.Pattern[str]
    rules: Mapping[str, Rule]
    otherwise: str
    lexer: Lexer = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lexer", Lexer(self.rules))


State: TypeAlias = Prose | JsonCall | Gap


@dataclass(frozen=True, slots=True)
class Format:
    """How a family of models writes calls. `start` and `thinking` name the first state of an output."""

    name: str
    title: str
    """What it is, in a few words."""
    models: tuple[str, ...]
    example: str
    """A call of `get_weather` for Paris, as these models write it."""
    states: Mapping[str, State]
    start: str = "prose"
    thinking: str | None = None
    """The first state of an output that begins inside thinking."""
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", MappingProxyType(dict(self.states)))
        targets = {self.start} | ({self.thinking} if self.thinking else set())
        for state in self.states.values():
            match state:
                case Prose(rules=rules):
                    targets |= {rule.to for rule in rules.values()}
                case Gap(rules=rules, otherwise=otherwise):
                    targets |= {rule.to for rule in rules.values()} | {otherwise}
                case JsonCall(then=then, otherwise=otherwise):
                    targets |= {then, otherwise}
        if unknown := targets - self.states.keys():
            raise ValueError(f"format {self.name}: no such state: {', '.join(sorted(unknown))}")

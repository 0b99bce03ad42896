"""What a format is: a frozen table that the machine of `machine.py` runs.

A format has states (`states.py`). For each the table says what is done with the text in it and, marker by marker, the
transition to another one:

- `Prose`   free text, for the reader or as reasoning;
- `Gap`     what stands between the parts of a call and means nothing;
- `Name`    the name of the tool that is called;
- `Header`  what introduces a message in formats with channels, and says what the message is;
- `Key` and `Value`   one argument of a call whose arguments stand between tags;
- `Body`    a call, or its arguments, in a notation that has a reader of its own: JSON, Python, and their kin.

From its first marker on, a call is only a candidate until it has shown what it is: until then all of its text is
kept, and given back as prose when it is none. What shows it is the first argument, or a marker that ends the call.
Behind a marker that announces a call, which a bare bracket and a fence don't, the end of the output shows it as well:
what might have become a call by then is one that was cut off, or else markup, and no text.
"""

from __future__ import annotations

import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from extproc.toolcalls.lexer import Lexer
from extproc.toolcalls.notations.tagged import Trim
from extproc.toolcalls.repairs import Repair
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.syntax.call_syntax import CallSyntax


class Sink(enum.Enum):
    """Where free text goes."""

    CONTENT = enum.auto()
    REASONING = enum.auto()
    OUTSIDE = enum.auto()
    """Nowhere, where the answer's text has delimiters of its own. It is shown if there is nothing else."""


class Marker(enum.Enum):
    """What becomes of a marker itself."""

    MARKUP = enum.auto()
    """It is no text."""
    SHOWN = enum.auto()
    """It is part of the text (the opening of a code block), or of the value, which goes on in the next state."""
    KEPT = enum.auto()
    """It is the beginning of what the next state reads (the `{` of a bare object)."""
    AGAIN = enum.auto()
    """It shows that the value ended before what was skipped, all of which the next state reads once more."""


@dataclass(frozen=True, slots=True)
class Transition:
    """What a marker does."""

    to: StateName
    """The state it leads to."""
    marker: Marker = Marker.MARKUP
    line_start: bool = False
    """It counts only as the first thing on a line."""
    ends_call: bool = False
    """It shows that the call is one, and complete."""


@lru_cache(maxsize=4096)
def redirected(transition: Transition, to: StateName) -> Transition:
    """The same, to another state. The formats' tables are full of such, which are made once."""
    return replace(transition, to=to)


Transitions: TypeAlias = Mapping[str, Transition]


@dataclass(frozen=True, slots=True)
class _Marked:
    """A state that ends at markers."""

    transitions: Transitions
    lexer: Lexer = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "transitions", MappingProxyType(dict(self.transitions)))
        object.__setattr__(self, "lexer", Lexer(self.transitions))

    def targets(self) -> set[StateName]:
        return {transition.to for transition in self.transitions.values()}


@dataclass(frozen=True, slots=True)
class Prose(_Marked):
    """Free text up to a marker."""

    sink: Sink = Sink.CONTENT


WHITE_SPACE = re.compile(r"\s*")
BLANKS = re.compile(r"[ \t]*")


class Behind(enum.Enum):
    """What a gap lies behind."""

    PART = enum.auto()
    """A part of a call, which goes on."""
    CALL = enum.auto()
    """A complete call: what leads here and stands here is markup, and never given back."""
    VALUE = enum.auto()
    """What may be a value's end. Where something else follows than may follow a value, what was skipped, its marker
    included, belongs to the value after all: so a closing tag inside a value is told from the one behind it. A marker
    that leads to another such gap leaves it open."""
    QUOTE = enum.auto()
    """The same for what may begin a call that a value quotes: where the output ends, it belongs to the value."""
    TEXT = enum.auto()
    """Text, or a section without calls: a tag that closes nothing. It is markup where a marker follows or the output
    ends, and else it is given back. It announces no call."""


@dataclass(frozen=True, slots=True)
class Gap(_Marked):
    """Junk up to a marker. Anything else leads `otherwise`, and is read there."""

    otherwise: StateName = State.PROSE
    junk: re.Pattern[str] = WHITE_SPACE
    behind: Behind = Behind.PART
    ends_with_output: bool = False
    """The call whose name is known is whole when the output ends here: its closing marker is a stop token."""
    hides_markers: bool = False
    """Where it leads `otherwise`, only the text between the markers is given back; in a sentence that speaks of them,
    all of it."""
    key: re.Pattern[str] | None = None
    """In what was skipped behind a value: the group `key` is the name of the next argument."""
    skipped: re.Pattern[str] | None = None
    """What has to be found in what was skipped behind a value, or a marker that reads it again is part of the value."""

    @property
    def in_value(self) -> bool:
        """What is skipped may belong to a value."""
        return self.behind in (Behind.VALUE, Behind.QUOTE)

    def targets(self) -> set[StateName]:
        return _Marked.targets(self) | {self.otherwise}


@dataclass(frozen=True, slots=True)
class Name(_Marked):
    """A tool's name up to a marker. Text that can't be one leads `otherwise`, with all of the candidate."""

    otherwise: StateName = State.PROSE
    pattern: re.Pattern[str] = re.compile(r"\s*[\"']?(?P<name>[^\s\"'<>{}]{1,256})[\"']?\s*")
    """What the whole text has to be, and which part of it is the name."""
    possible: re.Pattern[str] = re.compile(r"\s*[\"']?[^\s<>{}]*\s*")
    """What the text has to be while it is still being written."""
    ends_with_output: bool = False
    """The name of an offered tool is a whole call when the output ends there."""
    hides_markers: bool = False
    """When it proves to be no name, only the text between the markers is given back."""
    entities: bool = False
    """`&amp;`, `&quot;`, `&lt;` and `&gt;` in it stand for their characters."""
    offered_only: bool = False
    """Where no marker says "call", only the name of an offered tool is one. (Without tools any name is.)"""

    def targets(self) -> set[StateName]:
        return _Marked.targets(self) | {self.otherwise}


Routes: TypeAlias = tuple[tuple[re.Pattern[str], StateName], ...]
"""Where a header leads: the first pattern that fits all of it decides. A group `name` in it names the tool that is
called; a group `offered` does too, and the pattern fits only if there is such a tool."""


@dataclass(frozen=True, slots=True)
class Header(_Marked):
    """A message's header up to a marker."""

    routes: Routes = ()
    """A marker that is shown leads where its transition says, and any does when none fits."""
    hidden: bool = True
    """The header is markup, also when it introduces prose. One that isn't announces no call."""
    possible: re.Pattern[str] | None = None
    """What the text has to be while it is still being written; None if that may be anything. Other text, and a marker
    that is kept, show that the header never gets its end. Its group `said` is as far as the header is sure to go."""
    unfinished: Routes = ()
    """Where one leads that never gets its end, by what it said. When none fits, it is no header: all is given back."""
    otherwise: StateName = State.PROSE

    def targets(self) -> set[StateName]:
        routed = {to for _, to in (*self.routes, *self.unfinished)}
        return _Marked.targets(self) | routed | {self.otherwise}


@dataclass(frozen=True, slots=True)
class Key(_Marked):
    """An argument's name up to a marker. Text that is too long for one leads `otherwise`, with all of the candidate; a
    call that has begun is broken off."""

    pattern: re.Pattern[str] = re.compile(r"\s*[\"']?(?P<key>.*?)[\"']?\s*", re.DOTALL)
    """What the text has to be: the `key`, its `type` if the output says it, or either alone."""
    types: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """What the words of `type` stand for."""
    entities: bool = False
    otherwise: StateName = State.PROSE
    hides_markers: bool = False
    """When it proves to be no key, only the text between the markers is given back."""

    def targets(self) -> set[StateName]:
        return _Marked.targets(self) | {self.otherwise}


@dataclass(frozen=True, slots=True)
class Value(_Marked):
    """An argument's value up to a marker, typed by the tool's schema."""

    trim: Trim = Trim.NOTHING
    packed_keys: frozenset[str] = frozenset()
    """Keys under which models pack all arguments as one JSON object, when the schema has no such parameter."""


class Verdict(enum.Enum):
    """Whether what is being read is a call."""

    UNDECIDED = enum.auto()
    CALL = enum.auto()
    NOT_A_CALL = enum.auto()
    MARKUP = enum.auto()
    """It is neither a call nor text."""


class Reader(Protocol):
    """Follows one call in its own notation, as it arrives.

    Until the verdict nothing of it may leave; after it, `take` returns what became ready of the arguments.
    """

    verdict: Verdict
    done: bool
    """The call ended, or broke off, at the end that `scan` returned."""
    whole: bool
    """It ended as it should."""

    @property
    def name(self) -> str | None:
        """The tool's name, as soon as it is known whole: not later than the verdict CALL."""

    def scan(self, text: str, position: int) -> int:
        """Consume what belongs to the call from `position`; returns the end.

        While the call isn't done, what is behind the end comes again, with more text behind it.
        """

    def end_of_input(self) -> None:
        """The output ends here. The verdict on what isn't decided yet is left to the machine."""

    def take(self) -> str:
        """The arguments that became ready since the last time: a piece of a JSON text."""


def left_by(reader: Reader) -> str:
    """Text that comes again, before what stands behind `scan`'s end, when a call is done: where a reader looks at more
    than belongs to its call, it has what is left of it as `left`."""
    left: str = getattr(reader, "left", "")
    return left


def repair_of(reader: Reader | None) -> Repair | None:
    """What had to be repaired first in a call. Only readers of JSON know; in other notations nothing can be told from a
    translation."""
    repair: Repair | None = getattr(reader, "repair", None) or getattr(reader, "slip", None)
    return repair


@dataclass(frozen=True, slots=True)
class Body(ABC):
    """A call, or its arguments, in a notation with a reader of its own."""

    then: StateName
    """The state behind the call."""
    otherwise: StateName = State.PROSE
    """The state when it proves to be no call, and its text has been given back."""
    hides_markers: bool = False
    """... without the markers before it."""
    may_repeat: bool = False
    """It may be a call that was made already, said once more: then it is markup. See `Format.repeats`."""

    @abstractmethod
    def reader(self, tools: Mapping[str, Any], name: str | None) -> Reader:
        """A new reader. `tools` are the offered ones by name; `name` is the called one's, if a marker told it."""

    def targets(self) -> set[StateName]:
        return {self.then, self.otherwise}


Rules: TypeAlias = Prose | Gap | Name | Header | Key | Value | Body
"""What is done in a state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Other names for a format: it is read by the same table, but written in another way."""

    name: str
    title: str
    models: tuple[str, ...]
    example: str
    syntax: CallSyntax
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "syntax", replace(self.syntax, format=self.name))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Format:
    """How a family of models writes calls. Two are the same only if they are one object."""

    name: str
    title: str
    """What it is, in a few words."""
    models: tuple[str, ...]
    example: str
    """A call of `get_weather` for Paris, as these models write it."""
    states: Mapping[StateName, Rules]
    """How it is read."""
    syntax: CallSyntax | None = None
    """How it is written, for prompts, history and forced decoding; None when that isn't known."""
    start: StateName = State.PROSE
    """The first state of an output."""
    thinking: StateName | None = None
    """The first state of an output that begins inside thinking."""
    repeats: bool = False
    """The models say calls once more, so it is remembered what they called."""
    aliases: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", MappingProxyType(dict(self.states)))
        if self.syntax is not None:
            object.__setattr__(self, "syntax", replace(self.syntax, format=self.name))
        targets = {self.start} | ({self.thinking} if self.thinking else set())
        targets.update(*(state.targets() for state in self.states.values()))
        if unknown := targets - self.states.keys():
            raise ValueError(f"format {self.name}: no such state: {', '.join(sorted(map(str, unknown)))}")

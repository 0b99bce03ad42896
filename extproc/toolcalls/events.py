"""What the parser says about a model's output.

The events of one output, in order, are a sequence of `Text` and `Reasoning` pieces and of calls; a call is one
`CallStart`, any number of `ArgumentsDelta` and one `CallEnd`, and calls never overlap. `index` counts the calls
of the output from 0 without gaps. Joined argument deltas are the call's `arguments` string as OpenAI means it:
a JSON text, `{}` when the model gave none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from extproc.toolcalls.repairs import Repair

# Not frozen, because thousands of them are made per second and a frozen one takes three times as long.


@dataclass(slots=True)
class Text:
    """Content for the reader."""

    text: str


@dataclass(slots=True)
class Reasoning:
    """What the model thought before (or between) what it said."""

    text: str


@dataclass(slots=True)
class CallStart:
    """A call has begun, and its tool is known."""

    index: int
    name: str
    id: str | None = None
    """The id that the call came with, where it came with one."""


@dataclass(slots=True)
class ArgumentsDelta:
    """The next piece of a call's arguments: text of a JSON value, cut anywhere."""

    index: int
    json: str


@dataclass(slots=True)
class CallEnd:
    """The call is complete, or as complete as the output left it (see `whole`)."""

    index: int
    whole: bool = True
    """False when the output ended, or broke, before the call did."""
    repair: Repair | None = field(default=None, compare=False)
    """What had to be repaired first in its JSON, if anything had."""


Event: TypeAlias = Text | Reasoning | CallStart | ArgumentsDelta | CallEnd


@dataclass(slots=True)
class Call:
    """One call of a whole output."""

    name: str
    arguments: str
    """A JSON text; no more than its beginning where the call isn't `whole`."""
    id: str | None = None
    """The id that the call came with, where it came with one."""
    whole: bool = True
    """False when the output ended, or broke, before the call did: better not run."""


@dataclass(slots=True)
class Parsed:
    """A whole output, taken apart. `content` and `reasoning` are None when there is none."""

    content: str | None
    reasoning: str | None
    calls: list[Call]


def collect(events: list[Event]) -> Parsed:
    """Join the events of one whole output."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[Call] = []
    arguments: list[list[str]] = []
    for event in events:
        match event:
            case Text(text):
                content.append(text)
            case Reasoning(text):
                reasoning.append(text)
            case CallStart(_, name, id_):
                calls.append(Call(name, "", id_, whole=False))
                arguments.append([])
            case ArgumentsDelta(index, json):
                arguments[index].append(json)
            case CallEnd(index, whole):
                calls[index].whole = whole
    for call, pieces in zip(calls, arguments, strict=True):
        call.arguments = "".join(pieces)
    return Parsed("".join(content) or None, "".join(reasoning) or None, calls)

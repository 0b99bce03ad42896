"""Reads an input in one cut, and joins what came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Reasoning, Text
from tests.fuzz.inputs import Input


class WrongOrderError(Exception):
    """Events that don't make sense in their order."""


@dataclass(slots=True)
class Said:
    """Text, for the reader or as reasoning."""

    text: str
    thought: bool


@dataclass(slots=True)
class Called:
    name: str
    id: str | None
    arguments: str
    whole: bool


Outcome: TypeAlias = list[Said | Called]


def read(input_: Input, pieces: Iterable[str]) -> Outcome:
    """What the parser makes of `pieces`, neighbours of one kind made one. Raises WrongOrderError, and what it does."""
    parser = input_.parser()
    events: list[Event] = []
    for piece in pieces:
        events += parser.feed(piece)
    events += parser.close(cut_off=input_.cut_off)
    return joined(events)


def joined(events: Sequence[Event]) -> Outcome:
    """Calls are numbered without gaps and never overlap, each has arguments, and no event is empty."""
    outcome: Outcome = []
    begun: CallStart | None = None
    calls = 0
    pieces: list[str] = []
    thought: bool | None = None
    for event in events:
        kind = type(event)
        if kind is ArgumentsDelta:
            if begun is None or event.index != begun.index or not event.json:  # type: ignore[union-attr]
                raise WrongOrderError(f"{event} in {begun}")
            pieces.append(event.json)  # type: ignore[union-attr]
        elif kind is Text or kind is Reasoning:
            if begun is not None or not event.text:  # type: ignore[union-attr]
                raise WrongOrderError(f"{event} in {begun}")
            if thought is not (kind is Reasoning) and pieces:
                outcome.append(Said("".join(pieces), bool(thought)))
                pieces.clear()
            thought = kind is Reasoning
            pieces.append(event.text)  # type: ignore[union-attr]
        elif isinstance(event, CallStart):
            if begun is not None or event.index != calls or not event.name:
                raise WrongOrderError(f"{event} in {begun}, after {calls}")
            if pieces:
                outcome.append(Said("".join(pieces), bool(thought)))
                pieces.clear()
            thought = None
            begun = event
            calls += 1
        elif isinstance(event, CallEnd):
            if begun is None or event.index != begun.index or not pieces:
                raise WrongOrderError(f"{event} in {begun}, with {pieces}")
            outcome.append(Called(begun.name, begun.id, "".join(pieces), event.whole))
            pieces.clear()
            begun = None
        else:
            raise WrongOrderError(f"{event}")
    if begun is not None:
        raise WrongOrderError(f"{begun} never ends")
    if pieces:
        outcome.append(Said("".join(pieces), bool(thought)))
    return outcome

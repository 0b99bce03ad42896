"""A format's table as rows that one can read: in this state, this marker leads there.

The machine runs the very table that these rows are taken from, so what is printed is what is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from extproc.toolcalls.states import StateName
from extproc.toolcalls.table import Body, Format, Gap, Header, Marker, Name, Prose, Rules, Sink, Transition


@dataclass(frozen=True, slots=True)
class Row:
    """One transition."""

    state: str
    on: str
    """A marker; or what else leads on, in words."""
    to: str
    effect: str
    """What it does besides, in words."""


def rows(format_: Format) -> Iterator[Row]:
    """All transitions, by state, in the table's order."""
    for state, rules in format_.states.items():
        name = f"{shown(state)} ({_kind(rules)})"
        if isinstance(rules, Body):
            yield Row(name, "the call's end", shown(rules.then), "")
            yield Row(name, "no call", shown(rules.otherwise), "gives the text back")
            continue
        for marker, transition in rules.transitions.items():
            yield Row(name, repr(marker), shown(transition.to), _effect(transition))
        match rules:
            case Gap() if rules.in_value:
                yield Row(name, "anything else", shown(rules.otherwise), "it all belongs to the value")
            case Gap():
                yield Row(name, "anything else", shown(rules.otherwise), "")
            case Name():
                yield Row(name, "no name", shown(rules.otherwise), "gives the text back")
            case Header():
                for pattern, to in rules.routes:
                    yield Row(name, f"a header like {pattern.pattern}", shown(to), "")
            case _:
                pass


def shown(state: StateName) -> str:
    """A state's name as it is printed."""
    return f"{shown(state[0])} {state[1]}" if isinstance(state, tuple) else state.name


def _kind(rules: Rules) -> str:
    if isinstance(rules, Prose):
        return {Sink.REASONING: "reasoning", Sink.CONTENT: "text", Sink.OUTSIDE: "outside"}[rules.sink]
    return type(rules).__name__


def _effect(transition: Transition) -> str:
    effects = {
        "the marker is text": transition.marker is Marker.SHOWN,
        "is read there": transition.marker is Marker.KEPT,
        "what was skipped is read there": transition.marker is Marker.AGAIN,
        "ends the call": transition.ends_call,
        "only at a line's start": transition.line_start,
    }
    return ", ".join(words for words, true in effects.items() if true)

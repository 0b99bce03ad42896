"""What a run is told, and what it asks for: the values that pass between the machine (`run`) and whoever drives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.contract.errors import ApiError
from extproc.runner.tools import ToolResult
from extproc.turn.output import Said

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool of ours, by the name that the model knows."""

    source: str
    """Who offers it."""
    name: str
    """What it is called there."""
    runs: bool = True
    """A call runs without asking; otherwise it goes to the client."""


# What the run is told


@dataclass(frozen=True, slots=True)
class ModelSaid:
    """The model goes on: one choice's events, and its finish reason in the end."""

    round: int
    said: Said


@dataclass(frozen=True, slots=True)
class ModelEnded:
    """A round is over. With an error, there is nothing to go on with."""

    round: int
    usage: Json | None = None
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """What a call came to."""

    id: str
    result: ToolResult


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The run's time is up."""


@dataclass(frozen=True, slots=True)
class ClientGone:
    """Nobody waits for the answer any more."""


Input: TypeAlias = ModelSaid | ModelEnded | ToolEnded | TimedOut | ClientGone


# What it asks for


@dataclass(frozen=True, slots=True)
class AskModel:
    """Another round."""

    round: int
    """From 1."""
    messages: list[Json]
    """The whole conversation."""
    tokens: int | None
    """The most that the model may write, if the client has set a limit to the answer."""


@dataclass(frozen=True, slots=True)
class CallTool:
    """Run a tool of ours."""

    id: str
    offered: Offered
    name: str
    """By which the model called it."""
    arguments: str


@dataclass(frozen=True, slots=True)
class CancelAll:
    """Let go of whatever is under way."""


Effect: TypeAlias = AskModel | CallTool | CancelAll


@dataclass(frozen=True, slots=True)
class Complete:
    """The client has its whole answer."""

    usage: Json | None
    """Of all rounds, as the settings have it."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The client has left."""


End: TypeAlias = Complete | ApiError | Gone


@dataclass(frozen=True, slots=True)
class Step:
    """What follows from one input."""

    out: Sequence[Said] = ()
    effects: Sequence[Effect] = ()
    end: End | None = None

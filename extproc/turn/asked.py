"""What a request was, in words that are all known beforehand: for who counts, and for Envoy's metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from extproc.config.model import Mode, Model
from extproc.turn.turn import Dialect, Turn

Operation: TypeAlias = Literal["chat", "count_tokens"]


@dataclass(frozen=True, slots=True)
class Asked:
    """Of a request for a model's answer."""

    mode: Mode
    format: str
    """As the configuration calls it; empty where the gateway reads no calls (native mode without `repair`)."""
    dialect: Dialect
    operation: Operation = "chat"
    stream: bool = False
    offers_tools: bool = False
    """The model may answer with calls."""
    forced: bool = False
    """A call, or its arguments, are forced by a grammar of ours."""
    follows_result: bool = False
    """Its last message is a tool's result."""
    step: str = ""
    """Of the model's ladder (`extproc.turn.steering`); empty for one that isn't steered."""

    @classmethod
    def of(cls, turn: Turn, model: Model, *, forced: bool, step: str = "") -> Asked:
        return cls(
            model.mode,
            model.format if model.tools != "native" or model.repair else "",
            turn.dialect,
            "count_tokens" if turn.counts else "chat",
            turn.stream,
            turn.offers_tools,
            forced,
            turn.follows_result,
            step,
        )

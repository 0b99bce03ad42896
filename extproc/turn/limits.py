"""What a model's configuration allows a request to offer."""

from __future__ import annotations

from collections.abc import Iterator

from extproc.config import Model
from extproc.contract.errors import ApiError, array_too_long, invalid_value, quoted
from extproc.contract.json_array import tool_names
from extproc.turn.turn import Turn


def limit_problems(turn: Turn, model: Model) -> Iterator[ApiError]:
    """The tools that are too many, or not among those that the model may be offered."""
    if len(turn.offered) > model.max_tools:
        expected = f"at most {model.max_tools} for the model {quoted(model.name)}"
        yield array_too_long(turn.tools_place, expected, len(turn.offered))
    if model.allowed_tools is not None:
        for name, place in zip(tool_names(turn.offered), turn.places, strict=True):
            if name not in model.allowed_tools:
                there_are = ", ".join(model.allowed_tools) or "none"
                yield invalid_value(
                    place, f"the model {quoted(model.name)} may not be offered {quoted(name)}; allowed: {there_are}."
                )

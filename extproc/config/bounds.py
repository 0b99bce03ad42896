"""When a model with `tools: auto` changes the way in which it is asked, and where it begins."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from extproc.config.base import FieldError, Settings

StepName: TypeAlias = Literal["template", "prompt", "forced", "retry"]


class Bounds(Settings):
    """When a model steps up, and back."""

    first: StepName | None = None
    """The plainest step, below which it never goes; unless given, what was measured for the model's family, or
    `template`."""
    valid: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """The share of its calls that has to be valid."""
    calls: Annotated[int, Field(ge=10, le=200)] = 30
    """How many calls of one step have to be known at least before it steps up."""
    back: Annotated[int, Field(ge=10, le=1_000_000)] = 500
    """After how many calls of a step the one below is tried again, for the first time; twice as many each time."""

    @model_validator(mode="after")
    def _tells_before_it_leaves(self) -> Self:
        if self.back < self.calls:
            raise FieldError(("back",), "expected at least as many as `calls`: a step has to show how good it is")
        return self

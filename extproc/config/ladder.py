"""What `tools: auto` stands for: the settings that a model may be asked by, from the plainest to the strictest.

Each step is an ordinary model of a configuration, which an operator could have written; it has all of the one before,
and one thing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from extproc.config.backend import Backend
from extproc.config.base import FieldError
from extproc.config.bounds import Bounds, StepName
from extproc.config.measured import recommendation
from extproc.config.model import Model


@dataclass(frozen=True, slots=True)
class Step:
    """One way to ask a model."""

    name: StepName
    model: Model


@dataclass(frozen=True, slots=True)
class Ladder:
    """The steps of one model, from the plainest one on."""

    steps: tuple[Step, ...]
    bounds: Bounds

    @classmethod
    def of(cls, model: Model, backend: Backend) -> Self:
        """Those that the model's format, its other settings and its backend allow, and that aren't what another is.
        Raises FieldError if the first one isn't among them, or is the only one."""
        recommended = _recommended(model)
        if recommended is not None:
            # What was measured is a hint, and no reason to refuse a configuration.
            with suppress(FieldError):
                return cls(tuple(_steps(recommended, backend)), model.steering)
        return cls(tuple(_steps(model, backend)), model.steering)


def _recommended(model: Model) -> Model | None:
    """With what was measured for its family, which holds as a whole: not for a model that was told any of it."""
    found = recommendation(model.upstream_name)
    told = model.model_fields_set
    if found is None or model.steering.first is not None or told & {"format", "example", "forced"}:
        return None
    settings = {
        name: value for name, value in found.settings.items() if name not in told
    }  # `retry` is one's own matter
    return model.model_copy(update={**settings, "steering": Bounds(first=found.first)})


def _steps(model: Model, backend: Backend) -> list[Step]:
    """From the first one on. Raises FieldError."""
    asked = model.model_copy(update={"tools": "template", "steering": Bounds()})
    steps = [Step("template", asked)]
    for name, settings in _further(model, backend):
        asked = steps[-1].model.model_copy(update=settings)
        if asked != steps[-1].model:
            steps.append(Step(name, asked))
    names = [step.name for step in steps]
    first = model.steering.first or names[0]
    if first not in names:
        raise FieldError(("steering", "first"), f"with these settings there are only the steps {', '.join(names)}")
    if first == names[-1]:
        problem = f"with these settings there is nothing to step up to: write {_written(steps[-1].model, model)}"
        raise FieldError(("tools",), problem)
    return steps[names.index(first) :]


def _written(step: Model, model: Model) -> str:
    """What is to be written to ask the model as this step does."""
    words = [f"`tools: {step.tools}`"]
    words += [f"`{name}: true`" for name in ("forced", "retry") if getattr(step, name) and not getattr(model, name)]
    return " and ".join(words)


def _further(model: Model, backend: Backend) -> Iterator[tuple[StepName, dict[str, Any]]]:
    if model.can_be_shown and model.escape_markers is not False:
        yield "prompt", {"tools": "prompt"}
    if not model.forced and model.can_be_forced and backend.can_force:
        yield "forced", {"forced": True}
    yield "retry", {"retry": True}

"""What a model's configuration allows a request to offer."""

from __future__ import annotations

from collections.abc import Iterator

from extproc.config import Model
from extproc.openai.errors import ApiError, array_too_long, invalid_value, quoted
from extproc.openai.request import ChatRequest


def limit_problems(request: ChatRequest, model: Model) -> Iterator[ApiError]:
    """The tools that are too many, or not among those that the model may be offered."""
    param = "functions" if request.legacy else "tools"
    if len(request.offered) > model.max_tools:
        expected = f"at most {model.max_tools} for the model {quoted(model.name)}"
        yield array_too_long(param, expected, len(request.offered))
    if model.allowed_tools is not None:
        for index, tool in enumerate(request.offered):
            name = tool["function"]["name"]
            if name not in model.allowed_tools:
                there_are = ", ".join(model.allowed_tools) or "none"
                place = f"{param}[{index}].name" if request.legacy else f"{param}[{index}].function.name"
                yield invalid_value(
                    place, f"the model {quoted(model.name)} may not be offered {quoted(name)}; allowed: {there_are}."
                )

"""The model that a request names in its decoded body, in any dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from extproc.contract.errors import ApiError, invalid_request, invalid_type, invalid_value, missing_parameter

Json: TypeAlias = dict[str, Any]

MOST_FIELDS = 1000
"""OpenAI and vLLM together know a hundred."""


def model_problems(fields: Json) -> Iterator[ApiError]:
    """What is wrong with the request as a whole, and with `model`, but for its being unknown."""
    if len(fields) > MOST_FIELDS:
        yield invalid_request(
            f"The request has {len(fields)} fields; send at most {MOST_FIELDS}.", code="invalid_value"
        )
        return
    model = fields.get("model")
    if model is None:
        yield missing_parameter("model", "Name the model to use; GET /v1/models lists them.")
    elif not isinstance(model, str):
        yield invalid_type("model", "a string", model)
    elif not model:
        yield invalid_value("model", "expected the name of a model, got an empty string.")

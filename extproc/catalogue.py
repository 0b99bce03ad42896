"""The models that clients can choose: what `GET /v1/models` and `GET /v1/models/{id}` answer.

The names are the configuration's. What else is known of a model comes from its backend, if that has ever said so: a
backend that doesn't answer takes no model off the list. Pure: `extproc.backend_reports` does the asking. The shapes
are those of OpenAI's API reference (Models), with vLLM's `max_model_len`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote

import orjson

from extproc.config import Config, Model
from extproc.names import MODELS_PATH
from extproc.openai.errors import model_not_found


@dataclass(frozen=True, slots=True)
class Report:
    """What a backend says of one model."""

    created: int | None = None
    owned_by: str | None = None
    max_model_len: int | None = None


Reports: TypeAlias = Mapping[str, Mapping[str, Report]]
"""By the backend's name, then by the model's name there."""


def catalogue_answer(path: str, config: Config, reports: Reports, since: int) -> bytes:
    """The body of the answer to a GET. `since` is when a model that nobody dates was created, in Unix time.

    An id in the path may have its slashes as they are or encoded. Raises ApiError for an id that isn't there.
    """
    name = unquote(path.removeprefix(MODELS_PATH).strip("/"))
    if not name:
        listed = [_shown(model, reports, since) for model in config.models]
        return orjson.dumps({"object": "list", "data": listed})
    model = config.models_by_name.get(name)
    if model is None:
        raise model_not_found(name, config.models_by_name)
    return orjson.dumps(_shown(model, reports, since))


def read_reports(body: bytes) -> dict[str, Report]:
    """What a backend's own list of models says. Raises ValueError when it is none."""
    try:
        return {str(model["id"]): _report(model) for model in orjson.loads(body)["data"]}
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError("no list of models") from error


def _report(model: Mapping[str, Any]) -> Report:
    created, owner, length = model.get("created"), model.get("owned_by"), model.get("max_model_len")
    return Report(
        created if isinstance(created, int) else None,
        owner if isinstance(owner, str) else None,
        length if isinstance(length, int) else None,
    )


def _shown(model: Model, reports: Reports, since: int) -> dict[str, Any]:
    report = reports.get(model.backend, {}).get(model.upstream_name, Report())
    shown: dict[str, Any] = {
        "id": model.name,
        "object": "model",
        "created": since if report.created is None else report.created,
        "owned_by": report.owned_by or "extproc",
    }
    if report.max_model_len is not None:
        shown["max_model_len"] = report.max_model_len
    return shown

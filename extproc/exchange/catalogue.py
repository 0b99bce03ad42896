"""The models that clients can choose: what `GET /v1/models` and `GET /v1/models/{id}` answer.

The names are the configuration's. What else is known of a model comes from its backend, if that has ever said so: a
backend that doesn't answer takes no model off the list. Pure: `extproc.backends.reports` does the asking. The shapes
are those of OpenAI's API reference (Models), with vLLM's `max_model_len`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias
from urllib.parse import unquote

import orjson

from extproc.config import Config, Model
from extproc.contract.errors import model_not_found
from extproc.names import MODELS_PATH, RUNNER


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a backend says of one model."""

    created: int | None = None
    owned_by: str | None = None
    max_model_len: int | None = None


ModelInfos: TypeAlias = Mapping[str, Mapping[str, ModelInfo]]
"""By the backend's name, then by the model's name there."""


def catalogue_answer(path: str, config: Config, reports: ModelInfos, since: int) -> bytes:
    """The body of the answer to a GET. `since` is when a model that nobody dates was created, in Unix time.

    An id in the path may have its slashes as they are or encoded. Raises ApiError for an id that isn't there.
    """
    name = unquote(path.removeprefix(MODELS_PATH).strip("/"))
    if not name:
        listed = [_shown(model, reports, since) for model in config.models]
        listed += [{**_shown(model, reports, since), "id": alias} for alias, model in _aliases(config)]
        listed += [_character(character, since) for character in reports.get(RUNNER, {})]
        return orjson.dumps({"object": "list", "data": listed})
    if name in reports.get(RUNNER, {}):
        return orjson.dumps(_character(name, since))
    model = config.model_of(name)
    if model is None:
        raise model_not_found(name, config.models_by_name)
    return orjson.dumps({**_shown(model, reports, since), "id": name})


def anthropic_catalogue_answer(path: str, config: Config, reports: ModelInfos, since: int) -> bytes:
    """The same in the shape of Anthropic's API. All models are on its one page."""
    name = unquote(path.removeprefix(MODELS_PATH).strip("/"))
    if not name:
        listed = [_as_anthropics(model.name, _shown(model, reports, since)) for model in config.models]
        listed += [_as_anthropics(alias, _shown(model, reports, since)) for alias, model in _aliases(config)]
        listed += [_as_anthropics(name, _character(name, since)) for name in reports.get(RUNNER, {})]
        ends = {"first_id": listed[0]["id"], "last_id": listed[-1]["id"]}
        return orjson.dumps({"data": listed, "has_more": False, **ends})
    if name in reports.get(RUNNER, {}):
        return orjson.dumps(_as_anthropics(name, _character(name, since)))
    model = config.model_of(name)
    if model is None:
        raise model_not_found(name, config.models_by_name)
    return orjson.dumps(_as_anthropics(name, _shown(model, reports, since)))


def _aliases(config: Config) -> Iterator[tuple[str, Model]]:
    """Those that are a name, and stand for no others."""
    return ((alias, config.models_by_name[meant]) for alias, meant in config.aliases.items() if not alias.endswith("*"))


def _character(name: str, since: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": since, "owned_by": "extproc"}


def _as_anthropics(name: str, shown: dict[str, Any]) -> dict[str, Any]:
    created = datetime.fromtimestamp(shown["created"], UTC)
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": shown.get("max_model_len"),
    }


def read_reports(body: bytes) -> dict[str, ModelInfo]:
    """What a backend's own list of models says. Raises ValueError when it is none."""
    try:
        return {str(model["id"]): _report(model) for model in orjson.loads(body)["data"]}
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError("no list of models") from error


def _report(model: Mapping[str, Any]) -> ModelInfo:
    created, owner, length = model.get("created"), model.get("owned_by"), model.get("max_model_len")
    return ModelInfo(
        created if isinstance(created, int) else None,
        owner if isinstance(owner, str) else None,
        length if isinstance(length, int) else None,
    )


def _shown(model: Model, reports: ModelInfos, since: int) -> dict[str, Any]:
    report = reports.get(model.backend, {}).get(model.upstream_name, ModelInfo())
    shown: dict[str, Any] = {
        "id": model.name,
        "object": "model",
        "created": since if report.created is None else report.created,
        "owned_by": report.owned_by or "extproc",
    }
    if report.max_model_len is not None:
        shown["max_model_len"] = report.max_model_len
    return shown

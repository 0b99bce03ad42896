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

from extproc.config import Config, Model, Team
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


def catalogue_answer(path: str, config: Config, reports: ModelInfos, since: int, team: Team | None = None) -> bytes:
    """The body of the answer to a GET. `since` is when a model that nobody dates was created, in Unix time; `team` is
    whose key asks, which sees only what it may ask.

    An id in the path may have its slashes as they are or encoded. Raises ApiError for an id that isn't there.
    """
    name = unquote(path.removeprefix(MODELS_PATH).strip("/"))
    if not name:
        return orjson.dumps({"object": "list", "data": list(_listed(config, reports, since, team))})
    return orjson.dumps(_one(name, config, reports, since, team))


def anthropic_catalogue_answer(
    path: str, config: Config, reports: ModelInfos, since: int, team: Team | None = None
) -> bytes:
    """The same in the shape of Anthropic's API. All models are on its one page."""
    name = unquote(path.removeprefix(MODELS_PATH).strip("/"))
    if not name:
        listed = [_as_anthropics(shown) for shown in _listed(config, reports, since, team)]
        ids = [shown["id"] for shown in listed] or [None]
        return orjson.dumps({"data": listed, "has_more": False, "first_id": ids[0], "last_id": ids[-1]})
    return orjson.dumps(_as_anthropics(_one(name, config, reports, since, team)))


def _listed(config: Config, reports: ModelInfos, since: int, team: Team | None) -> Iterator[dict[str, Any]]:
    names = config.names_for(team)
    aliases = [alias for alias in config.aliases if config.model_for(team, alias) is not None]
    for name in dict.fromkeys((*names, *aliases)):
        if not name.endswith("*") or name in config.models_by_name:
            yield _one(name, config, reports, since, team)
    yield from (_character(name, since) for name in reports.get(RUNNER, {}) if team is None or team.may_ask(name))


def _one(name: str, config: Config, reports: ModelInfos, since: int, team: Team | None) -> dict[str, Any]:
    if name in reports.get(RUNNER, {}) and (team is None or team.may_ask(name)):
        return _character(name, since)
    model = config.model_for(team, name)
    if model is None:
        raise model_not_found(name, config.names_for(team))
    shown = {**_shown(model, reports, since), "id": name}
    alias = config.alias_of(name)
    if alias is not None and (split := config.splits.get(alias)) is not None:
        # What fits all of them fits whichever is asked.
        lengths = [_shown(config.models_by_name[each], reports, since).get("max_model_len") for each in split.models]
        known = [length for length in lengths if length is not None]
        shown |= {"max_model_len": min(known)} if known else {}
    return shown


def _character(name: str, since: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": since, "owned_by": "extproc"}


def _as_anthropics(shown: dict[str, Any]) -> dict[str, Any]:
    created = datetime.fromtimestamp(shown["created"], UTC)
    return {
        "type": "model",
        "id": shown["id"],
        "display_name": shown["id"],
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

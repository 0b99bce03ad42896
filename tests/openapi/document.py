"""docs/openapi.yaml, and the validators that its schemas make."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

Json = dict[str, Any]

DOCUMENT: Json = yaml.load(
    (Path(__file__).parents[2] / "docs" / "openapi.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
)
CHAT: Json = DOCUMENT["paths"]["/v1/chat/completions"]["post"]
SCHEMAS: Json = DOCUMENT["components"]["schemas"]
REQUEST: Json = SCHEMAS["ChatCompletionRequest"]


def _validator(schema: Json, schemas: Json = SCHEMAS) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**schema, "components": {"schemas": schemas}})


def _named(schema: str) -> Json:
    return {"$ref": f"#/components/schemas/{schema}"}


# Requests


@cache
def _request_part(schema: str) -> jsonschema_rs.Draft202012Validator:
    return _validator(_named(schema))


def is_right(schema: str, value: Any) -> bool:
    """Whether the document takes this value for a part of the request, as far as JSON Schema can tell."""
    return _request_part(schema).is_valid(value)


@cache
def _field(name: str) -> jsonschema_rs.Draft202012Validator:
    return _validator(REQUEST["properties"][name])


def is_right_field(name: str, value: Any) -> bool:
    """The same for a field at its top."""
    return _field(name).is_valid(value)


def wrong_places(request: Any) -> list[str]:
    """Where a request is wrong, for the document: paths as in an error's `param`. The empty path: it is no object."""
    return [_place(request, error) for error in _request_part("ChatCompletionRequest").iter_errors(request)]


def _place(request: Any, error: jsonschema_rs.ValidationError) -> str:
    place, here = "", request
    for step in error.instance_path:
        if isinstance(here, dict) and step not in here:
            break  # a name of digits, which the validator takes for an index
        place, here = _inside(place, step), here[step]
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Required):
        place = _inside(place, error.kind.property)
    return place


def _inside(place: str, step: str | int) -> str:
    return f"{place}[{step}]" if isinstance(step, int) else f"{place}.{step}".removeprefix(".")


# Answers


def _closed(schema: Any) -> Any:
    """The schema without the freedom to have more fields than it names."""
    match schema:
        case dict():
            inner = {name: _closed(member) for name, member in schema.items()}
            return {"unevaluatedProperties": False, **inner} if "properties" in schema and "type" in schema else inner
        case list():
            return [_closed(element) for element in schema]
        case _:
            return schema


@cache
def _answer(schema: str) -> jsonschema_rs.Draft202012Validator:
    return _validator(_named(schema), _closed(SCHEMAS))


def check(schema: str, value: Any) -> None:
    """Assert that a schema describes an answer to its last field."""
    wrong = [f"{error.instance_path}: {error.message}" for error in _answer(schema).iter_errors(value)]
    assert not wrong, f"{wrong} in {json.dumps(value)[:1000]}"


def check_stream(stream: str) -> list[Any]:
    """Assert that a stream is what the document describes; its events' JSON."""
    *blocks, done, end = stream.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    events = [json.loads(block.removeprefix("data: ")) for block in blocks if not block.startswith(":")]
    for event in events:
        check("ErrorEvent" if "error" in event else "ChatCompletionChunk", event)
    assert not any("error" in event for event in events[:-1])
    return events

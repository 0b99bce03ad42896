"""The way of one request: which backend gets it, in which words, and how the answer has to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from extproc.config import Config, Model
from extproc.openai.errors import invalid_request, model_not_found
from extproc.openai.parameters import FORWARDED
from extproc.openai.request import ChatRequest, read_request
from extproc.tools import render_conversation


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """How the model's text becomes the answer that the client expects."""

    format: str
    tools: list[dict[str, Any]]
    parallel_tool_calls: bool
    include_usage: bool
    """The client asked for the usage chunk of a stream (the backend always is)."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request, ready for its backend."""

    model: str
    """The model as the client named it."""
    backend: str
    body: bytes | None
    """The body to send instead of the client's; None sends the client's own bytes."""
    answer: AnswerPlan | None
    """None: the answer goes to the client as it comes."""


def prepare(body: bytes, config: Config) -> Prepared:
    """Read a request and decide. Raises ApiError for a request that can't be served."""
    request = read_request(body)
    model = config.models_by_name.get(request.model)
    if model is None:
        raise model_not_found(request.model, config.models_by_name)
    if not request.tools and not request.has_tool_history:
        return Prepared(model.name, model.backend, _renamed(request, model), None)
    _encoded(request.fields)  # what can't be encoded can't be rendered either
    fields = {name: value for name, value in request.fields.items() if name in FORWARDED}
    fields["model"] = model.upstream_name
    fields["messages"] = render_conversation(request)
    answer = None
    if request.offers_tools:
        if request.stream:
            fields["stream_options"] = {**(fields.get("stream_options") or {}), "include_usage": True}
        # vLLM removes special tokens from the text unless told otherwise, and a format's markers may be such.
        fields |= {"skip_special_tokens": False, "spaces_between_special_tokens": False}
        answer = AnswerPlan(model.format, request.tools, request.parallel_tool_calls, request.include_usage)
    return Prepared(model.name, model.backend, _encoded(fields), answer)


def _renamed(request: ChatRequest, model: Model) -> bytes | None:
    if model.upstream_name == request.model:
        return None
    return _encoded({**request.fields, "model": model.upstream_name})


def _encoded(fields: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(fields)
    except orjson.JSONEncodeError:  # what was decoded can't fail for another reason
        raise invalid_request(
            "The request is nested too deeply: send at most 250 levels.", code="invalid_json"
        ) from None

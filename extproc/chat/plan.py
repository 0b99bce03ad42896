"""The way of one request: which backend gets it, in which words, and how the answer has to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.config import Config, InvalidCalls, Model
from extproc.openai.errors import ApiError, model_not_found
from extproc.openai.json_body import decode, encode
from extproc.openai.parameters import split
from extproc.openai.request import Rules, model_problems, problems, read_request
from extproc.tools import render_conversation

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """How the model's answer becomes the answer that the client expects."""

    format: str
    tools: list[Json]
    parallel_tool_calls: bool
    include_usage: bool
    """The client asked for the usage chunk of a stream (the backend always is)."""
    invalid_calls: InvalidCalls = "pass"
    legacy: bool = False
    """The client speaks of functions, not of tools: it gets `function_call`."""


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
    dropped: tuple[str, ...] = ()
    """The parameters that the backend doesn't get, in alphabetical order."""
    repaired: int = 0
    """How many malformed arguments of earlier turns were mended."""


def prepare(body: bytes, config: Config) -> Prepared:
    """Read a request and decide. Raises ApiError for a request that can't be served."""
    fields = decode(body)
    for problem in model_problems(fields):
        raise problem
    model = config.models_by_name.get(fields["model"])
    if model is None:
        raise model_not_found(fields["model"], config.models_by_name)
    request = read_request(fields, _rules(model))
    backend = config.backends_by_name[model.backend]
    forwarded, dropped = split(fields, backend.parameters)
    forwarded["model"] = model.upstream_name
    if not request.tools and not request.has_tool_history:
        return Prepared(model.name, backend.name, None if forwarded == fields else encode(forwarded), None, dropped)
    forwarded["messages"] = render_conversation(request)
    answer = None
    if request.offers_tools:
        if request.stream:
            forwarded["stream_options"] = {**(fields.get("stream_options") or {}), "include_usage": True}
        # vLLM removes special tokens from the text unless told otherwise, and a format's markers may be such.
        forwarded |= {"skip_special_tokens": False, "spaces_between_special_tokens": False}
        answer = AnswerPlan(
            model.format,
            request.tools,
            request.parallel_tool_calls,
            request.include_usage,
            model.invalid_calls,
            request.legacy,
        )
    return Prepared(model.name, backend.name, encode(forwarded), answer, dropped, request.repaired)


def find_problems(body: bytes, config: Config) -> list[ApiError]:
    """Everything that is wrong with a request, in the contract's order; `prepare` raises the first."""
    try:
        fields = decode(body)
    except ApiError as error:
        return [error]
    name = fields.get("model")
    model = config.models_by_name.get(name) if isinstance(name, str) else None
    found = list(problems(fields, _rules(model) if model is not None else Rules()))
    if model is None and isinstance(name, str) and name:
        found.insert(0, model_not_found(name, config.models_by_name))
    return found


def _rules(model: Model) -> Rules:
    return Rules(malformed_history=model.malformed_history, parallel_strict_calls=model.parallel_strict_calls)

"""A chat completion request, checked whole and brought into one form.

`problems` finds everything that is wrong with a request, in an order that depends on nothing but the contract: model,
messages, tools, choices, parameters. `read_request` raises the first of them, or returns a `ChatRequest`, in which
legacy functions have become tools and malformed arguments of earlier turns have been dealt with.
Source: OpenAI's reference of chat completions, and what vLLM 0.32 takes besides (docs/openapi.yaml,
docs/parameters.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.openai.choice import ToolChoice, choice_problems, read_choice
from extproc.openai.definitions import definition_problems, offered
from extproc.openai.errors import ApiError, invalid_request, invalid_type, invalid_value, missing_parameter
from extproc.openai.history import ArgumentReader, History, normalised
from extproc.openai.media_urls import MediaUrls
from extproc.openai.messages import PartRules, message_problems
from extproc.openai.parameters import parameter_problems, with_integers
from extproc.openai.withheld import refusals, without

Json: TypeAlias = dict[str, Any]

MOST_FIELDS = 1000
"""OpenAI and vLLM together know a hundred."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What of the contract depends on the model, and on what clients are trusted with."""

    malformed_history: History = "repair"
    withheld: Set[str] = frozenset()
    """What the backend doesn't get (`extproc.openai.withheld`)."""
    media_urls: MediaUrls = "any"


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a client asked for. `fields` is the request object as sent, the very same unless integers in it were written
    as 10.0, or something is withheld from the backend: `withheld` has the names of that. The rest is read from it."""

    fields: Json
    messages: list[Json]
    """No legacy forms: calls are `tool_calls`, results are of role tool. Its objects may be those of `fields`."""
    offered: list[Json]
    """All the tools of the request, as OpenAI tool definitions."""
    tools: list[Json]
    """Those of them that the model may call."""
    tool_choice: ToolChoice
    parallel_tool_calls: bool
    stream: bool
    include_usage: bool
    """The client wants the usage chunk of a stream."""
    legacy: bool
    """The client speaks of functions: it doesn't know tool calls."""
    repaired: int
    """How many malformed arguments of earlier turns were mended."""
    withheld: tuple[str, ...] = ()

    @property
    def offers_tools(self) -> bool:
        """Whether the model may answer with calls."""
        return bool(self.tools) and self.tool_choice != "none"

    @property
    def text_schema(self) -> Json | None:
        """What `response_format` asks of the answer's text; an empty schema for any JSON object."""
        match self.fields.get("response_format"):
            case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
                return schema
            case {"type": "json_schema" | "json_object"}:
                return {}
            case _:
                return None

    @property
    def has_tool_history(self) -> bool:
        """Whether earlier turns hold calls or results."""
        return _has_tool_history(self.messages)


def problems(fields: Json, rules: Rules, reader: ArgumentReader | None = None) -> Iterator[ApiError]:
    """Everything that is wrong with a request, in a stable order. `reader` is for arguments of earlier turns."""
    reader = reader or ArgumentReader(rules.malformed_history)
    yield from model_problems(fields)
    yield from refusals(fields, rules.withheld)
    yield from message_problems(fields, reader, PartRules(rules.withheld, rules.media_urls))
    yield from definition_problems(fields)
    yield from choice_problems(fields)
    yield from parameter_problems(fields)


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


def read_request(fields: Json, rules: Rules) -> ChatRequest:
    """Read the decoded body of `POST /v1/chat/completions`. Raises ApiError (400)."""
    reader = ArgumentReader(rules.malformed_history)
    for problem in problems(fields, rules, reader):
        raise problem
    fields, withheld = without(with_integers(fields), rules.withheld)
    tools = offered(fields)
    tool_choice, allowed = read_choice(fields, tools)
    messages, repaired = normalised(fields["messages"], reader)
    return ChatRequest(
        fields=fields,
        messages=messages,
        offered=tools,
        tools=allowed,
        tool_choice=tool_choice,
        parallel_tool_calls=fields.get("parallel_tool_calls") is not False,
        stream=bool(fields.get("stream")),
        include_usage=bool((fields.get("stream_options") or {}).get("include_usage")),
        legacy=bool(fields.get("functions")),
        repaired=repaired,
        withheld=withheld,
    )


def _has_tool_history(messages: list[Json]) -> bool:
    return any(
        message["role"] in ("tool", "function") or message.get("tool_calls") or message.get("function_call")
        for message in messages
    )

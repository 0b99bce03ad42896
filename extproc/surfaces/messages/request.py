"""A Messages request, checked whole and read as a turn.

What Anthropic has and vLLM hasn't is checked where it says something about the answer, and dropped and named otherwise;
a parameter that nobody knows is dropped and named too, as in chat completions. Sources: Anthropic's API reference,
"messages" and "count tokens"; what Claude Code and Anthropic's SDKs were seen to send (docs/messages.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from extproc.contract.checks import ArrayOf, Boolean, Check, Integer, Number, Object, OneOf, Text
from extproc.contract.errors import ApiError, invalid_value, missing_parameter
from extproc.contract.model_name import model_problems
from extproc.contract.parameters import parameter_problems
from extproc.contract.rules import Rules
from extproc.surfaces.messages.content import Conversation, content_problems
from extproc.surfaces.messages.tools import Tools, choice_problems, read_choice, read_tools, tool_problems
from extproc.turn.turn import Turn

Json: TypeAlias = dict[str, Any]

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_THINKING = ("enabled", "disabled", "adaptive")

PARAMETERS: Mapping[str, Check] = {
    "max_tokens": Integer(1),
    "stop_sequences": ArrayOf(Text(), "strings"),
    "stream": Boolean(),
    "temperature": Number(0, 2),
    "top_k": Integer(-1),
    "top_p": Number(0, 1),
    "thinking": Object(),
    "output_config": Object(),
    "output_format": Object(),
    "metadata": Object(),
}
"""What is checked of the other parameters."""

_SAME = ("max_tokens", "stream", "temperature", "top_k", "top_p")
_READ = frozenset(
    {*PARAMETERS, "model", "messages", "system", "tools", "tool_choice", "metadata", "cache_control", "betas"}
)
"""What has been read, or means nothing to an answer."""


def problems(fields: Json, rules: Rules) -> Iterator[ApiError]:
    """Everything that is wrong with a request, in a stable order."""
    yield from _asked(fields, rules)
    yield from length_problems(fields)


def counting_problems(fields: Json, rules: Rules) -> Iterator[ApiError]:
    """The same of a request to count tokens, which asks for no answer."""
    yield from _asked(fields, rules)


def _asked(fields: Json, rules: Rules) -> Iterator[ApiError]:
    yield from model_problems(fields)
    yield from content_problems(fields, rules)
    yield from tool_problems(fields)
    yield from choice_problems(fields)
    yield from other_problems(fields)


def length_problems(fields: Json) -> Iterator[ApiError]:
    """What is wrong with a request that doesn't say how long the answer may be."""
    if fields.get("max_tokens") is None:
        yield missing_parameter("max_tokens", "Send the most tokens that the answer may have.")


def other_problems(fields: Json) -> Iterator[ApiError]:
    """What is wrong besides the model, the conversation and the tools."""
    for name, check in PARAMETERS.items():
        if (value := fields.get(name)) is not None:
            yield from check.problems(value, name)
    yield from _thinking_problems(fields.get("thinking"))
    yield from _output_problems(fields)


def _thinking_problems(thinking: Any) -> Iterator[ApiError]:
    if not isinstance(thinking, dict):
        return
    if (display := thinking.get("display")) is not None:
        yield from OneOf(("summarized", "omitted")).problems(display, "thinking.display")
    if not isinstance(thinking.get("type"), str) or thinking["type"] not in _THINKING:
        yield invalid_value("thinking.type", f"expected one of {', '.join(_THINKING)}.")
    if (budget := thinking.get("budget_tokens")) is not None:
        yield from Integer(0).problems(budget, "thinking.budget_tokens")
    elif thinking.get("type") == "enabled":
        yield missing_parameter("thinking.budget_tokens", "Send the most tokens that the model may think.")


def _output_problems(fields: Json) -> Iterator[ApiError]:
    config = fields.get("output_config")
    if isinstance(config, dict) and (effort := config.get("effort")) is not None:
        yield from OneOf(_EFFORTS).problems(effort, "output_config.effort")
    place, wanted = _format(fields)
    if wanted is None:
        return
    if not isinstance(wanted, dict) or wanted.get("type") != "json_schema":
        yield invalid_value(place, "expected an object with 'type': 'json_schema' and a 'schema'.")
    elif not isinstance(wanted.get("schema"), dict):
        yield missing_parameter(f"{place}.schema", "Expected a JSON Schema object.")
    else:
        for problem in parameter_problems(_response_format(wanted["schema"])):
            yield invalid_value(f"{place}.schema", problem.message.partition(": ")[2] or problem.message)


def _format(fields: Json) -> tuple[str, Any]:
    """Where the form of the answer's text is asked for, and what is asked."""
    config = fields.get("output_config")
    if isinstance(config, dict) and config.get("format") is not None:
        return "output_config.format", config["format"]
    return "output_format", fields.get("output_format")


def _response_format(schema: Json) -> Json:
    inner = {"name": "answer", "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": inner}}


def read(fields: Json, rules: Rules) -> Turn:
    """Read the decoded body of `POST /v1/messages`. Raises ApiError (400)."""
    for problem in problems(fields, rules):
        raise problem
    return _turn(fields)


def read_counting(fields: Json, rules: Rules) -> Turn:
    """Read the decoded body of `POST /v1/messages/count_tokens`. Raises ApiError (400)."""
    for problem in counting_problems(fields, rules):
        raise problem
    return replace(_turn(fields), stream=False, counts=True)


def _turn(fields: Json) -> Turn:
    conversation = Conversation(fields)
    messages = [made for message in fields["messages"] for made in conversation.add(message)]
    messages += conversation.rest()
    if conversation.is_empty:
        raise invalid_value("messages", "nothing of it can be shown to a model here. Send a user's words.")
    return turn_of(fields, conversation, messages, read_tools(fields))


def turn_of(fields: Json, conversation: Conversation, messages: Sequence[Json], offered: Tools) -> Turn:
    """The turn of a valid request, given its conversation, and its tools, as the house has them."""
    tools = offered.definitions
    choice, parallel = read_choice(fields, tools)
    unknown = [name for name, value in fields.items() if name not in _READ and value is not None]
    left_out = [*(f"messages.{kind}" for kind in sorted(conversation.left_out)), *_beyond(fields)]
    if (fields.get("thinking") or {}).get("budget_tokens") is not None:
        # vLLM refuses a budget unless it was started with the tokens that end this model's thinking.
        left_out.append("thinking.budget_tokens")
    return Turn(
        messages=messages,
        offered=tools,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        parameters=_parameters(fields),
        stream=bool(fields.get("stream")),
        include_usage=True,
        dialect="messages",
        withheld=(*unknown, *offered.kept_back, *left_out),
        explicit=frozenset({"tool_choice"} if fields.get("tool_choice") is not None and tools else ()),
        places=offered.places,
        begun=conversation.begun,
        thinks=_thinks(fields.get("thinking")),
        shows_thinking=_shows_thinking(fields.get("thinking")),
        stop=tuple(fields.get("stop_sequences") or ()),
    )


def _thinks(thinking: Json | None) -> bool | None:
    return {"enabled": True, "disabled": False}.get(thinking["type"]) if thinking is not None else None


_MEMBERS = {"output_config": {"effort", "format"}, "thinking": {"type", "budget_tokens", "display"}}
_MEMBERS["tool_choice"] = {"type", "name", "disable_parallel_tool_use"}
"""What of these objects is read."""


def _beyond(fields: Json) -> list[str]:
    """The members that nobody here knows, and what another one says already."""
    found = [
        f"{outer}.{name}" for outer, known in _MEMBERS.items() for name in fields.get(outer) or () if name not in known
    ]
    if fields.get("output_format") is not None and _format(fields)[0] != "output_format":
        found.append("output_format")
    return found


def _shows_thinking(thinking: Json | None) -> bool:
    return thinking is None or (thinking["type"] != "disabled" and thinking.get("display") != "omitted")


def _parameters(fields: Json) -> Json:
    """By vLLM's names."""
    parameters = {name: PARAMETERS[name].read(fields[name]) for name in _SAME if fields.get(name) is not None}
    if stop := fields.get("stop_sequences"):
        parameters["stop"] = stop
    thinking = fields.get("thinking") or {}
    if thinking.get("type") in ("enabled", "disabled"):
        # The switches of the chat templates that have one: Qwen's and GLM's, and DeepSeek's and Granite's.
        on = thinking["type"] == "enabled"
        parameters["chat_template_kwargs"] = {"enable_thinking": on, "thinking": on}
    if effort := (fields.get("output_config") or {}).get("effort"):
        parameters["reasoning_effort"] = effort
    _, wanted = _format(fields)
    if wanted is not None:
        parameters |= _response_format(wanted["schema"])
    return parameters

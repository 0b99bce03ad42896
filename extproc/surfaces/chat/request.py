"""A chat completion request, checked whole and read as a turn.

`problems` finds everything that is wrong with a request, in an order that depends on nothing but the contract: model,
messages, tools, choices, parameters. `read` raises the first of them, or returns the turn, in which legacy functions
have become tools and malformed arguments of earlier turns have been dealt with.
Source: OpenAI's reference of chat completions, and what vLLM 0.32 takes besides (docs/openapi.yaml,
docs/parameters.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from extproc.contract.errors import ApiError
from extproc.contract.history import ArgumentReader
from extproc.contract.model_name import model_problems
from extproc.contract.parameters import TOOL_PARAMETERS, parameter_problems, with_integers
from extproc.contract.rules import Rules
from extproc.contract.withheld import refusals, without
from extproc.surfaces.chat.choice import choice_problems, read_choice
from extproc.surfaces.chat.definitions import definition_problems, offered
from extproc.surfaces.chat.messages import PartRules, message_problems
from extproc.surfaces.chat.normalising import normalised
from extproc.turn.turn import Turn

Json: TypeAlias = dict[str, Any]


def problems(fields: Json, rules: Rules, reader: ArgumentReader | None = None) -> Iterator[ApiError]:
    """Everything that is wrong with a request, in a stable order. `reader` is for arguments of earlier turns."""
    reader = reader or rules.argument_reader()
    yield from model_problems(fields)
    yield from refusals(fields, rules.withheld)
    yield from message_problems(fields, reader, PartRules(rules.withheld, rules.media_urls))
    yield from definition_problems(fields)
    yield from choice_problems(fields)
    yield from parameter_problems(fields)


def read(fields: Json, rules: Rules) -> Turn:
    """Read the decoded body of `POST /v1/chat/completions`. Raises ApiError (400)."""
    reader = rules.argument_reader()
    for problem in problems(fields, rules, reader):
        raise problem
    return turn_of(fields, rules, *normalised(fields["messages"], reader))


def turn_of(fields: Json, rules: Rules, messages: Sequence[Json], repaired: int) -> Turn:
    """The turn of a valid request, given its messages in the one form that is rendered."""
    given, withheld = without(with_integers(fields), rules.withheld)
    tools = offered(given)
    tool_choice, allowed = read_choice(given, tools)
    legacy = bool(given.get("functions"))
    place = "functions[{}].name" if legacy else "tools[{}].function.name"
    return Turn(
        messages=messages,
        offered=tools,
        tools=allowed,
        tool_choice=tool_choice,
        parallel_tool_calls=given.get("parallel_tool_calls") is not False,
        parameters={name: value for name, value in given.items() if name not in _OWN},
        stream=bool(given.get("stream")),
        include_usage=bool((given.get("stream_options") or {}).get("include_usage")),
        legacy=legacy,
        repaired=repaired,
        withheld=withheld,
        begun=given.get("continue_final_message") is True and messages[-1]["role"] == "assistant",
        explicit=frozenset(name for name in ("tool_choice", "parallel_tool_calls") if given.get(name) is not None),
        places=[place.format(index) for index in range(len(tools))],
        tools_place="functions" if legacy else "tools",
        as_sent=fields if given is fields else None,
    )


_OWN = TOOL_PARAMETERS | {"model", "messages"}

"""A Responses request, checked whole and read as a turn.

The gateway keeps nothing between requests: whatever needs a memory (`previous_response_id`, `conversation`,
`background`, references) is refused with the way out, but for `store: true`, which is OpenAI's default and is answered
by `store: false`. What changes no answer is dropped and named. Sources: OpenAI's API reference, "responses"; what
Codex, OpenAI's agents and the AI SDK were seen to send (docs/responses.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from extproc.contract.checks import ArrayOf, Boolean, Check, Integer, MapOf, Number, Object, OneOf, Text
from extproc.contract.errors import ApiError, invalid_request, invalid_type, invalid_value
from extproc.contract.history import ArgumentReader
from extproc.contract.model_name import model_problems
from extproc.contract.parameters import parameter_problems
from extproc.contract.rules import Rules
from extproc.surfaces.responses.content import FORGETFUL, input_problems
from extproc.surfaces.responses.conversation import Conversation
from extproc.surfaces.responses.tools import Tools, choice_problems, read_choice, read_tools, tool_problems
from extproc.turn.turn import Turn

Json: TypeAlias = dict[str, Any]

_NO_EFFORT = "none"
_EFFORTS = (_NO_EFFORT, "minimal", "low", "medium", "high", "xhigh", "max")

PARAMETERS: Mapping[str, Check] = {
    "background": Boolean(),
    "client_metadata": Object(),
    "include": ArrayOf(Text(), "strings"),
    "max_output_tokens": Integer(1),
    "max_tool_calls": Integer(1),
    "metadata": MapOf(Text(longest=512), name=Text(longest=64), most=16),
    "parallel_tool_calls": Boolean(),
    "prompt_cache_key": Text(),
    "reasoning": Object({"effort": OneOf(_EFFORTS), "summary": Text()}),
    "safety_identifier": Text(),
    "service_tier": Text(),
    "store": Boolean(),
    "stream": Boolean(),
    "stream_options": Object({"include_obfuscation": Boolean()}),
    "temperature": Number(0, 2),
    "text": Object({"verbosity": Text()}),
    "top_logprobs": Integer(0, 20),
    "top_p": Number(0, 1),
    "truncation": OneOf(("auto", "disabled")),
    "user": Text(),
}
"""What is checked of the other parameters."""

_SAME = ("stream", "temperature", "top_p", "user")
_OF_CALLS = ("tool_choice", "parallel_tool_calls")
_CONVERSATION = (
    "Send the whole conversation as 'input', or put vLLM's agentic-api in front, which keeps conversations "
    "(docs/responses.md)."
)
_MEMORY = {
    "previous_response_id": _CONVERSATION,
    "conversation": _CONVERSATION,
    "prompt": "Send what the prompt says, as 'instructions' and 'input'.",
}
"""What needs a memory, and the way out. There is none for a prompt in agentic-api, which leaves it out."""
_READ = frozenset(
    {
        *("model", "input", "instructions", "tools", "tool_choice", "stream", "stream_options", "temperature", "top_p"),
        *("max_output_tokens", "parallel_tool_calls", "reasoning", "text", "user", "metadata", "store", "background"),
        *("prompt_cache_key", "client_metadata", "safety_identifier", "include", "truncation"),
        *_MEMORY,
    }
)
"""What has been read, or means nothing to an answer."""
_READ_INSIDE = {"reasoning": ("effort",), "text": ("format",), "stream_options": ("include_obfuscation",)}
"""The same of their members. Obfuscation is padding, and no answer has any."""
_INCLUDED = "reasoning.encrypted_content"
"""What a client asks for to keep the reasoning itself: it gets that as text."""
_ASKED_AS = {
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
}
"""What clients call parameters of vLLM's."""


def problems(fields: Json, rules: Rules, reader: ArgumentReader | None = None) -> Iterator[ApiError]:
    """Everything that is wrong with a request, in a stable order. `reader` is for arguments of earlier turns."""
    yield from model_problems(fields)
    yield from memory_problems(fields)
    yield from input_problems(fields, reader or rules.argument_reader(), rules.media_urls)
    yield from tool_problems(fields)
    yield from choice_problems(fields)
    yield from other_problems(fields)


def memory_problems(fields: Json) -> Iterator[ApiError]:
    """Whatever needs what was said in earlier requests."""
    for name, way_out in _MEMORY.items():
        if fields.get(name) is not None:
            message = f"'{name}' can't be followed: {FORGETFUL} {way_out}"
            yield invalid_request(message, name, "unsupported_parameter")
    if fields.get("background") is True:
        message = f"'background' can't be true: {FORGETFUL} Leave it out, and wait for the answer: best as a stream."
        yield invalid_request(message, "background", "unsupported_parameter")


def other_problems(fields: Json) -> Iterator[ApiError]:
    """What is wrong besides the model, the conversation and the tools."""
    for name, check in PARAMETERS.items():
        if (value := fields.get(name)) is not None:
            yield from check.problems(value, name)
    if fields.get("truncation") == "auto":
        yield invalid_value("truncation", "nothing is left out of a conversation here; send 'disabled'.")
    yield from _format_problems(fields.get("text"))


def _format_problems(text: Any) -> Iterator[ApiError]:
    wanted = text.get("format") if isinstance(text, dict) else None
    if wanted is None:
        return
    if not isinstance(wanted, dict):
        yield invalid_type("text.format", "an object with a 'type'", wanted)
        return
    kind = wanted.get("type")
    if not isinstance(kind, str) or kind not in ("text", "json_object", "json_schema"):
        yield invalid_value("text.format.type", "expected one of text, json_object, json_schema.")
    else:
        for problem in parameter_problems({"response_format": _response_format(wanted)}):
            yield invalid_request(_in_place(problem.message), _in_place(problem.param or ""), problem.code)


def _in_place(words: str) -> str:
    """By the names of this dialect."""
    return words.replace("response_format.json_schema", "text.format").replace("response_format", "text.format")


def _response_format(wanted: Json) -> Json:
    if wanted["type"] != "json_schema":
        return {"type": wanted["type"]}
    inner = {name: value for name, value in wanted.items() if name != "type" and value is not None}
    return {"type": "json_schema", "json_schema": inner}


def read(fields: Json, rules: Rules) -> Turn:
    """Read the decoded body of `POST /v1/responses`. Raises ApiError (400)."""
    reader = rules.argument_reader()
    for problem in problems(fields, rules, reader):
        raise problem
    conversation = Conversation(fields, reader)
    items = fields["input"]
    items = [{"role": "user", "content": items}] if isinstance(items, str) else items
    messages = [made for item in items for made in conversation.add(item)]
    return turn_of(fields, conversation, messages + conversation.rest(), read_tools(fields))


def turn_of(fields: Json, conversation: Conversation, messages: Sequence[Json], offered: Tools) -> Turn:
    """The turn of a valid request, given its conversation, and its tools, as the house has them."""
    tools = offered.definitions
    choice, allowed = read_choice(fields, tools)
    left_out = [f"input.{kind}" for kind in sorted(conversation.left_out)]
    return Turn(
        messages=messages,
        offered=tools,
        tools=allowed,
        tool_choice=choice,
        parallel_tool_calls=fields.get("parallel_tool_calls") is not False,
        parameters=_parameters(fields),
        stream=bool(fields.get("stream")),
        include_usage=True,
        dialect="responses",
        repaired=conversation.repaired,
        withheld=(*_unread(fields), *offered.kept_back, *left_out),
        explicit=frozenset(
            name for name in ("tool_choice", "parallel_tool_calls") if tools and fields.get(name) is not None
        ),
        names=offered.names,
        thinks=False if (fields.get("reasoning") or {}).get("effort") == _NO_EFFORT else None,
        echo=_echo(fields, offered),
        asked_as=_ASKED_AS,
        places=offered.places,
    )


def _unread(fields: Json) -> Iterator[str]:
    """What a valid request asks for and nobody reads."""
    yield from (name for name, value in fields.items() if name not in _READ and value is not None)
    for name, read_of_it in _READ_INSIDE.items():
        members = fields.get(name) or {}
        yield from (f"{name}.{inner}" for inner in members if inner not in read_of_it and members[inner] is not None)
    yield from (f"include.{what}" for what in fields.get("include") or () if what != _INCLUDED)


def _parameters(fields: Json) -> Json:
    """By vLLM's names."""
    parameters = {name: PARAMETERS[name].read(fields[name]) for name in _SAME if fields.get(name) is not None}
    if (most := fields.get("max_output_tokens")) is not None:
        parameters["max_completion_tokens"] = int(most)
    if effort := (fields.get("reasoning") or {}).get("effort"):
        parameters["reasoning_effort"] = effort
        if effort == _NO_EFFORT:
            # Many chat templates know no effort, but a switch of one of these names.
            parameters["chat_template_kwargs"] = {"enable_thinking": False, "thinking": False}
    wanted = (fields.get("text") or {}).get("format") or {"type": "text"}
    if wanted["type"] != "text":
        parameters["response_format"] = _response_format(wanted)
    return parameters


def _echo(fields: Json, offered: Tools) -> Json:
    """What an answer says of its request."""
    reasoning = fields.get("reasoning") or {}
    return {
        "background": False,
        "instructions": fields.get("instructions"),
        "max_output_tokens": fields.get("max_output_tokens"),
        "metadata": fields.get("metadata") or {},
        "parallel_tool_calls": fields.get("parallel_tool_calls") is not False,
        "previous_response_id": None,
        "reasoning": {"effort": reasoning.get("effort"), "summary": None},
        "store": False,
        "temperature": fields.get("temperature"),
        "text": {"format": (fields.get("text") or {}).get("format") or {"type": "text"}},
        "tool_choice": fields.get("tool_choice") or "auto",
        "tools": offered.shown,
        "top_p": fields.get("top_p"),
        "truncation": "disabled",
        "user": fields.get("user"),
    }

"""A conversation and its tools as they go to a chat template: what isn't the operator's, escaped.

A template writes what it is given between control tokens, and the backend's tokenizer makes control tokens of all that
are spelled out, whoever spelled them. System prompts are the client's own and stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from extproc.prompts.escaping import Escaper

Json: TypeAlias = dict[str, Any]

_OPERATORS = ("system", "developer")
_WORDS = ("content", "name", "reasoning", "reasoning_content", "refusal")


def escaped_messages(messages: Sequence[Json], escaper: Escaper) -> list[Json]:
    """The messages as a template may show them; what spells no marker is the very same object."""
    return [message if message["role"] in _OPERATORS else _message(message, escaper) for message in messages]


def _message(message: Json, escaper: Escaper) -> Json:
    escape = escaper.spoken if message["role"] == "assistant" else escaper.text
    changed: Json = {}
    for field in _WORDS:
        said = message.get(field)
        if isinstance(said, str):
            changed[field] = escape(said)
        elif isinstance(said, list):
            changed[field] = _parts(said, escaper)
    if message.get("tool_calls"):
        changed["tool_calls"] = [_call(call, escaper) for call in message["tool_calls"]]
    return {**message, **changed} if any(changed[field] != message[field] for field in changed) else message


def _parts(parts: list[Any], escaper: Escaper) -> list[Any]:
    """The parts of a content; what is no text stays."""
    places = [
        (number, key)
        for number, part in enumerate(parts)
        if isinstance(part, dict)
        for key in ("text", "refusal")
        if isinstance(part.get(key), str)
    ]
    escaped = list(parts)
    for (number, key), text in zip(places, escaper.parts([parts[at][key] for at, key in places]), strict=True):
        escaped[number] = {**escaped[number], key: text}
    return escaped


def _call(call: Json, escaper: Escaper) -> Json:
    function = call["function"]
    escaped = {"name": escaper.text(function["name"]), "arguments": escaper.decoded(function["arguments"])}
    return {**call, "function": {**function, **escaped}}


def escaped_tools(tools: Sequence[Json], escaper: Escaper) -> list[Json]:
    """The tools, all of whose strings a template may show."""
    return [{**tool, "function": escaper.value(tool["function"])} for tool in tools]

"""The calls of a whole answer, in the dialect of the path that was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """`arguments` is what its JSON says, None if it isn't JSON."""

    name: str
    arguments: Any


def calls(path: str, answer: Mapping[str, Any]) -> list[Call]:
    """In the order in which the client gets them."""
    return [Call(name, arguments) for name, arguments in _READERS[path](answer)]


def prompt_tokens(answer: Mapping[str, Any]) -> int:
    """As the answer counts them, those of the cache as well."""
    usage = answer.get("usage") or {}
    cached = usage.get("cache_read_input_tokens") or 0  # Messages counts them by themselves
    return int(usage.get("prompt_tokens") or (usage.get("input_tokens") or 0) + cached)


def schemas(path: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the functions that a request offers, by name."""
    found = {}
    for tool in request["tools"]:
        function = tool["function"] if path == "/v1/chat/completions" else tool
        if "name" in function:
            found[str(function["name"])] = function.get("parameters", function.get("input_schema")) or {}
    return found


_Pairs = Iterator[tuple[str, Any]]


def _chat(answer: Mapping[str, Any]) -> _Pairs:
    for call in answer["choices"][0]["message"].get("tool_calls") or []:
        yield call["function"]["name"], _value(call["function"]["arguments"])


def _messages(answer: Mapping[str, Any]) -> _Pairs:
    for block in answer["content"]:
        if block["type"] == "tool_use":
            yield block["name"], block["input"]


def _responses(answer: Mapping[str, Any]) -> _Pairs:
    for item in answer["output"]:
        if item["type"] == "function_call":
            yield item["name"], _value(item["arguments"])


_READERS = {"/v1/chat/completions": _chat, "/v1/messages": _messages, "/v1/responses": _responses}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None

"""How the small built-in model understands its prompt: turns of text in, a `Situation` out.

A real model reads whatever it is given. This one has to look for marks, and all the marks are in this file and in
`signatures`: the tools, results that come back in a user turn, and a demand to call. It is tolerant of
the words around them, so that the prompt may be reworded without touching the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripted_vllm.signatures import signatures
from scripted_vllm.template import Turn

_TOOLS = re.compile(r"<tools>(.*?)</tools>", re.DOTALL)
_RESULT = re.compile(
    r"^The tool [`'\"]?(?P<name>[^\s`'\"]+)[`'\"]? returned:?"
    r"(?:\n(?P<fence>`{3,})\n(?P<fenced>.*?)\n(?P=fence)$|(?P<text>.*?)(?=^The tool \S+ returned|^Continue\.$|\Z))"
    r"|<tool_response>(?P<tagged>.*?)</tool_response>",
    re.DOTALL | re.MULTILINE,
)
_GO_ON = re.compile(r"^Continue\.$", re.MULTILINE)
_DEMAND = re.compile(r"^You must call (?:the tool [`'\"]?(?P<name>[^\s`'\"]+)|one of the tools).*$", re.MULTILINE)
_SURROUNDINGS = re.compile(
    r"<(?P<tag>environment_details|environment_context|system-reminder)>.*?</(?P=tag)>|</?[a-z_]+>", re.DOTALL
)
"""Cline, Codex and Claude Code wrap what the user said in tags, and add what is around it: in this order."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the prompt describes it."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool returned; the name is unknown when the prompt doesn't say it."""

    name: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Situation:
    """All that the model goes by."""

    tools: Sequence[Tool]
    request: str
    """What the user last asked for."""
    results: Sequence[Result]
    """Results that came after the request, and wait to be used."""
    must_call: bool
    demanded: str | None
    """The tool that must be called, if it must be a certain one."""


def understand(turns: Sequence[Turn]) -> Situation:
    """Read the prompt. The last user turn counts; if it only brings results, the request is in an earlier one."""
    asked = [turn.text for turn in turns if turn.role not in ("system", "developer", "assistant")]
    last = asked[-1] if asked and turns[-1].role != "assistant" else ""
    demand = _DEMAND.search(last)
    results = list(_results(last))
    request = _request(last)
    return Situation(
        tools=[tool for turn in turns if turn.role in ("system", "developer") for tool in _tools(turn.text)],
        request=request or next(filter(None, map(_request, reversed(asked))), ""),
        results=() if request else results,
        must_call=demand is not None,
        demanded=demand and demand["name"],
    )


def _tools(text: str) -> Iterator[Tool]:
    """Tools that are shown with their parameters, and those that a chat template lists as definitions."""
    for shown in signatures(text):
        yield Tool(name=shown.name, description=shown.description, parameters=shown.parameters)
    for block in _TOOLS.finditer(text):
        for line in block[1].splitlines():
            definition = _object(line)
            function = definition.get("function", definition)
            if isinstance(function, dict) and isinstance(function.get("name"), str):
                schema = function.get("parameters")
                yield Tool(
                    name=function["name"],
                    description=str(function.get("description") or ""),
                    parameters=_schema(schema),
                )


def _schema(value: Any) -> dict[str, Any]:
    """The schema if the model can make sense of it, else one without parameters."""
    return value if isinstance(value, dict) and isinstance(value.get("properties", {}), dict) else {}


def _object(text: str) -> dict[str, Any]:
    """The JSON object that the text is; an empty one when it is none."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _results(text: str) -> Iterator[Result]:
    for found in _RESULT.finditer(text):
        yield Result(found["name"], (found["fenced"] or found["text"] or found["tagged"] or "").strip())


def _request(text: str) -> str:
    """What is left of a user turn without results and demands."""
    for mark in (_RESULT, _GO_ON, _DEMAND, _SURROUNDINGS):
        text = mark.sub("", text)
    return text.strip()

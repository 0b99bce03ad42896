"""Renders a conversation with tools as one without: system, user and assistant turns that hold nothing but text.

Tools go into the system prompt, calls into the assistant's text, results into user turns. Neighbouring turns of
one role become one turn, because many chat templates insist that user and assistant alternate.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.openai.choice import NamedTool
from extproc.openai.request import ChatRequest
from extproc.tools import wording

Message: TypeAlias = dict[str, Any]


def render_conversation(request: ChatRequest) -> list[Message]:
    """The messages that a model without tool calling understands; the request's content is text."""
    turns = _turns(request.messages)
    if request.offers_tools:
        _instruct(turns, wording.tool_instructions(request.tools))
        match request.tool_choice:
            case NamedTool(name):
                _add(turns, "user", wording.must_call(name))
            case "required":
                _add(turns, "user", wording.must_call(None))
    return [{"role": turn.role, "content": "\n\n".join(turn.texts)} for turn in turns]


@dataclass(slots=True)
class _Turn:
    role: str
    texts: list[str]


def _instruct(turns: list[_Turn], instructions: str) -> None:
    """Put the instructions behind the system prompt, or make one of them."""
    if turns and turns[0].role == "system":
        turns[0].texts.append(instructions)
    else:
        turns.insert(0, _Turn("system", [instructions]))


def _turns(messages: Sequence[Message]) -> list[_Turn]:
    turns: list[_Turn] = []
    called: dict[str, tuple[int, str]] = {}  # id -> (place among the calls, tool); ids may come again
    places = itertools.count()
    waiting: list[tuple[int, str, str]] = []  # results: (place, tool, text)

    def deliver() -> None:
        if waiting:
            waiting.sort(key=lambda result: result[0])
            _add(turns, "user", wording.results([(name, text) for _, name, text in waiting]))
            waiting.clear()

    for message in messages:
        role = message["role"]
        if role == "tool":
            # A legacy result may come without its call, but names the function.
            place, name = called.get(message["tool_call_id"]) or (next(places), message["name"])
            waiting.append((place, name, _text(message)))
            continue
        deliver()
        match role:
            case "assistant":
                calls = message.get("tool_calls") or []
                for call in calls:
                    called[call["id"]] = (next(places), call["function"]["name"])
                _add(turns, "assistant", _assistant_text(wording.harmless(_text(message)), calls))
            case "user":
                _add(turns, "user", wording.harmless(_text(message)))
            case _:
                _add(turns, "system", _text(message))
    deliver()
    return turns


def _add(turns: list[_Turn], role: str, text: str) -> None:
    if turns and turns[-1].role == role:
        turns[-1].texts.append(text)
    else:
        turns.append(_Turn(role, [text]))


def _assistant_text(text: str, calls: Sequence[Message]) -> str:
    blocks = [wording.call(call["function"]["name"], call["function"]["arguments"]) for call in calls]
    return "\n".join([text, *blocks] if text else blocks)


def _text(message: Message) -> str:
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    # What a model thought in earlier turns is not shown to it again, as chat templates do it.
    return "\n".join(part.get("text") or part.get("refusal") or "" for part in content if part["type"] != "thinking")

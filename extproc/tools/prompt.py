"""Renders a conversation with tools as one without: system, user and assistant turns that hold nothing but text.

Tools go into the system prompt, calls into the assistant's text, results into user turns. Neighbouring turns of
one role become one turn, because many chat templates insist that user and assistant alternate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from extproc.openai.choice import NamedTool
from extproc.openai.request import ChatRequest
from extproc.tools import wording
from extproc.tools.escaping import Escaper, escaper
from extproc.tools.ordering import Result, in_call_order
from extproc.tools.syntax.table import CallSyntax

Message: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """In which shape a model is shown tools, calls and results."""

    syntax: CallSyntax
    results: Literal["role", "tagged", "plain"] = "plain"
    """As messages of role tool, between the format's own tags, or in plain words."""
    example: bool = False
    """Show a whole exchange with a call."""
    special_tokens: frozenset[str] = frozenset()
    """Of the model's own chat template, where they are known."""


def render_conversation(request: ChatRequest, style: PromptStyle) -> list[Message]:
    """The messages that a model without tool calling understands; the request's content is text."""
    escape = escaper(style.syntax.format, style.special_tokens)
    if request.offered:
        escape = escape.offering(tool["function"]["name"] for tool in request.offered)
    turns = _turns(request.messages, style, escape)
    if request.offered:
        # All of them, whatever the choice: where it differs from turn to turn, the prompt still begins with the same.
        _instruct(turns, wording.tool_instructions(request.offered, style.syntax, escape, example=style.example))
        if said := _choice(request, style):
            _add(turns, "user", said)
    return [{"role": turn.role, "content": "\n\n".join(turn.texts)} for turn in turns]


def _choice(request: ChatRequest, style: PromptStyle) -> str:
    """What has to be said of the tools behind the conversation; nothing if all of them may be called."""
    names = [tool["function"]["name"] for tool in request.tools]
    some = names if len(names) < len(request.offered) else []
    demand = demanded(request)
    if demand is not None:
        return wording.must_call(demand or None, style.syntax, some)
    if not request.offers_tools:
        return wording.MUST_NOT_CALL
    return wording.may_call(some) if some else ""


def demanded(request: ChatRequest) -> str | None:
    """The tool that has to be called: its name, "" for any of them, None when the model may do without."""
    match request.tool_choice:
        case NamedTool(name):
            return name
        case "required":
            return ""
        case _:
            return None


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


def _turns(messages: Sequence[Message], style: PromptStyle, escape: Escaper) -> list[_Turn]:
    turns: list[_Turn] = []
    calls = 0  # of the conversation so far
    for item in in_call_order(messages):
        if isinstance(item, list):
            _add_results(turns, item, style, escape)
            continue
        text = _text(item)
        match item["role"]:
            case "assistant":
                made = [
                    (call["function"]["name"], call["function"]["arguments"]) for call in item.get("tool_calls") or ()
                ]
                said = [escape.spoken(text)] if text else []
                if made:
                    said.append(wording.calls(made, style.syntax, escape, first=calls))
                    calls += len(made)
                _add(turns, "assistant", "\n".join(said))
            case "user":
                _add(turns, "user", escape.text(text))
            case _:
                _add(turns, "system", text)
    return turns


def _add_results(turns: list[_Turn], results: list[Result], style: PromptStyle, escape: Escaper) -> None:
    texts = [(result.name, _text(result.message), result.place) for result in results]
    match style.results:
        case "role":
            for _, text, _ in texts:
                turns.append(_Turn("tool", [escape.text(text)]))
        case "tagged":
            _add(turns, "user", wording.tagged_results(texts, style.syntax, escape))
        case "plain":
            _add(turns, "user", wording.results([(name, text) for name, text, _ in texts], escape))


def _add(turns: list[_Turn], role: str, text: str) -> None:
    if turns and turns[-1].role == role:
        turns[-1].texts.append(text)
    else:
        turns.append(_Turn(role, [text]))


def _text(message: Message) -> str:
    content = message.get("content")
    if content is None:
        return message.get("refusal") or ""
    if isinstance(content, str):
        return content
    # What a model thought in earlier turns is not shown to it again, as chat templates do it.
    return "\n".join(part.get("text") or part.get("refusal") or "" for part in content if part["type"] != "thinking")

"""Renders a conversation with tools as one without: system, user and assistant turns.

Tools go into the system prompt, calls into the assistant's text, results into user turns. Neighbouring turns of
one role become one turn, because many chat templates insist that user and assistant alternate. Turns hold nothing but
text; only where users or tools send images and the like, those stay content parts, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from extproc.prompts import wording
from extproc.prompts.content import Content, as_sent, content_of, joined, with_texts
from extproc.prompts.escaping import Escaper, escaper
from extproc.prompts.ordering import Result, in_call_order
from extproc.toolcalls import CallSyntax

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


class Conversation(Protocol):
    """What is rendered (`extproc.turn.Turn`)."""

    @property
    def messages(self) -> list[Message]: ...
    @property
    def offered(self) -> list[Message]: ...
    @property
    def tools(self) -> list[Message]: ...
    @property
    def offers_tools(self) -> bool: ...
    @property
    def required_tool(self) -> str | None: ...
    @property
    def text_schema(self) -> Message | None: ...


def render_conversation(turn: Conversation, style: PromptStyle) -> list[Message]:
    """The messages that a model without tool calling understands."""
    escape = escaper(style.syntax.format, style.special_tokens)
    if turn.offered:
        escape = escape.offering(tool["function"]["name"] for tool in turn.offered)
    turns = _turns(turn.messages, style, escape)
    if turn.offered:
        # All of them, whatever the choice: where it differs from turn to turn, the prompt still begins with the same.
        answer = wording.answer_in(turn.text_schema, escape)
        _instruct(turns, wording.tool_instructions(turn.offered, style.syntax, escape, answer, example=style.example))
        if said := _choice(turn, style):
            _add(turns, "user", [said])
    return [{"role": turn.role, "content": as_sent(joined(turn.contents, "\n\n"))} for turn in turns]


def _choice(turn: Conversation, style: PromptStyle) -> str:
    """What has to be said of the tools behind the conversation; nothing if all of them may be called."""
    names = [tool["function"]["name"] for tool in turn.tools]
    some = names if len(names) < len(turn.offered) else []
    demand = turn.required_tool
    if demand is not None:
        return wording.must_call(demand or None, style.syntax, some)
    if not turn.offers_tools:
        return wording.must_not_call(as_json=turn.text_schema is not None)
    return wording.may_call(some) if some else ""


@dataclass(slots=True)
class _Turn:
    role: str
    contents: list[Content]


def _instruct(turns: list[_Turn], instructions: str) -> None:
    """Put the instructions behind the system prompt, or make one of them."""
    if turns and turns[0].role == "system":
        turns[0].contents.append([instructions])
    else:
        turns.insert(0, _Turn("system", [[instructions]]))


def _turns(messages: Sequence[Message], style: PromptStyle, escape: Escaper) -> list[_Turn]:
    turns: list[_Turn] = []
    calls = 0  # of the conversation so far
    for item in in_call_order(messages):
        if isinstance(item, list):
            _add_results(turns, item, style, escape)
            continue
        content = content_of(item)
        match item["role"]:
            case "assistant":
                made = [
                    (call["function"]["name"], call["function"]["arguments"]) for call in item.get("tool_calls") or ()
                ]
                text = as_sent(content)
                assert isinstance(text, str)  # a model has said nothing else
                said = [escape.spoken(text)] if text else []
                if made:
                    said.append(wording.calls(made, style.syntax, escape, first=calls))
                    calls += len(made)
                _add(turns, "assistant", ["\n".join(said)])
            case "user":
                _add(turns, "user", with_texts(content, escape.parts))
            case _:
                _add(turns, "system", content)
    return turns


def _add_results(turns: list[_Turn], results: list[Result], style: PromptStyle, escape: Escaper) -> None:
    named = [(result.name, with_texts(content_of(result.message), escape.parts), result.place) for result in results]
    match style.results:
        case "role":
            for _, content, _ in named:
                turns.append(_Turn("tool", [content]))
        case "tagged":
            _add(turns, "user", wording.tagged_results(named, style.syntax, escape))
        case "plain":
            _add(turns, "user", wording.results([(name, content) for name, content, _ in named], escape))


def _add(turns: list[_Turn], role: str, content: Content) -> None:
    if turns and turns[-1].role == role:
        turns[-1].contents.append(content)
    else:
        turns.append(_Turn(role, [content]))

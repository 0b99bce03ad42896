"""Renders a conversation with tools as one without: system, user and assistant turns.

Tools go into the system prompt, calls into the assistant's text, results into user turns. Neighbouring turns of
one role become one turn, because many chat templates insist that user and assistant alternate. Turns hold nothing but
text; only where users or tools send images and the like, those stay content parts, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from extproc.contract.json_array import tool_names
from extproc.prompts import wording
from extproc.prompts.content import Content, as_sent, content_of, joined, with_texts
from extproc.prompts.escaping import Escaper, escaper
from extproc.prompts.ordering import CallOrder, Result
from extproc.toolcalls import CallSyntax

Message: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """In which shape a model is shown tools, calls and results."""

    syntax: CallSyntax
    results: Literal["role", "tagged", "plain"] = "plain"
    """As messages of role tool, between the format's own tags, or in plain words."""
    example: bool = False
    """Show two exchanges before the conversation, one of them with calls, unless it is an agent's."""
    special_tokens: frozenset[str] = frozenset()
    """Of the model's own chat template, where they are known."""


class Conversation(Protocol):
    """What is rendered (`extproc.turn.Turn`)."""

    @property
    def messages(self) -> Sequence[Message]: ...
    @property
    def offered(self) -> Sequence[Message]: ...
    @property
    def tools(self) -> Sequence[Message]: ...
    @property
    def offers_tools(self) -> bool: ...
    @property
    def required_tool(self) -> str | None: ...
    @property
    def text_schema(self) -> Message | None: ...


def render_conversation(turn: Conversation, style: PromptStyle) -> list[Message]:
    """The messages that a model without tool calling understands."""
    rendering = begin(turn, style)
    escape = escaper_for(turn.offered, style)
    rendered = [made for message in turn.messages for made in rendering.add(message, style, escape)]
    return rendered + rendering.rest(choice_said(turn, style), style, escape)


def begin(turn: Conversation, style: PromptStyle) -> Rendering:
    """The state before the first message. The exchanges of `example` answer in words, which isn't for those who want
    JSON."""
    example = style.example and turn.text_schema is None
    return Rendering(instructions(turn, style) if turn.offered else None, example=example)


def escaper_for(offered: Sequence[Message], style: PromptStyle) -> Escaper:
    """For all that is said in a conversation with these tools."""
    escape = escaper(style.syntax.format, style.special_tokens)
    return escape.offering(tool_names(offered)) if offered else escape


def instructions(turn: Conversation, style: PromptStyle) -> str:
    """What the model is told of the tools: all of them, whatever the choice. Where that differs from turn to turn, the
    prompt still begins with the same."""
    escape = escaper_for(turn.offered, style)
    answer = wording.answer_in(turn.text_schema, escape)
    return wording.tool_instructions(turn.offered, style.syntax, escape, answer)


def choice_said(turn: Conversation, style: PromptStyle) -> str:
    """What has to be said of the tools behind the conversation; nothing if all of them may be called."""
    if not turn.offered:
        return ""
    some = tool_names(turn.tools) if len(turn.tools) < len(turn.offered) else []
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


class Rendering:
    """The same message by message, so that a conversation can be gone on with: it is picklable at every point."""

    __slots__ = ("_calls", "_example", "_instructions", "_order", "_turns")

    def __init__(self, instructions: str | None, *, example: bool = False) -> None:
        self._instructions = instructions  # until they have been given
        self._example = example
        self._order = CallOrder()
        self._turns: list[_Turn] = []  # the last one, to which more may be added
        self._calls = 0  # of the conversation so far

    def add(self, message: Message, style: PromptStyle, escape: Escaper) -> list[Message]:
        """The turns that are complete by this message."""
        for item in self._order.add(message):
            self._add(item, style, escape)
        done, self._turns = self._turns[:-1], self._turns[-1:]
        return self._written(done, style)

    def rest(self, said: str, style: PromptStyle, escape: Escaper) -> list[Message]:
        """Those that are complete because there are no more messages; `said` is put at their end."""
        for item in self._order.rest():
            self._add(item, style, escape)
        turns, self._turns = self._turns, []
        if said:
            _add(turns, "user", [said])
        return self._written(turns, style)

    def _written(self, turns: list[_Turn], style: PromptStyle) -> list[Message]:
        if turns and self._instructions is not None:
            shows_example = self._example and not _is_agents(turns[0])
            _instruct(turns, self._instructions)
            following = (turns[1:] or self._turns)[:1]
            if shows_example and [turn.role for turn in following] == ["user"]:
                turns[1:1] = _example(style.syntax)
            self._instructions = None
        return [{"role": turn.role, "content": as_sent(joined(turn.contents, "\n\n"))} for turn in turns]

    def _add(self, item: Message | list[Result], style: PromptStyle, escape: Escaper) -> None:
        if isinstance(item, list):
            _add_results(self._turns, item, style, escape)
            return
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
                    said.append(wording.calls(made, style.syntax, escape, first=self._calls))
                    self._calls += len(made)
                _add(self._turns, "assistant", ["\n".join(said)])
            case "user":
                _add(self._turns, "user", with_texts(content, escape.parts))
            case _:
                _add(self._turns, "system", content)


_AGENTS_SYSTEM_PROMPT = 3000
"""How many characters it has at least: Cline's has 4,262 or more, Claude Code's some 6,000, Codex's 16,979. After these
a small model can take an exchange without a call for the rule (docs/prompt-mode.md)."""


def _is_agents(first: _Turn) -> bool:
    said = (len(piece) for piece in joined(first.contents, "\n\n") if isinstance(piece, str))
    return first.role == "system" and sum(said) >= _AGENTS_SYSTEM_PROMPT


def _instruct(turns: list[_Turn], instructions: str) -> None:
    """Put the instructions behind the system prompt, or make one of them."""
    if turns and turns[0].role == "system":
        turns[0].contents.append([instructions])
    else:
        turns.insert(0, _Turn("system", [[instructions]]))


def _example(syntax: CallSyntax) -> list[_Turn]:
    return [
        turn
        for asked, answered in wording.exchanges(syntax)
        for turn in (_Turn("user", [[asked]]), _Turn("assistant", [[answered]]))
    ]


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

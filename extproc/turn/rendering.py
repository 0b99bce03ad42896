"""What a backend is shown of a conversation, message by message: what it says by now doesn't change by what comes.

A `Renderer` knows the model and its tools; what it knows of the conversation it is given each time, so that this can be
kept, and be gone on with when the next turn comes (`extproc.turn.memory`). Whole conversations are rendered by
`extproc.turn.modes`, and come to the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from extproc.config import Model
from extproc.contract.json_array import tool_names
from extproc.prompts.conversation import escaped_messages, escaped_tools
from extproc.prompts.ordering import CallOrder, Result
from extproc.prompts.prompt import Rendering, begin, choice_said, escaper_for
from extproc.turn.modes import escaper_of, style_of, with_arguments
from extproc.turn.turn import Turn

Json: TypeAlias = dict[str, Any]


class Renderer(Protocol):
    """How one model is shown conversations with these tools. Its state is picklable."""

    def begin(self, turn: Turn) -> Any:
        """The state before the first message; of the turn only what it says of tools matters."""

    def add(self, state: Any, message: Json) -> list[Json]:
        """What is complete by this message."""

    def rest(self, state: Any, turn: Turn) -> list[Json]:
        """What is complete because there are no more. The state is of no use then."""


def renderer(model: Model, offered: Sequence[Json]) -> Renderer:
    """For a model, and the tools that it is shown."""
    return _AsText(model, offered) if model.tools == "prompt" else _AsGiven(model, offered)


def shown_tools(model: Model, tools: Sequence[Json]) -> Sequence[Json]:
    """The tools as the model's chat template shows them; the very same object where that is as they came."""
    if not model.escapes_markers:
        return tools
    escape = escaper_of(model).offering(tool_names(tools))
    shown = escaped_tools(tools, escape)
    return tools if shown == tools else shown


class _AsText:
    """In prompt mode."""

    def __init__(self, model: Model, offered: Sequence[Json]) -> None:
        self._style = style_of(model)
        self._escape = escaper_for(offered, self._style)

    def begin(self, turn: Turn) -> Rendering:
        return begin(turn, self._style)

    def add(self, state: Rendering, message: Json) -> list[Json]:
        return state.add(message, self._style, self._escape)

    def rest(self, state: Rendering, turn: Turn) -> list[Json]:
        return state.rest(choice_said(turn, self._style), self._style, self._escape)


class _AsGiven:
    """In the other two."""

    def __init__(self, model: Model, offered: Sequence[Json]) -> None:
        escape = escaper_of(model)
        self._escape = escape.offering(tool_names(offered)) if model.escapes_markers else None

    def begin(self, _turn: Turn) -> CallOrder:
        return CallOrder()

    def add(self, state: CallOrder, message: Json) -> list[Json]:
        (readable,) = with_arguments([message])
        return self._shown(state.add(readable))

    def rest(self, state: CallOrder, _turn: Turn) -> list[Json]:
        return self._shown(state.rest())

    def _shown(self, items: Sequence[Json | list[Result]]) -> list[Json]:
        messages: list[Json] = []
        for item in items:
            messages += [result.message for result in item] if isinstance(item, list) else [item]
        return escaped_messages(messages, self._escape) if self._escape is not None else messages

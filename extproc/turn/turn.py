"""What a client asks of a model, whatever dialect it asked in: the one form that the rest of the house knows.

Messages and tools are in the words of chat completions, which every backend speaks: `system`, `user`, `assistant` with
`tool_calls`, `tool`; no legacy forms, and arguments that can be read. Parameters have vLLM's names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from extproc.contract.json_array import JsonArray, tool_names
from extproc.contract.tool_choice import NamedTool, ToolChoice
from extproc.contract.tool_definitions import TextGrammar

Json: TypeAlias = dict[str, Any]
Dialect: TypeAlias = Literal["chat", "messages", "responses"]
"""By whose rules a client speaks (`extproc.surfaces`)."""


@dataclass(frozen=True, slots=True)
class ToolName:
    """How a call of a tool goes back to a client that knows the tool by another name than the model."""

    name: str
    namespace: str | None = None
    kind: str = "function"
    """The type of the tool in the client's dialect."""
    grammar: TextGrammar | None = None
    """What its text has to follow."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a backend is shown, as far as it follows from the conversation and the tools (`extproc.turn.rendering`)."""

    messages: JsonArray
    tools: Sequence[Json]
    """As the chat template shows them, if it does."""
    has_strict_tools: bool
    affinity: str
    follows_result: bool
    """The last message is a tool's result."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation, checked."""

    messages: Sequence[Json]
    """Its objects may be the client's own: nobody changes them."""
    offered: Sequence[Json]
    """All the tools of the request, as OpenAI tool definitions."""
    tools: Sequence[Json]
    """Those of them that the model may call."""
    tool_choice: ToolChoice
    parallel_tool_calls: bool
    parameters: Json
    """What else the client asks for, by the names of vLLM's parameters; those that no backend gets are still in it."""
    stream: bool = False
    include_usage: bool = False
    """The client wants the usage chunk of a stream."""
    dialect: Dialect = "chat"
    legacy: bool = False
    """The client speaks of functions: it doesn't know tool calls."""
    repaired: int = 0
    """How many malformed arguments of earlier turns were repaired."""
    withheld: tuple[str, ...] = ()
    """The names of what was taken out, because clients aren't trusted with it."""
    explicit: frozenset[str] = frozenset()
    """Which of `tool_choice` and `parallel_tool_calls` the client said itself."""
    begun: bool = False
    """The last message is the beginning of the answer, which the model is to go on with."""
    thinks: bool | None = None
    """The client has switched the model's thinking on or off."""
    shows_thinking: bool = True
    """The client is to see what the model thinks."""
    counts: bool = False
    """Nothing is asked but how many tokens the prompt has."""
    stop: tuple[str, ...] = ()
    """The texts that end the answer, where the client is to be told which did."""
    names: Mapping[str, ToolName] = field(default_factory=dict)
    """By the name that the model knows: tools that are another thing for the client than a function of that name."""
    echo: Json = field(default_factory=dict)
    """What of the request stands in its answer."""
    places: list[str] = field(default_factory=list)
    """Where the name of each offered tool stands in the client's body, for errors."""
    asked_as: Mapping[str, str] = field(default_factory=dict)
    """What the client calls parameters, by vLLM's names, where it calls them otherwise."""
    tools_place: str = "tools"
    """Where they all stand."""
    as_sent: Json | None = None
    """The client's own body, where it may go to a backend as it came; None where something of it was changed."""

    rendered: Rendered | None = None
    """What the backend is shown of all this, where its beginning was known."""

    @property
    def passes_answers(self) -> bool:
        """Whether a backend's own answer may be the client's: they speak the same dialect."""
        return self.dialect == "chat"

    @property
    def offers_tools(self) -> bool:
        """Whether the model may answer with calls."""
        return bool(self.tools) and self.tool_choice != "none"

    @property
    def required_tool(self) -> str | None:
        """The tool that has to be called: its name, "" for any of them, None when the model may do without."""
        match self.tool_choice:
            case NamedTool(name):
                return name
            case "required":
                return ""
            case _:
                return None

    @property
    def texts(self) -> dict[str, TextGrammar]:
        """The grammars of the tools that the model may call, by the names that it knows."""
        if not self.names:
            return {}
        callable_names = set(tool_names(self.tools)) if self.offers_tools else ()
        return {
            name: known.grammar
            for name, known in self.names.items()
            if known.grammar is not None and name in callable_names
        }

    @property
    def text_schema(self) -> Json | None:
        """What is asked of the answer's text; an empty schema for any JSON object."""
        match self.parameters.get("response_format"):
            case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
                return schema
            case {"type": "json_schema" | "json_object"}:
                return {}
            case _:
                return None

    @property
    def follows_result(self) -> bool:
        """Whether the model is asked what it makes of a tool's result: then it may well speak of the tool in words."""
        if self.rendered is not None:
            return self.rendered.follows_result
        return bool(self.messages) and self.messages[-1]["role"] == "tool"

    @property
    def has_tool_history(self) -> bool:
        """Whether earlier turns hold calls or results."""
        return any(message["role"] == "tool" or message.get("tool_calls") for message in self.messages)

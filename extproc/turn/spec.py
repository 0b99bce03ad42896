"""What is known of an answer before it comes: how it is read, what may be in it, in whose words it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from extproc.config import InvalidCalls
from extproc.contract.json_array import tools_by_name
from extproc.turn.turn import Dialect, ToolName

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResponseSpec:
    """How the model's answer becomes the answer that the client expects."""

    format: str
    tools: Sequence[Json]
    """Those that the model may call: none where the client wants words, or offers no tools any more."""
    parallel_tool_calls: bool
    include_usage: bool
    """The client asked for the usage chunk of a stream (the backend always is)."""
    running_counts: bool = False
    """It wants, and the backend was asked for, the count so far in every chunk."""
    dialect: Dialect = "chat"
    """The client's."""
    choices: int = 1
    """How many the answer has to have."""
    invalid_calls: InvalidCalls = "pass"
    required_tool: str | None = None
    """The tool that has to be called: its name, "" for any of them, None when the model may do without."""
    legacy: bool = False
    """The client speaks of functions, not of tools: it gets `function_call`."""
    native: bool = False
    """The backend's answer has calls of its own."""
    repair: bool = False
    """What goes wrong with those is repaired, and the text is read for calls too."""
    hidden: frozenset[str] = frozenset()
    """Tokens that are no text."""
    openers: str = ""
    """Behind which characters the escape of what the model was shown is undone; none if nothing was escaped."""
    thinking: Literal["open"] | None = None
    """The text begins inside the model's thinking."""
    text_schema: Json | None = None
    """What the text has to fit where there is no call, as the backend doesn't know of it; `{}` for any object."""
    model: str = ""
    """What the answer calls the model; empty for what the backend says."""
    shows_thinking: bool = True
    """The client is to see what the model thinks."""
    names: Mapping[str, ToolName] = field(default_factory=dict)
    """By the name that the model knows: tools that are another thing for the client than a function of that name."""
    echo: Json = field(default_factory=dict)
    """What of the request stands in its answer."""
    stop: tuple[str, ...] = ()
    """The texts that end the answer, where the client is told which did."""
    counts: bool = False
    """The answer is how many tokens the prompt has."""
    passes: bool = False
    """It is read for what it cost alone: the client gets it as it comes (`extproc.turn.passed_answer`)."""
    counted: bool = False
    """What it cost counts against a limit, so that it is found out in any case, if need be by an estimate."""
    reasoning_content: bool = False
    """Reasoning is sent under its older name as well."""

    finds_made_up: bool = False
    """A call of a tool that nobody offered is to be found at the beginning of its text: it isn't what the client is to
    get."""
    min_confidence: float | None = None
    """With that: how sure the model has to be of a call at the beginning (`extproc.turn.confidence`)."""
    hides_logprobs: bool = False
    """The backend tells probabilities for which the client hasn't asked."""

    @property
    def callable_tools(self) -> Mapping[str, Json]:
        """The tools that the model may call, by name: where one is demanded, no other."""
        tools = tools_by_name(self.tools)
        return tools if not self.required_tool else {name: tools[name] for name in tools if name == self.required_tool}

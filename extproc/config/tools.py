"""Tools that run on our side: which MCP servers there are, and what a run of model rounds may use."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from extproc.config.base import AbsolutePath, FieldError, Settings

SERVER_NAME = r"^[a-z0-9]+(?:[-_][a-z0-9]+)*$"
SERVER_URL = r"^https?://[^\s/?#]+[^\s#]*$"
ServerName = Annotated[str, Field(pattern=SERVER_NAME, max_length=32)]
ToolName = Annotated[str, Field(min_length=1, max_length=128)]
Policy: TypeAlias = Literal["auto", "never"]
"""`auto`: a call runs without asking. `never`: it goes to the client."""
_ToolSeconds = Annotated[float, Field(gt=0, le=600)]


class ServedTool(Settings):
    """What holds for one tool of a server."""

    run: Policy | None = None
    """Who runs a call of it; as the server's unless given."""
    seconds: _ToolSeconds | None = None
    """How long one call of it may take; as the server's unless given."""


class ToolServer(Settings):
    """One entry of `tool_servers`: an MCP server."""

    name: ServerName
    """The model knows its tools as `NAME__TOOL`."""
    url: Annotated[str, Field(pattern=SERVER_URL, max_length=2048)] | None = None
    """Where it speaks streamable HTTP."""
    api_key: AbsolutePath | None = None
    """The file that holds the bearer token for `url`."""
    command: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """The program that speaks MCP on its standard input and output, with its arguments. It is started without a
    shell."""
    environment: dict[str, str] = Field(default_factory=dict)
    """All that `command` gets of an environment, besides PATH, HOME, LANG and TZ."""
    allowed_tools: tuple[ToolName, ...] | None = None
    """The only tools of it that models are offered, by the server's names."""
    run: Policy = "auto"
    """Who runs a call: `auto`, the gateway, without asking; `never`, the client, as with tools of its own."""
    seconds: _ToolSeconds = 30.0
    """How long one call may take."""
    tools: dict[ToolName, ServedTool] = Field(default_factory=dict)
    """What is otherwise for single tools."""

    @model_validator(mode="after")
    def _one_transport(self) -> Self:
        if (self.url is None) == (self.command is None):
            raise FieldError(("url",), "give either `url` or `command`")
        if self.api_key is not None and self.url is None:
            raise FieldError(("api_key",), "it goes with `url`; a command has its `environment`")
        if self.environment and self.command is None:
            raise FieldError(("environment",), "it goes with `command`")
        return self


class Runs(Settings):
    """What one run may use: a client's request, with all its model rounds and tools."""

    rounds: Annotated[int, Field(ge=1, le=100)] = 10
    """How often the model may be asked."""
    seconds: Annotated[float, Field(gt=0, le=1800)] = 600.0
    """How long all of it may take. After half an hour without a byte Envoy gives up by itself."""
    calls_at_once: Annotated[int, Field(ge=1, le=100)] = 5
    """How many tools of one run may be running; more wait."""
    retained_bytes: Annotated[int, Field(ge=1024, le=1 << 30)] = 1 << 20
    """How much the rounds may add to the conversation: calls and results."""
    keep_alive_seconds: Annotated[float, Field(ge=0.05, le=600)] = 10.0
    """A stream that has been silent for so long gets a comment, while a tool runs or the model is thought about."""
    character_memory: Annotated[int, Field(ge=64 << 20, le=1 << 36)] = 256 << 20
    """Bytes of memory that a character's code may use."""
    usage: Literal["sum", "last_prompt"] = "sum"
    """How the tokens of several rounds are told: added up, as they cost; or the last round's prompt and all that was
    written, for clients that take the count for the length of the conversation (Codex)."""
    log_arguments: bool = False
    """Whether the audit log holds the arguments and the results of calls."""

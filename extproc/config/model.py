"""One model as clients see it, and how its backend is to be spoken to."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from extproc.config.base import ClusterName, FieldError, Name, ParameterName, Settings
from extproc.config.bounds import Bounds
from extproc.config.response_template import read_response_template
from extproc.config.tools import ServerName
from extproc.contract.parameters import TOOL_PARAMETERS, parameter_problems, with_integers
from extproc.toolcalls import CHECKPOINT, NAMED, call_syntax, checkpoint_format, get_format
from extproc.toolcalls.syntax.forcing import can_be_forced_amid_text

Mode: TypeAlias = Literal["native", "template", "prompt"]
Tools: TypeAlias = Literal["native", "template", "prompt", "auto"]
InvalidCalls: TypeAlias = Literal["pass", "text", "error"]
MalformedHistory: TypeAlias = Literal["repair", "error", "pass"]
ToolResult: TypeAlias = Literal["role", "tagged", "plain"]


def _check_format(name: str) -> str:
    if name != CHECKPOINT:
        get_format(name)
    return name


def _name_formats(schema: dict[str, Any]) -> None:
    schema["enum"] = sorted({CHECKPOINT, *(name for one in NAMED for name in (one.name, *one.aliases))})


class Model(Settings):
    """One entry of `models`."""

    name: Name
    """What clients ask for."""
    backend: ClusterName
    """Which of `backends` serves it."""
    upstream_model: Name | None = None
    """The model's name at the backend; the same as `name` unless given."""
    tools: Tools
    """How tools reach the model: `native` leaves tool calling to the backend; `template` has the backend's chat
    template show them, and reads the calls from the text; `prompt` writes them into the system prompt, and reads the
    text; `auto` begins with `template`, and changes how the model is asked by how well it calls."""
    # Of a configuration that was read, models with `auto` are at one of their steps (`Config.ladders`).
    steering: Bounds = Bounds()
    """With `tools: auto`: when to change."""
    format: Annotated[str, AfterValidator(_check_format), Field(json_schema_extra=_name_formats)] = "hermes"
    """How the model writes a call, named as vLLM names its parser. In prompt mode: what the prompt asks for."""
    response_template: Annotated[
        str | None, BeforeValidator(read_response_template, json_schema_input_type=str | dict[str, Any] | None)
    ] = None
    """With `format: hf`: the checkpoint's own grammar of answers. Given as the path of its file, from this file's own
    directory."""
    # Once it is read, it is the template's JSON text.
    thinking: Literal["tags", "open"] = "tags"
    """`open`: the chat template has begun the thinking, so that the text starts inside it."""
    special_tokens: tuple[Name, ...] | None = None
    """Tokens of the chat template that are no text; the usual ones unless given. Not in native mode."""

    # Requests
    defaults: dict[ParameterName, Any] = Field(default_factory=dict)
    """Parameters for what a client leaves out."""
    allowed_tools: tuple[Name, ...] | None = None
    """The only tools that a request may offer."""
    max_tools: Annotated[int, Field(ge=0, le=1024)] = 128
    """How many tools a request may offer."""
    malformed_history: MalformedHistory = "repair"
    """Arguments in earlier turns that are no JSON object: make one of them, refuse the request, or leave them as they
    are."""
    tool_result: ToolResult = "plain"
    """Prompt mode: results as messages of role tool, in the format's own tags, or in plain words, which small models
    understand best (docs/prompt-mode.md)."""
    escape_markers: bool | None = None
    """Break control tokens and call markup that users, tools and earlier turns spell out, and undo it in the answer;
    unless given, in all modes but `native`."""
    forced: Literal[True, False, "begun"] = False
    """Not in native mode: the decoder is held to the tools' names and schemas in every call, as in one of a strict tool
    (docs/forced-decoding.md); `begun`: no sooner than a call has begun, so that JSON in an answer is free. Needs the
    backend's `structured_outputs`."""
    example: bool = False
    """Prompt mode: two short exchanges stand before the conversation, the second with calls. They are left out after a
    system prompt of 3,000 characters or more, such as agents have."""

    tool_servers: tuple[ServerName, ...] = ()
    """Whose tools the model may use besides a client's: names in the configuration's `tool_servers`."""

    # Answers
    reasoning_content: bool = False
    """Send what the model thinks as `reasoning_content` besides `reasoning`: the older name, which some clients read
    alone. In answers to requests with tools; all others are the backend's."""
    repair: bool = False
    """Native mode: read the calls that vLLM's parser left in the text as well."""
    invalid_calls: InvalidCalls = "pass"
    """A call of a tool that wasn't offered, or with arguments that are no JSON or break the tool's schema: leave it to
    the client, show it as text, or answer with an error. Anything but `pass` holds each call until it is complete."""
    retry: bool = False
    """A demanded call (`tool_choice` required or named) that doesn't come, or has a fault, is asked for once more; only
    then `invalid_calls` decides. Holds the answer to such a request until it is complete. An answer whose text begins
    with a call of a tool that nobody offered is asked for once more, too: held until it is clear how it begins."""
    min_confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    """With `retry`, and not in native mode: an answer that begins with a call is asked for once more, too, if its first
    48 tokens have a lower geometric mean of their probabilities than this. Held until they have come, and to its end if
    the mean is lower. It is for small models, which call needlessly (docs/prompt-mode.md)."""

    @model_validator(mode="after")
    def _defaults_hold(self) -> Self:
        for name in self.defaults:
            if name in TOOL_PARAMETERS or name in ("model", "messages", "stream", "stream_options"):
                raise FieldError(("defaults", name), "only sampling parameters can have a default")
        for problem in parameter_problems(self.defaults):
            raise FieldError(("defaults", (problem.param or "").partition(".")[0]), problem.message)
        self.defaults.update(with_integers(self.defaults))
        return self

    @model_validator(mode="after")
    def _template_is_there(self) -> Self:
        if (self.format == CHECKPOINT) != (self.response_template is not None):
            raise FieldError(("response_template",), f"`format: {CHECKPOINT}` and `response_template` need each other")
        if self.tools == "prompt" and self.format == CHECKPOINT:
            raise FieldError(
                ("format",), "it isn't for prompt mode: a response template doesn't say how calls are written"
            )
        return self

    @model_validator(mode="after")
    def _prompt_mode_escapes(self) -> Self:
        if self.tools == "prompt" and self.escape_markers is False:
            raise FieldError(("escape_markers",), "it can't be off in prompt mode: leave it out, or use another mode")
        return self

    @model_validator(mode="after")
    def _steers(self) -> Self:
        if self.tools != "auto" and self.steering != Bounds():
            raise FieldError(("steering",), "it is for `tools: auto` alone")
        return self

    @model_validator(mode="after")
    def _can_force(self) -> Self:
        if self.forced and self.tools == "native":
            raise FieldError(("forced",), "it isn't for native mode, in which the backend's own parser reads the calls")
        if self.forced and not self.can_be_forced:
            raise FieldError(("forced",), f"no grammar can hold calls of the format {self.format} amid text")
        return self

    @model_validator(mode="after")
    def _is_asked_once_more(self) -> Self:
        if self.min_confidence is not None and self.tools == "native":
            raise FieldError(("min_confidence",), "it isn't for native mode, in which calls aren't read from the text")
        if self.min_confidence is not None and not self.retry and self.tools != "auto":
            raise FieldError(("min_confidence",), "it needs `retry: true`: else nobody is asked once more")
        return self

    @property
    def mode(self) -> Mode:
        """What `tools` says of one that is asked."""
        assert self.tools != "auto"  # a configuration has none such
        return self.tools

    @property
    def can_be_shown(self) -> bool:
        """Whether it is known how to tell a model to write calls."""
        return self.format != CHECKPOINT and call_syntax(self.format_name) is not None

    @property
    def can_be_forced(self) -> bool:
        """Whether a grammar can hold the model's calls while its text is free."""
        syntax = call_syntax(self.format_name)
        return syntax is not None and can_be_forced_amid_text(syntax)

    @property
    def escapes_markers(self) -> bool:
        return self.tools != "native" if self.escape_markers is None else self.escape_markers

    @property
    def format_name(self) -> str:
        """What the parser, and all that goes by markers, knows the format by."""
        return self.format if self.response_template is None else checkpoint_format(self.response_template)

    @property
    def upstream_name(self) -> str:
        return self.upstream_model or self.name

"""The servers that a backend may be, and in what each differs from vLLM: a row for each.

All speak OpenAI's chat completions, with extensions of their own, and most ignore what they don't know. So what a
server has no field for is kept back and named to the client, as what vLLM has no field for is; what it calls by another
name gets that name; and what it can't do is refused in the settings, or asked for in words.

Sources, by commit: SGLang 004c82e0 and, of its handling of tools, 0c078e6f (`srt/entrypoints/openai`: `protocol.py`,
`serving_chat.py`); llama.cpp b11434 (`tools/server`: `server-common.cpp`, `server-schema.cpp`; it was also run);
Ollama 634c4166 (`openai/openai.go`); text-generation-inference 003eaec0 (`docs/openapi.json`) and 03fe626a
(`router/src/chat.rs`, `router/src/infer/tool_grammar.rs`). docs/servers.md says what of it was only read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]
ServerName: TypeAlias = Literal["vllm", "sglang", "llama.cpp", "ollama", "tgi"]


Spelled: TypeAlias = tuple[Json, frozenset[str]]
"""What goes to a server, and the names of what it then doesn't get."""
_NOTHING: frozenset[str] = frozenset()


def _same(fields: Json) -> Spelled:
    return fields, _NOTHING


@dataclass(frozen=True, slots=True)
class Server:
    """What one of them takes, beside `model`, `messages` and the parameters of tools."""

    title: str
    takes: frozenset[str] | None = None
    """Its parameters, of those that `contract.parameters` has; None: all that vLLM knows."""
    spell: Callable[[Json], Spelled] = _same
    """What goes to it, in the form that it understands."""
    as_written: Mapping[str, Any] = field(default_factory=dict)
    """What makes it leave special tokens in the text, in which calls are to be found."""
    unread: Literal["none", "auto"] | None = None
    """The `tool_choice` with which its chat template shows tools, and its text is left alone; None: there is none."""
    forced_by: Literal["structured_outputs", "response_format"] | None = None
    """Where it takes a structural tag, if it takes any."""
    choices: Literal["all", "modes", "none"] = "all"
    """What it knows of `tool_choice`: all of it, not the choice of a tool by name, or nothing."""
    logprobs_with_tools: bool = True
    """It tells probabilities in a stream, too, if it was asked with tools."""
    leaves_thinking: tuple[Literal["with", "without"], str] = ("without", "--reasoning-parser")
    """How it is started so that what the model thinks stays in its text."""
    counts: bool = False
    """It counts a conversation's tokens at `/tokenize`."""
    renders: str | None = None
    """The path that tells what its chat template makes of a conversation."""
    health: str = "/health"
    """The path that answers 200 while it is well."""


_OPENAI = frozenset(
    """
    stream stream_options max_tokens max_completion_tokens temperature top_p stop seed frequency_penalty
    presence_penalty logprobs top_logprobs response_format
    """.split()
)


def _newer_limit(fields: Json) -> Json:
    """With the older name of the limit, which is the only one that it knows."""
    if "max_completion_tokens" not in fields:
        return fields
    spelled = {name: value for name, value in fields.items() if name != "max_completion_tokens"}
    return {**spelled, "max_tokens": fields["max_completion_tokens"]}


_OLLAMAS_EFFORTS = {"minimal": "low", "xhigh": "high", "max": "high"}
"""What it answers 400 to, and what comes nearest."""


_NOT_THINKING = {"enable_thinking": False, "thinking": False}
"""How templates are told, by which name a model knows it."""


def _ollama(fields: Json) -> Spelled:
    """It renders templates of its own, and is told by the effort whether to think."""
    spelled, lost = dict(_newer_limit(fields)), _NOTHING
    told = spelled.pop("chat_template_kwargs", None) or {}
    if told and told.items() <= _NOT_THINKING.items() and spelled.get("reasoning_effort", "none") == "none":
        spelled["reasoning_effort"] = "none"
    elif told:
        lost = frozenset({"chat_template_kwargs"})
    effort = spelled.get("reasoning_effort")
    if effort in _OLLAMAS_EFFORTS:
        spelled["reasoning_effort"] = _OLLAMAS_EFFORTS[effort]
    return spelled, lost


def _tgi(fields: Json) -> Spelled:
    """`stop` is a list there, and a schema is the `value` of a grammar."""
    spelled, lost = dict(_newer_limit(fields)), _NOTHING
    if isinstance(spelled.get("stop"), str):
        spelled["stop"] = [spelled["stop"]]
    match spelled.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            spelled["response_format"] = {"type": "json", "value": schema}
        case {"type": type_}:
            del spelled["response_format"]
            lost = _NOTHING if type_ == "text" else frozenset({"response_format"})
    return spelled, lost


def _llama_cpp(fields: Json) -> Spelled:
    """A structural tag would be a 400: it has grammars of its own."""
    if (fields.get("response_format") or {}).get("type") != "structural_tag":
        return fields, _NOTHING
    return {name: value for name, value in fields.items() if name != "response_format"}, frozenset({"response_format"})


SERVERS: Mapping[ServerName, Server] = {
    "vllm": Server(
        "vLLM",
        as_written={"skip_special_tokens": False, "spaces_between_special_tokens": False},
        unread="none",
        forced_by="structured_outputs",
        counts=True,
    ),
    "sglang": Server(
        "SGLang",
        takes=_OPENAI
        | frozenset(
            """
            n logit_bias user reasoning_effort top_k min_p repetition_penalty stop_token_ids ignore_eos min_tokens
            skip_special_tokens continue_final_message chat_template_kwargs priority session_id cache_salt
            return_token_ids
            """.split()
        ),
        as_written={"skip_special_tokens": False},
        unread="auto",  # `none` hides the tools; it reads no calls unless it was started with a tool parser
        forced_by="response_format",
    ),
    "llama.cpp": Server(
        "llama.cpp",
        takes=_OPENAI
        | frozenset(
            """
            n logit_bias ignore_eos reasoning_effort top_k min_p add_generation_prompt continue_final_message
            chat_template_kwargs
            """.split()
        ),
        spell=_llama_cpp,
        unread="none",
        choices="modes",
        logprobs_with_tools=False,
        leaves_thinking=("with", "--reasoning-format none"),
        renders="/apply-template",
    ),
    "ollama": Server(
        "Ollama",
        takes=_OPENAI | {"reasoning_effort", "chat_template_kwargs"},
        spell=_ollama,
        choices="none",
        health="/api/version",
    ),
    "tgi": Server("text-generation-inference", takes=_OPENAI, spell=_tgi),
}

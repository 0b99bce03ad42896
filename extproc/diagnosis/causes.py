"""The causes that are known, in words: what has happened, what to change, and where docs/no-tool-calls.md goes on.

Their order is that in which they explain an exchange, beside their severity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from extproc.diagnosis.finding import Finding, Severity

PAGE = "docs/no-tool-calls.md"


@dataclass(frozen=True, slots=True)
class Cause:
    """One of them."""

    severity: Severity
    section: str
    """Of PAGE."""
    what: str
    change: str


def _error(section: str, what: str, change: str) -> Cause:
    return Cause(Severity.ERROR, section, what, change)


def _warning(section: str, what: str, change: str) -> Cause:
    return Cause(Severity.WARNING, section, what, change)


def _note(section: str, what: str, change: str) -> Cause:
    return Cause(Severity.NOTE, section, what, change)


_CAUSES = {
    # The request goes to no backend.
    "unknown_model": _error(
        "errors",
        "The client asks for a model that the gateway doesn't have.",
        "Ask for a name that `/v1/models` lists, letter by letter, or give a model this name by `aliases`.",
    ),
    "invalid_schema": _error(
        "errors",
        "A tool's `parameters` are no valid JSON Schema.",
        "Mend the schema in the client: the message names the place.",
    ),
    "host_ignores_overrides": _error(
        "errors",
        "Envoy ignores `mode_override`, without which tools can't be served.",
        "Configure its ext_proc filter as docs/envoy.md says.",
    ),
    "request_too_large": _error("errors", "The request is too large.", "Send less, or raise `limits.max_body_bytes`."),
    "too_many_requests": _error(
        "errors",
        "The client has too many requests under way.",
        "Send fewer at a time, or raise `limits.concurrent_requests` or `limits.requests_per_minute`.",
    ),
    "limit_reached": _error(
        "errors",
        "The client or its team has used up its tokens, or its requests, or reached another limit of the gateway.",
        "Wait as long as `retry-after` says, or raise `requests_per_minute`, `tokens_per_minute` or `tokens_per_day`, "
        "of `limits` or of the team.",
    ),
    "rate_limits_unavailable": _error(
        "errors",
        "The service that counts requests and tokens can't be reached, and nobody is served without it.",
        "Look at `rate_limit_service`, or set its `when_down: serve`.",
    ),
    "client_key_refused": _error(
        "errors",
        "The client's key or token isn't known.",
        "Put the key's hash into the file `api_keys` (`extproc hash-key`); of a token the message says what is wrong.",
    ),
    "invalid_request": _error(
        "errors", "The request is wrong.", "The message names the field, and says what would be right."
    ),
    # It goes to one, and comes to nothing.
    "no_tool_parser": _error(
        "errors",
        "The backend was sent tools as they are, and has no tool parser.",
        "Set `tools: template` or `tools: prompt` for this model (`extproc probe` says which), or start vLLM with a "
        "parser.",
    ),
    "backend_silent": _error(
        "it-hangs-or-is-slow",
        "The backend said nothing for too long.",
        "See its log at that time. If its prompts take so long, raise `limits.first_event_seconds` or "
        "`limits.silence_seconds`.",
    ),
    "context_overflow": _error(
        "errors",
        "Prompt and answer together are longer than the model's context.",
        "A larger `--max-model-len`, fewer tools, a smaller `max_tokens`: an agent's tools alone take thousands of "
        "tokens.",
    ),
    "backend_key_refused": _error(
        "errors",
        "The backend refuses the gateway's own key.",
        "Look at `api_key` of that backend: whether it is set, and whether its file holds a key that the backend "
        "takes.",
    ),
    "unknown_upstream_model": _error(
        "errors",
        "The backend doesn't have the model that it is asked for.",
        "Set `upstream_model` to the name that the backend's `/v1/models` lists.",
    ),
    "backend_full": _error("errors", "The backend is full.", "More replicas, or fewer requests at a time."),
    "backend_away": _error(
        "errors",
        "There is no connection to the backend, or no room at it.",
        "Ask the server's `/health` from where Envoy runs, and compare with `address` of the backend.",
    ),
    "backend_error": _error(
        "errors",
        "The backend answered with an error.",
        "See its log at that time, and what it was asked: `extproc replay FILE --show`.",
    ),
    "broke_off": _error(
        "nothing-helps", "The gateway broke the exchange off: a bug of its own.", "Report it, with the recording."
    ),
    "cut_stream": _error(
        "it-hangs-or-is-slow",
        "The answer broke off: the backend's connection was cut, or the client left.",
        "Envoy's `upstream_cx_protocol_error` of the backend counts those that it cut; its log says why. A client "
        "that leaves has a time-out of its own.",
    ),
    "left_early": _error(
        "it-hangs-or-is-slow",
        "The exchange ended before the model had said anything.",
        "A queue or a long prompt at the backend, and a client that doesn't wait so long.",
    ),
    # The answer ends at its limit.
    "length_in_call": _warning(
        "the-answer-is-cut-off",
        "The model reached the most tokens that it may write, inside a call.",
        "Raise `max_tokens` in the client or in `defaults` of the model, or the server's `--max-model-len`; have it "
        "write smaller files, one after the other.",
    ),
    "length_in_thinking": _warning(
        "the-answer-is-cut-off",
        "The model reached the most tokens that it may write while it was thinking.",
        "Raise `max_tokens`, or have it think less (`reasoning_effort`).",
    ),
    "length": _warning(
        "the-answer-is-cut-off",
        "The model reached the most tokens that it may write.",
        "Raise `max_tokens` in the client or in `defaults` of the model, or the server's `--max-model-len`.",
    ),
    # It has ended by itself, and isn't what was wanted.
    "missing_call": _warning(
        "the-model-answers-in-prose",
        "The request demands a call, and the model made none.",
        "Set `structured_outputs: true` on the backend, if it is a vLLM; or `retry: true` for the model.",
    ),
    "tools_not_shown": _warning(
        "the-model-answers-in-prose",
        "The model never saw the tools: the chat template leaves them out.",
        "Set `tools: prompt` for this model; `extproc probe` says whether a template shows tools.",
    ),
    "unknown_tool": _warning(
        "wrong-names-wrong-arguments",
        "The model called a tool that it wasn't offered.",
        "Fewer tools, or clearer names. If it is always the same name, the model was trained with it: name the tool "
        "so.",
    ),
    "malformed_arguments": _warning(
        "wrong-names-wrong-arguments",
        "The model wrote arguments that are no JSON.",
        "Is `format` the model's own (`extproc probe`)? A lower temperature; `strict: true` in the tool forces "
        "valid ones where structured outputs bind.",
    ),
    "invalid_arguments": _warning(
        "wrong-names-wrong-arguments",
        "The model wrote arguments that break the tool's schema.",
        "Simpler schemas, and a description for each field; `strict: true` in the tool forces them where structured "
        "outputs bind; a larger model.",
    ),
    "unclosed_thinking": _warning(
        "the-answer-is-empty",
        "The whole answer is taken for thinking: the client sees neither text nor calls.",
        "Take `thinking: open` out, unless the model's template opens the thinking. If the model forgets to close "
        "it: a lower temperature, or a server without a reasoning parser.",
    ),
    "other_format": _warning(
        "the-call-shows-as-text",
        "The model wrote calls in another format than the one that is looked for.",
        "Set `format` of the model to the one that it writes.",
    ),
    "stripped_markers": _warning(
        "the-call-shows-as-text",
        "The model wrote a call, and the tokens that mark it are missing: the server left them out.",
        "Does something between drop `skip_special_tokens: false`, or is the server no vLLM? Where it can't show "
        "special tokens, set `tools: prompt` with `format: hermes`, or `tools: native` with a parser of its own.",
    ),
    "made_up_tool": _warning(
        "the-call-shows-as-text",
        "The model called a tool that nobody offered, and the client reads that call as text.",
        "Set `retry: true` for this model, so that it is asked once more; fewer tools, or a larger model.",
    ),
    "call_in_code": _warning(
        "the-call-shows-as-text",
        "The model wrote a call as a block of code that isn't one.",
        "Set `tools: prompt`, with `example: true` unless an agent asks, so that it is shown how; a lower temperature.",
    ),
    "call_as_prose": _warning(
        "the-call-shows-as-text",
        "The model spoke of a tool, and called none.",
        "Set `tools: prompt`, with `example: true` unless an agent asks, so that it is shown how; ask with "
        "`tool_choice: required`; a lower temperature.",
    ),
    "many_tools": _note(
        "the-model-answers-in-prose",
        "The model answered in words, and may have lost sight of its tools.",
        "Switch off the client's MCP servers, and the tools that the task doesn't need.",
    ),
    "answered_in_words": _note(
        "the-model-answers-in-prose",
        "The model answered in words, and named no tool. If the question wanted none, that is as it should be.",
        "Ask with `tool_choice: required` to see whether it can; say in the system prompt when to use tools; "
        "`tools: prompt`, with `example: true` unless an agent asks.",
    ),
    "empty_answer": _warning(
        "the-answer-is-empty",
        "The model ended at once, and said nothing.",
        "The chat template may know no `tool` role, or the request ends with the assistant's turn: `tools: prompt` "
        "needs no template for tools.",
    ),
    # The request itself.
    "repeated_call": _warning(
        "the-agent-loops",
        "The model makes the same call again and again: it doesn't see its result, or can't use it.",
        "Look for the result in what the backend was asked; `tool_result: tagged` for a model that knows its "
        "format's tags.",
    ),
    "no_tools_sent": _note(
        "the-client-sends-something-else",
        "The client offers no tools.",
        "Switch its tools on, or tell it that this model has them. One that explains its tools in the prompt reads "
        "calls from the text itself.",
    ),
    "tool_choice_none": _note(
        "the-client-sends-something-else", "The client forbids calls.", "Leave `tool_choice` out, or set it to `auto`."
    ),
    "repaired_history": _note(
        "wrong-names-wrong-arguments",
        "Arguments of earlier calls were no JSON, and were repaired before the model saw them.",
        "See the turns in which the model made those calls.",
    ),
    "dropped_parameters": _note(
        "the-client-sends-something-else",
        "The backend didn't get all parameters of the request; `x-extproc-dropped` names them.",
        "If the backend knows one, list it under `parameters` of that backend; else it has no effect.",
    ),
}
CAUSES: Mapping[str, Cause] = MappingProxyType(_CAUSES)
"""By name."""


def told(finding: Finding, *, quotes: bool) -> dict[str, str]:
    """A finding with its cause's words, as JSON has it; what was said only with `quotes`."""
    cause = CAUSES[finding.cause]
    fields = {
        "cause": finding.cause,
        "severity": cause.severity.value,
        "what": cause.what,
        "shown_by": finding.shown_by,
        "change": finding.change or cause.change,
        "page": f"{PAGE}#{cause.section}",
    }
    return {**fields, "quoted": finding.quoted} if quotes and finding.quoted else fields

"""Writes docs/errors.md: `python -m tests.generate_error_docs`. A test fails when the page is stale, and when the code
has an error that isn't here.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parent.parent / "docs" / "errors.md"


class Told(NamedTuple):
    """What a page can say of an error's code."""

    status: str
    means: str
    do: str


REQUEST = {
    "array_above_max_length": Told(
        "400", "an array has too many elements", "send fewer; the message says how many may be"
    ),
    "bad_request": Told(
        "4xx",
        "Envoy refuses the request for another reason",
        "look for broken HTTP, from the client or a proxy before us",
    ),
    "batch_limit_exceeded": Told(
        "429",
        "batch requests have all of the backend that they may have",
        "wait as long as `Retry-After` says; raise [`max_batch_requests`](configuration.md#interactive-and-batch)",
    ),
    "context_length_exceeded": Told(
        "400",
        "prompt and `max_tokens` don't fit into the model's context",
        "shorten the conversation, ask for fewer tokens, or start vLLM with a larger `--max-model-len`",
    ),
    "decimal_above_max_value": Told("400", "a number is too large", "the message says what may be"),
    "decimal_below_min_value": Told("400", "a number is too small", "the message says what may be"),
    "empty_array": Told("400", "an array has nothing in it", "put something in, or leave it out"),
    "empty_string": Told("400", "a text has nothing in it", "put something in, or leave it out"),
    "integer_above_max_value": Told("400", "an integer is too large", "the message says what may be"),
    "integer_below_min_value": Told("400", "an integer is too small", "the message says what may be"),
    "invalid_api_key": Told(
        "401",
        "no API key came, or one that isn't known",
        "send one as `Authorization: Bearer`; [make one](configuration.md#the-whole)",
    ),
    "invalid_form": Told("400", "a form (`multipart/form-data`) can't be read", "the message says where it goes wrong"),
    "invalid_function_parameters": Told("400", "a tool's schema is none", "the message names the place in it"),
    "invalid_json": Told("400", "the body is no JSON object", "the message says where it goes wrong"),
    "invalid_token": Told(
        "401",
        "the token is none that the gateway takes",
        "the message says why; [sign in](configuration.md#sign-in-with-oidc) again",
    ),
    "invalid_type": Told("400", "a field has another type than it has to have", "the message says which"),
    "invalid_value": Told("400", "a field has a value that can't be", "the message says what may be"),
    "malformed_tool_arguments": Told(
        "400",
        "with `malformed_history: error`: arguments of an earlier call are no JSON object",
        "send them as the model wrote them, or set `malformed_history: repair`. As a 502: see below",
    ),
    "method_not_allowed": Told("405", "the path doesn't take this method", "the header `allow` says which it takes"),
    "missing_required_parameter": Told(
        "400", "a field isn't there that has to be", "the message says what it should be"
    ),
    "missing_token": Told(
        "401",
        "no token came, where clients [sign in](configuration.md#sign-in-with-oidc)",
        "send one as `Authorization: Bearer`",
    ),
    "model_not_found": Told(
        "404",
        "no model has this name, or this team may not ask it",
        "ask `GET /v1/models` which there are; add it to [`models` or `aliases`](configuration.md#models)",
    ),
    "object_above_max_properties": Told("400", "an object has too many members", "send fewer"),
    "origin_not_allowed": Told(
        "403",
        "a web page asks that isn't allowed to",
        "add its origin to [`allowed_origins`](configuration.md#web-pages), or give out keys",
    ),
    "parameter_withheld": Told(
        "400",
        "clients aren't trusted with a parameter",
        "leave it out, or change [`withheld`](parameters.md#what-clients-arent-trusted-with)",
    ),
    "property_name_above_max_length": Told("400", "a name in `metadata` is too long", "send a shorter one"),
    "rate_limit_exceeded": Told(
        "429",
        "the client, its team or the backend has as many requests as it may, or has used up its tokens",
        "wait as long as `Retry-After` says, if it is there; raise `requests_per_minute`, `concurrent_requests` or "
        "[the limit in tokens](configuration.md#limits-in-tokens)",
    ),
    "request_timeout": Told(
        "408", "the request didn't arrive in time", "look at the network, or at a client that sends slowly"
    ),
    "request_too_large": Told("413", "the body is larger than `limits.max_body_bytes`", "send less, or raise it"),
    "string_above_max_length": Told("400", "a text is too long", "the message says how long it may be"),
    "tokens_not_counted": Told(
        "404",
        "Messages: the model's server counts no tokens",
        "count by yourself; [servers](servers.md) says which count",
    ),
    "unknown_path": Told(
        "404",
        "nothing is served at this path",
        "the message names what is; [`other_paths`](configuration.md#other-paths) opens more",
    ),
    "unknown_team": Told("403", "the key's team isn't in the settings", "add it to [`teams`](configuration.md#teams)"),
    "unsupported_parameter": Told(
        "400",
        "Responses: it would need a memory of earlier requests",
        "send the whole conversation ([Responses](responses.md#without-a-memory))",
    ),
    "upgrade_refused": Told(
        "403", "the client asks for a WebSocket or another protocol", "leave out the header `upgrade`"
    ),
}

ANSWER = {
    "invalid_response_text": Told(
        "502", "the text isn't the JSON that `response_format` asks for", "ask again, or [force it](forced-decoding.md)"
    ),
    "invalid_tool_arguments": Told(
        "502",
        "with `invalid_calls: error`: a call's arguments break its schema",
        "ask again, or [force calls](forced-decoding.md)",
    ),
    "malformed_tool_arguments": Told(
        "502",
        "a call's arguments are no JSON object, with `invalid_calls: error` or in a dialect that can't say such a call",
        "ask again, or [force calls](forced-decoding.md)",
    ),
    "missing_tool_call": Told(
        "502",
        "with `invalid_calls: error`: the request demands a call, and the model made none",
        "ask again, or [force calls](forced-decoding.md)",
    ),
    "unknown_tool_call": Told(
        "502", "with `invalid_calls: error`: a call of no offered tool", "ask again; [why it happens](no-tool-calls.md)"
    ),
}

BACKEND = {
    "backend_disconnected": Told(
        "502", "the connection broke before the answer was complete", "look at the log of the backend"
    ),
    "backend_key_missing": Told(
        "503", "the key for the backend can't be read", "look at the file that its `api_key` names"
    ),
    "backend_key_refused": Told("502", "the backend refuses the gateway's own key", "look at its `api_key`"),
    "backend_overloaded": Told("503", "the backend has `max_requests` under way", "try again in a moment, or raise it"),
    "backend_timeout": Told(
        "504",
        "the backend has sent nothing for too long",
        "look at its queue; [which limits there are](behaviour.md#the-table)",
    ),
    "backend_unknown": Told(
        "503",
        "Envoy doesn't know the backend yet",
        "see [changes of the configuration](observability.md#changes-of-the-configuration)",
    ),
    "backend_unreachable": Told(
        "503", "no connection to the backend", "the message says whether to look at its server, its TLS or its name"
    ),
    "bad_gateway": Told(
        "502", "the backend's answer can't be read, or it answered 502 itself", "look at the log of the backend"
    ),
    "gateway_timeout": Told("504", "the backend answered 504", "look at the log of the backend"),
    "not_found": Told("404", "the backend answered 404", "look at `upstream_model` and at the path"),
    "response_too_large": Told(
        "502",
        "a whole answer is larger than `limits.max_body_bytes`",
        "ask for a stream or for a shorter answer, or raise it",
    ),
    "service_unavailable": Told("503", "the backend answered 503", "try again; look at its log"),
}

GATEWAY = {
    "gateway_error": Told(
        "any", "Envoy refused the request for a reason without a name here", "the access log has it, as `details`"
    ),
    "gateway_overloaded": Told("503", "Envoy has as much to do as it can hold", "try again in a moment; add a gateway"),
    "host_ignores_overrides": Told(
        "503", "somebody else's Envoy ignores `mode_override`", "[set up the host](hosts.md)"
    ),
    "overloaded": Told(
        "503", "the processor has too much to read at once", "try again in a moment; add workers or a gateway"
    ),
    "processor_failed": Told(
        "500", "the processor ended while the request was under way, or has a bug", "look at its log"
    ),
    "processor_overloaded": Told(
        "503", "the processor has as much to do as it can", "try again in a moment; add workers or a gateway"
    ),
    "processor_timeout": Told("503", "the processor didn't reply in time", "try again; look at its core and its log"),
    "processor_unavailable": Told("503", "the processor isn't running", "start it, or look why it ended"),
    "signing_keys_unavailable": Told(
        "503", "Envoy has no keys to check tokens with", "try again; look whether `jwt.jwks.url` can be reached"
    ),
    "token_limits_unavailable": Told(
        "503",
        "with `when_down: refuse`: what counts tokens can't be reached",
        "look at `rate_limit_service` ([operations](operations.md#limits-in-tokens))",
    ),
    "sent_ahead": Told(
        "503", "somebody else's Envoy has sent the request before it was read", "[set up the host](hosts.md)"
    ),
}

RUNS = {
    "character_unavailable": Told("503", "the character's model has just gone", "try again; look at the runner's log"),
    "gateway_unreachable": Told("503", "the runner can't get through to Envoy", "try again; look whether Envoy runs"),
    "internal_error": Told("500", "a bug in the runner", "look at its log, and report it"),
    "run_timeout": Told("504", "the run took longer than `runs.seconds`", "raise it, or bound the tools"),
    "run_too_large": Told(
        "502", "calls and results came to more than `runs.retained_bytes`", "raise it, or have tools say less"
    ),
    "too_many_rounds": Told(
        "502",
        "the model called tools in each of `runs.rounds` rounds",
        "raise it, or prompt the model to come to an end",
    ),
}

SECTIONS = {
    "Of a request": REQUEST,
    "Of what a model wrote": ANSWER,
    "Of a backend": BACKEND,
    "Of the gateway itself": GATEWAY,
    "Of tools that run on the gateway's side": RUNS,
}

_HEAD = """\
# Error codes

Every `code` that an error of the gateway can have: its status, what it means, and what to do. The error's message says
more: which field is wrong, and what would be right. [What happens when something goes wrong](behaviour.md) goes from
the cause to the code, and says what clients do with it.

| dialect | an error | inside a stream |
| --- | --- | --- |
| chat completions | `{"error": {"message", "type", "param", "code"}}` | an event, whose `code` is the status |
| [Responses](responses.md) | the same | `response.failed` |
| [Messages](messages.md#errors) | `{"type": "error", "error": {"type", "message"}}`: no `code` | an `error` event |

A backend's own code goes on to the client where its message does (400, 413 and 422), and may be one that isn't here.

This page is made by `python -m tests.generate_error_docs`, and held to the code by `tests/test_error_docs.py`.
"""


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(
        f"\n## {heading}\n\n| `code` | status | what it means | what to do |\n| --- | --- | --- | --- |\n"
        + "".join(f"| `{code}` | {told.status} | {told.means} | {told.do} |\n" for code, told in sorted(codes.items()))
        for heading, codes in SECTIONS.items()
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(PAGE.parent.parent))

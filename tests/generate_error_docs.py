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
    "array_above_max_length": Told("400", "an array has too many elements", "send fewer; the message gives the limit"),
    "bad_request": Told(
        "4xx",
        "Envoy refuses the request for another reason",
        "look for broken HTTP, from the client or from a proxy in front of the gateway",
    ),
    "batch_limit_exceeded": Told(
        "429",
        "batch requests already use all of their places at the backend, or this client its share of them",
        "wait as long as `Retry-After` says; raise [`max_batch_requests`](configuration.md#interactive-and-batch)",
    ),
    "context_length_exceeded": Told(
        "400",
        "prompt and `max_tokens` don't fit into the model's context",
        "shorten the conversation, ask for fewer tokens, or start vLLM with a larger `--max-model-len`",
    ),
    "decimal_above_max_value": Told("400", "a number is too large", "the message gives the limit"),
    "decimal_below_min_value": Told("400", "a number is too small", "the message gives the limit"),
    "empty_array": Told("400", "an array is empty", "put something in, or leave it out"),
    "empty_string": Told("400", "a string is empty", "put something in, or leave it out"),
    "integer_above_max_value": Told("400", "an integer is too large", "the message gives the limit"),
    "integer_below_min_value": Told("400", "an integer is too small", "the message gives the limit"),
    "invalid_api_key": Told(
        "401",
        "the request has no API key, or an unknown one",
        "send one as `Authorization: Bearer`; [make one](configuration.md#the-whole)",
    ),
    "invalid_form": Told("400", "a form (`multipart/form-data`) can't be read", "the message says where it goes wrong"),
    "invalid_function_parameters": Told("400", "a tool's schema isn't valid", "the message says where it goes wrong"),
    "invalid_json": Told("400", "the body isn't a JSON object", "the message says where it goes wrong"),
    "invalid_token": Told(
        "401",
        "the gateway doesn't accept the token",
        "the message says why; [sign in](configuration.md#sign-in-with-oidc) again",
    ),
    "invalid_type": Told("400", "a field has the wrong type", "the message says which it should have"),
    "invalid_value": Told("400", "a field has a value that isn't allowed", "the message says what is"),
    "malformed_tool_arguments": Told(
        "400",
        "with `malformed_history: error`: the arguments of an earlier call aren't a JSON object",
        "send them as the model wrote them, or set `malformed_history: repair`. As a 502: see below",
    ),
    "method_not_allowed": Told("405", "the path doesn't take this method", "the header `allow` lists those it takes"),
    "missing_required_parameter": Told("400", "a required field is missing", "the message says what it should be"),
    "missing_token": Told(
        "401",
        "the request has no token, although clients [sign in](configuration.md#sign-in-with-oidc)",
        "send one as `Authorization: Bearer`",
    ),
    "model_not_found": Told(
        "404",
        "no model has this name, or the client's team may not use it",
        "`GET /v1/models` lists them; add it to [`models` or `aliases`](configuration.md#models)",
    ),
    "object_above_max_properties": Told("400", "an object has too many members", "send fewer"),
    "origin_not_allowed": Told(
        "403",
        "the request comes from a web page that isn't allowed",
        "add its origin to [`allowed_origins`](configuration.md#web-pages), or give out keys",
    ),
    "parameter_withheld": Told(
        "400",
        "clients aren't trusted with this parameter",
        "leave it out, or change [`withheld`](parameters.md#what-clients-arent-trusted-with)",
    ),
    "property_name_above_max_length": Told("400", "a name in `metadata` is too long", "send a shorter one"),
    "rate_limit_exceeded": Told(
        "429",
        "the client, its team or the backend has reached its limit of requests or tokens",
        "wait as long as `Retry-After` says, if the answer has it (of a limit per minute or day it says when one more "
        "is let in); raise `requests_per_minute`, `concurrent_requests` or "
        "[the limit in tokens](configuration.md#limits-in-tokens)",
    ),
    "request_timeout": Told(
        "408", "the request didn't arrive in time", "check the network, and whether the client sends slowly"
    ),
    "request_too_large": Told(
        "413", "the body is larger than `limits.max_body_bytes`", "send less, or raise the limit"
    ),
    "string_above_max_length": Told("400", "a string is too long", "the message gives the limit"),
    "tokens_not_counted": Told(
        "404",
        "Messages: the model's server can't count tokens",
        "count them yourself; [servers](servers.md) says which servers can",
    ),
    "unknown_path": Told(
        "404",
        "nothing is served at this path",
        "the message lists the paths; [`other_paths`](configuration.md#other-paths) adds more",
    ),
    "unknown_team": Told(
        "403", "the key's team isn't in the configuration", "add it to [`teams`](configuration.md#teams)"
    ),
    "unsupported_parameter": Told(
        "400",
        "Responses: the parameter would need a memory of earlier requests",
        "send the whole conversation ([Responses](responses.md#without-a-memory))",
    ),
    "upgrade_refused": Told(
        "403", "the client asks for a WebSocket or another protocol", "don't send the header `upgrade`"
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
        "a call's arguments aren't a JSON object, with `invalid_calls: error` or in a dialect that can't express such "
        "a call",
        "ask again, or [force calls](forced-decoding.md)",
    ),
    "missing_tool_call": Told(
        "502",
        "with `invalid_calls: error`: the request demands a call, but the model made none",
        "ask again, or [force calls](forced-decoding.md)",
    ),
    "unknown_tool_call": Told(
        "502",
        "with `invalid_calls: error`: a call of a tool that wasn't offered",
        "ask again; [why it happens](no-tool-calls.md)",
    ),
}

BACKEND = {
    "backend_disconnected": Told(
        "502", "the connection broke before the answer was complete", "look at the backend's log"
    ),
    "backend_key_missing": Told(
        "503", "the gateway can't read its key for the backend", "check the file that the backend's `api_key` names"
    ),
    "backend_key_refused": Told("502", "the backend refuses the gateway's own key", "check the backend's `api_key`"),
    "backend_overloaded": Told(
        "503", "the backend already has `max_requests` requests under way", "try again in a moment, or raise the limit"
    ),
    "backend_timeout": Told(
        "504",
        "the backend has sent nothing for too long",
        "look at its queue; [the limits](behaviour.md#the-table)",
    ),
    "backend_unknown": Told(
        "503",
        "Envoy doesn't know the backend yet",
        "see [changes of the configuration](observability.md#changes-of-the-configuration)",
    ),
    "backend_unreachable": Told(
        "503", "no connection to the backend", "the message says whether to check its server, its TLS or its name"
    ),
    "bad_gateway": Told(
        "502", "the gateway can't read the backend's answer, or the backend answered 502", "look at the backend's log"
    ),
    "gateway_timeout": Told("504", "the backend answered 504", "look at the backend's log"),
    "not_found": Told("404", "the backend answered 404", "check `upstream_model` and the path"),
    "response_too_large": Told(
        "502",
        "an answer that isn't streamed is larger than `limits.max_body_bytes`",
        "ask for a stream or a shorter answer, or raise the limit",
    ),
    "service_unavailable": Told("503", "the backend answered 503", "try again; look at its log"),
}

GATEWAY = {
    "gateway_error": Told(
        "any", "Envoy refused the request for a reason that has no code of its own", "see `details` in the access log"
    ),
    "gateway_overloaded": Told(
        "503", "Envoy has more to do than it can take on", "try again in a moment; add a gateway"
    ),
    "host_ignores_overrides": Told(
        "503", "somebody else's Envoy ignores `mode_override`", "[set up the host](hosts.md)"
    ),
    "overloaded": Told(
        "503", "the processor has more to read than it can take on", "try again in a moment; add workers or a gateway"
    ),
    "processor_failed": Told(
        "500", "the processor ended while the request was under way, or has a bug", "look at its log"
    ),
    "processor_overloaded": Told(
        "503", "the processor has more to do than it can take on", "try again in a moment; add workers or a gateway"
    ),
    "processor_timeout": Told("503", "the processor didn't reply in time", "try again; check its CPU use and its log"),
    "processor_unavailable": Told("503", "the processor isn't running", "start it, or find out why it ended"),
    "signing_keys_unavailable": Told(
        "503", "Envoy has no keys to check tokens with", "try again; check that Envoy can reach `jwt.jwks.url`"
    ),
    "rate_limits_unavailable": Told(
        "503",
        "with `when_down: refuse`: Envoy can't reach the service that counts requests and tokens",
        "check `rate_limit_service` ([operations](operations.md#limits-that-a-service-counts))",
    ),
    "sent_ahead": Told(
        "503",
        "somebody else's Envoy sent the request on before the processor had read it",
        "[set up the host](hosts.md)",
    ),
}

RUNS = {
    "character_unavailable": Told(
        "503", "the character's model has just been removed", "try again; look at the runner's log"
    ),
    "gateway_unreachable": Told("503", "the runner can't reach Envoy", "try again; check that Envoy is running"),
    "internal_error": Told("500", "a bug in the runner", "look at its log, and report it"),
    "run_timeout": Told("504", "the run took longer than `runs.seconds`", "raise the limit, or make the tools faster"),
    "run_too_large": Told(
        "502", "calls and results came to more than `runs.retained_bytes`", "raise the limit, or make tools return less"
    ),
    "too_many_rounds": Told(
        "502",
        "the model called tools in each of `runs.rounds` rounds",
        "raise the limit, or prompt the model to finish sooner",
    ),
}

SECTIONS = {
    "Requests": REQUEST,
    "What a model wrote": ANSWER,
    "Backends": BACKEND,
    "The gateway itself": GATEWAY,
    "Tools that run on the gateway's side": RUNS,
}

_HEAD = """\
# Error codes

Every `code` that an error of the gateway can have: its status, what it means, and what to do. The error's message says
more: which field is wrong, and what would be right. [What happens when something goes wrong](behaviour.md) leads from
the cause to the code, and says how clients react.

| dialect | the error | inside a stream |
| --- | --- | --- |
| chat completions | `{"error": {"message", "type", "param", "code"}}` | an event, whose `code` is the status |
| [Responses](responses.md) | the same | `response.failed` |
| [Messages](messages.md#errors) | `{"type": "error", "error": {"type", "message"}}`: no `code` | an `error` event |

With 400, 413 and 422 the client gets the backend's own message and code, which may be one that isn't listed here.

`python -m tests.generate_error_docs` writes this page, and `tests/test_error_docs.py` compares it with the code.
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

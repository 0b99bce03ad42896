"""What clients read when Envoy itself answers: the error JSON of their dialect, with what happened and what to do.

Envoy names the reason of every reply of its own in `response.code_details`; the names below were collected from
Envoy 1.40. The processor's ImmediateResponses pass here as well: they already are error JSON, are known by the
prefix of their details, and must never be touched. A format for all replies (`body_format`) would touch them; that
is why there are only mappers, of which the first that matches decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus

from envoy_data_plane.envoy.config.accesslog import v3 as accesslog
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.access_loggers.filters.cel.v3 import ExpressionFilter
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.google.protobuf import Struct

from extproc.config import Config
from extproc.contract.errors import ApiError, in_seconds
from extproc.envoy.clients import denials
from extproc.envoy.extensions import packed
from extproc.envoy.limit_headers import is_refused_by
from extproc.envoy.token_check.replies import refusals
from extproc.envoy.web_pages import REFUSED
from extproc.exchange.admission import CHALLENGE, WHERE
from extproc.names import MESSAGES_PATH, METADATA_NAMESPACE, REPLY_DETAILS, REPLY_HEADER, without_version
from extproc.surfaces import CHAT, MESSAGES, RESPONSES, Surface

_PATH = "%PATH(NQ:PATH):200%"
"""The request's path as it was compared with the routes, without its query, and cut: it may be 60 kB."""


@dataclass(frozen=True, slots=True)
class LocalReply:
    """One row of the table."""

    when: str
    """A CEL expression over Envoy's reply."""
    code: str
    message: str
    """Envoy fills in its %OPERATORS% and escapes what they give."""
    type: str = "server_error"
    status: int | None = None
    """Sent instead of Envoy's status."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Header fields that the reply gets."""
    after_processor: bool = False
    """It takes the place of an answer that the processor has seen, or would have: nobody but the client gets it."""


AGAIN = {"retry-after": "1"}
"""For clients that wait as they are told: what is too much now may not be in a second."""


def local_replies(config: Config, *, silence: timedelta, processing: timedelta) -> hcm.LocalReplyConfig:
    """`silence` is how long a backend may send nothing, `processing` how long the processor may take."""
    replies = _replies(config, in_seconds(silence.total_seconds()), in_seconds(processing.total_seconds()))
    # The processor's own, and what is allowed somewhere, which is told without words.
    untouched = hcm.ResponseMapper(filter=_filter(f"{_begins(REPLY_DETAILS)} || response.code == 204"))
    told = [_mapper(reply, surface) for reply in replies for surface in (MESSAGES, CHAT)]
    return hcm.LocalReplyConfig(mappers=[untouched, *told])


def _of_global_limits() -> Iterator[LocalReply]:
    # As Envoy's filter has it, which extproc.envoy.limit_headers makes into what clients read.
    again = {"retry-after": "%RESP(x-ratelimit-reset)%"}
    yield LocalReply(
        f"{_is('request_rate_limited')} && {is_refused_by('tokens')}",
        "rate_limit_exceeded",
        "The tokens of this client, or of all of its team, are used up for this minute or this day: the header "
        "x-ratelimit-limit-tokens tells how many there are, and retry-after when there are new ones.",
        type="tokens",
        fields=again,
    )
    yield LocalReply(
        f"{_is('request_rate_limited')} && {is_refused_by('requests')}",
        "rate_limit_exceeded",
        "This client, or all of its team, has sent as many requests as it may in this minute: the header "
        "x-ratelimit-limit-requests tells how many these are, and retry-after when there may be more.",
        type="requests",
        fields=again,
    )
    yield LocalReply(
        _is("rate_limiter_error"),
        "rate_limits_unavailable",
        "The service that counts requests and tokens can't be reached, and nobody is served without it. Check that it "
        "runs, and try again in a moment.",
        status=503,
        fields=AGAIN,
    )


def _replies(config: Config, silence: str, processing: str) -> Iterator[LocalReply]:
    limits, teams = config.limits, bool(config.rates_of_teams)
    whose = "of this client" if config.jwt is not None else "with this key"
    if config.global_limits:
        yield from _of_global_limits()
    max_body_bytes = limits.max_body_bytes
    backend = "the backend '%UPSTREAM_CLUSTER%'"
    # Envoy's own words for it name addresses.
    logged = "; the access log has the details, under request id %REQ(X-REQUEST-ID)%"
    for policy, error in denials(config).items():
        yield _not_let_in(_is(f"rbac_access_denied_matched_policy[{policy}]"), error)
    for beginning, error in refusals(config.jwt) if config.jwt is not None else ():
        yield _not_let_in(_begins(beginning), error)
    yield LocalReply(
        # A limit that the operator has added behind the processor (docs/envoy.md): ours comes before it.
        f"({_is('local_rate_limited')} && '{METADATA_NAMESPACE}' in metadata.filter_metadata) || "
        + _is("request_rate_limited"),
        "rate_limit_exceeded",
        "Too many requests of this kind: a limit of this gateway is reached. Try again later.",
        type="requests",
    )
    yield LocalReply(
        _is("local_rate_limited"),
        "rate_limit_exceeded",
        # Envoy doesn't say which of them it was.
        f"Too many requests {whose}, or of all of its team. Try again when retry-after says, or raise "
        "requests_per_minute, of the team or of limits."
        if teams
        else f"Too many requests {whose}: at most {limits.requests_per_minute} a minute are allowed. "
        "Try again when retry-after says, or raise limits.requests_per_minute.",
        type="requests",  # retry-after: extproc.envoy.limit_headers
    )
    yield LocalReply(
        "response.code == 404 && " + _begins("route_not_found", "cluster_not_found"),
        "unknown_path",
        f"Unknown path: {_PATH}. {WHERE} What else goes to the backend, other_paths in the gateway's settings says.",
        type="invalid_request_error",
    )
    yield LocalReply(
        f"response.code == {REFUSED} && " + _is("direct_response"),
        "origin_not_allowed",
        "The web page %REQ(ORIGIN):200% may not use this gateway. Those who run it can add its origin to "
        "allowed_origins in the gateway's settings, or give out API keys.",
        type="invalid_request_error",
    )
    yield LocalReply(
        "response.code == 405 && " + _is("direct_response"),
        "method_not_allowed",
        "%REQ(:METHOD):20% isn't allowed here: models are asked with POST, and for other paths the "
        "header allow tells what is.",
        type="invalid_request_error",
    )
    yield LocalReply(
        _is("upgrade_failed"),
        "upgrade_refused",
        "The gateway speaks plain HTTP only: no WebSocket, nor another protocol to change to. Leave out the "
        "header upgrade.",
        type="invalid_request_error",
    )
    yield LocalReply(
        _is("request_payload_too_large"),
        "request_too_large",
        f"The request body is larger than {max_body_bytes} bytes, the most that this gateway accepts. "
        "Send less, or raise limits.max_body_bytes.",
        type="invalid_request_error",
    )
    yield LocalReply(
        _begins("upstream_reset_before_response_started{overflow"),
        "backend_overloaded",
        f"As many requests as {backend} may have at a time are under way. "
        "Try again in a moment, or raise max_requests in its settings.",
        fields=AGAIN,
    )
    yield LocalReply(
        _is("overload"),
        "gateway_overloaded",
        "The gateway has as much to do as it can hold. Try again in a moment.",
        fields=AGAIN,
    )
    yield LocalReply(
        # What gRPC calls CANCELLED and RESOURCE_EXHAUSTED: nobody has looked at the request.
        _begins("ext_proc_error_gRPC_error_1{", "ext_proc_error_gRPC_error_8{"),
        "processor_overloaded",
        "The processor that handles chat completions has as much to do as it can. Try again in a moment.",
        status=503,
        after_processor=True,
        fields=AGAIN,
    )
    yield LocalReply(
        _begins("upstream_reset_before_response_started{") + " && response.code_details.contains('TLS_error')",
        "backend_unreachable",
        f"No connection to {backend} by TLS. Check that its server speaks TLS, and that ca and sni in its settings fit "
        f"its certificate{logged}.",
    )
    yield LocalReply(
        _is("failed_to_inject_credential"),
        "backend_key_missing",
        f"The key for {backend} can't be read. Check the file that api_key in its settings names.",
        status=503,
    )
    yield LocalReply(
        _begins(
            "upstream_reset_before_response_started{remote_connection_failure",
            "upstream_reset_before_response_started{local_connection_failure",
        ),
        "backend_unreachable",
        f"No connection to {backend}. Check that its server is running and listens at its address{logged}.",
    )
    yield LocalReply(
        _begins("upstream_reset_before_response_started{connection_timeout"),
        "backend_unreachable",
        f"No connection to {backend}: it didn't answer. "
        f"Check that its server is running and that the network lets us reach it{logged}.",
    )
    yield LocalReply(
        _is("no_healthy_upstream"),
        "backend_unreachable",
        f"No server is known for {backend}. Check that the names in its address can be resolved.",
    )
    yield LocalReply(
        _is("cluster_not_found"),
        "backend_unknown",
        "Envoy doesn't know the backend of this model. If backends were added to the configuration, restart Envoy.",
    )
    yield LocalReply(
        _is("response_payload_too_large"),
        "response_too_large",
        f"The answer of {backend} is larger than {max_body_bytes} bytes, the most that this gateway can rewrite. "
        "Ask for a shorter one or for a stream, or raise limits.max_body_bytes.",
        status=502,
        after_processor=True,
    )
    yield LocalReply(
        _begins("upstream_reset_"),
        "backend_disconnected",
        f"The connection to {backend} broke before its answer was complete. "
        f"The log of its server may tell why{logged}.",
        status=502,
    )
    yield LocalReply(
        "response.code == 504 && " + _begins("response_timeout", "stream_idle_timeout", "upstream_per_try"),
        "backend_timeout",
        f"The request was given up after {silence} without a byte from {backend}.",
    )
    yield LocalReply(
        _begins("ext_proc_error_gRPC_error_14"),
        "processor_unavailable",
        "The processor that handles chat completions can't be reached. Check that it is running, and try again.",
        status=503,
        fields=AGAIN,
        after_processor=True,
    )
    yield LocalReply(
        _is("ext_proc_error_per-message_timeout_exceeded"),
        "processor_timeout",
        f"The processor that handles chat completions didn't reply within {processing}. Try again later.",
        status=503,
        fields=AGAIN,
        after_processor=True,
    )
    yield LocalReply(
        _begins("ext_proc_error", "mismatch_between_content_length", "unhandled_message", "spurious_message"),
        "processor_failed",
        "The processor that handles chat completions failed. Its log tells why, under request id %REQ(X-REQUEST-ID)%.",
        status=500,
        after_processor=True,
    )
    yield LocalReply(
        "response.code == 408",
        "request_timeout",
        "The request was given up because it didn't arrive completely in time.",
        type="invalid_request_error",
    )
    yield LocalReply(
        "response.code < 500",
        "bad_request",
        "The gateway refused the request: %RESPONSE_CODE_DETAILS%.",
        type="invalid_request_error",
    )
    yield LocalReply("true", "gateway_error", f"The gateway couldn't handle the request{logged}.")


def _not_let_in(when: str, error: ApiError) -> LocalReply:
    fields = CHALLENGE if error.status == HTTPStatus.UNAUTHORIZED else AGAIN
    return LocalReply(
        when, error.code or error.type, error.message, type=error.type, status=error.status, fields=fields
    )


def _mark(code: str) -> core.HeaderValueOption:
    return core.HeaderValueOption(header=core.HeaderValue(key=REPLY_HEADER, value=code))


def _is(details: str) -> str:
    return f"response.code_details == '{details}'"


def _begins(*prefixes: str) -> str:
    return "(" + " || ".join(f"response.code_details.startsWith('{prefix}')" for prefix in prefixes) + ")"


def _filter(expression: str) -> accesslog.AccessLogFilter:
    return accesslog.AccessLogFilter(
        extension_filter=accesslog.ExtensionFilter(
            name="envoy.access_loggers.extension_filters.cel",
            typed_config=packed(ExpressionFilter(expression=expression)),
        )
    )


_ASKED = "('x-envoy-original-path' in request.headers ? request.headers['x-envoy-original-path'] : request.path)"
_OF_OTHERS = "|".join(without_version(route.path) for surface in (CHAT, RESPONSES) for route in surface.routes)
_OF_MESSAGES = (
    f"({_ASKED}.matches('^(/v1)?{without_version(MESSAGES_PATH)}([/?]|$)') || "
    f"('anthropic-version' in request.headers && !{_ASKED}.matches('^(/v1)?({_OF_OTHERS})/?([?]|$)')))"
)
"""Whether a request speaks Anthropic's dialect, as `admission.dialect_of` has it. Its path may have been rewritten for
a backend."""

_STATUS = {
    "rate_limit_exceeded": 429,
    "unknown_path": 404,
    "origin_not_allowed": 403,
    "request_too_large": 413,
    "backend_overloaded": 503,
    "gateway_overloaded": 503,
    "backend_unreachable": 503,
    "backend_timeout": 504,
}
"""Envoy's own, of the rows that leave it as it is: Anthropic's words for errors go by it."""


def _mapper(reply: LocalReply, surface: Surface) -> hcm.ResponseMapper:
    otherwise = 400 if reply.type == "invalid_request_error" else 500
    status = reply.status or _STATUS.get(reply.code, otherwise)
    error = ApiError(status, reply.message, reply.type, code=reply.code)
    return hcm.ResponseMapper(
        filter=_filter(f"({reply.when}) && {_OF_MESSAGES}" if surface is MESSAGES else reply.when),
        status_code=reply.status,
        headers_to_add=[
            *([] if reply.after_processor else [_mark(reply.code)]),
            *(
                core.HeaderValueOption(header=core.HeaderValue(key=name, value=value))
                for name, value in reply.fields.items()
            ),
        ],
        body_format_override=core.SubstitutionFormatString(json_format=Struct.from_dict(surface.error(error))),
    )

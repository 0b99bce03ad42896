"""What was found wrong upstream, as it can be reported: by hand, from results.json. A test compares the two."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One bug of one project."""

    project: str
    servers: tuple[str, ...]
    """Rows of the table that show it."""
    case: str
    invariant: str
    """Or none: the case itself says what is wrong."""
    sent: str
    came: str
    right: str
    """With the specification that says so."""
    seen: str
    """What a user notices."""
    envoy: tuple[str, int, bool] | None
    """Behind Envoy: the layout (or what was played), the client's status, and whether its response is whole. None: it
    wasn't tried there."""


_PROTO, _MODE = "external_processor.proto", "processing_mode.proto"
_SDK, _GCP, _GLOVEBOX = "envoy-extproc-sdk 0.1.1", "Google's callout SDK", "glovebox-egress-gateway 0.4.7"
_DUPLEX = "FULL_DUPLEX_STREAMED/FULL_DUPLEX_STREAMED"

FINDINGS = (
    Finding(
        _SDK,
        ("envoy-extproc-sdk",),
        "LAY-06",
        "INV-11",
        "response headers, to a service that does nothing (`REVEAL_EXTPROC_CHAIN` is on by default)",
        "`x-ext-procs-applied` set in `value`; so do `add_header`, `add_headers` and `form_immediate_response`",
        f"`raw_value`: {_PROTO}, HeaderMutation; envoyproxy/envoy#31555",
        "the header is there and empty. So is all that the SDK's helpers set: a refusal's content type, too",
        ("BUFFERED/BUFFERED", 200, True),
    ),
    Finding(
        _SDK,
        ("envoy-extproc-sdk-no-chain",),
        "UNK-05",
        "",
        "request headers that a handler refuses (`StopRequestProcessing`), with the body on its way behind them",
        "`immediate_response`, then a reply to the body as if nothing had been refused",
        f"the call is over with it: {_PROTO}, ImmediateResponse",
        "handlers run on for a request that they refused. In BUFFERED, where nothing is on its way, nothing else",
        ("refused", 403, True),
    ),
    Finding(
        _SDK,
        ("envoy-extproc-sdk-no-chain",),
        "LAY-20",
        "INV-04",
        "a body in FULL_DUPLEX_STREAMED, as `protocol_config` says",
        "a body's reply without `streamed_response`",
        f"`streamed_response`, or a refusal: {_MODE}, FULL_DUPLEX_STREAMED",
        "500 for each request with a body; where only the response is full duplex, 200 with a response that breaks off",
        (_DUPLEX, 500, True),
    ),
    Finding(
        _SDK,
        ("envoy-extproc-sdk-no-chain",),
        "LIV-10",
        "",
        "grpc.health.v1 Check",
        "UNKNOWN: the class is registered in place of an object of it, so that `Check` lacks an argument",
        "SERVING: gRPC health checking protocol",
        "probes and Envoy's `grpc_health_check` take a server that works for a dead one",
        None,
    ),
    Finding(
        _GCP,
        ("gcp-callouts-one-handler",),
        "LAY-01",
        "INV-03",
        "request headers, to a server that has no handler for them, as the README's first example",
        "a `ProcessingResponse` without content: a handler's None is left out of it",
        f"an empty `HeadersResponse`: {_PROTO}, ProcessingResponse (`validate.required`)",
        "500 for every request, as request headers are sent by default",
        ("NONE/NONE", 500, True),
    ),
    Finding(
        _GCP,
        ("gcp-callouts-quiet",),
        "END-03",
        "INV-03",
        "trailers, with `request_trailer_mode: SEND`",
        "a `ProcessingResponse` without content: there is no handler for trailers",
        f"`request_trailers`: {_PROTO}, ProcessingResponse",
        "500 for each request that has trailers",
        ("request trailers", 500, True),
    ),
    Finding(
        _GCP,
        ("gcp-callouts-basic",),
        "LAY-06",
        "INV-10",
        "a request with `content-length`, its body BUFFERED; to the sample `basic`",
        "another body, and the headers' reply has left `content-length` as it was",
        f"remove or correct it: {_MODE}, BUFFERED",
        "500, as the client or the upstream would get a body of another length than was told",
        ("BUFFERED/BUFFERED", 500, True),
    ),
    Finding(
        _GCP,
        ("gcp-callouts-quiet",),
        "LAY-20",
        "INV-04",
        "a body in FULL_DUPLEX_STREAMED, as `protocol_config` says",
        "a body's reply without `streamed_response`; `add_body_mutation` knows none",
        f"`streamed_response`, or a refusal: {_MODE}, FULL_DUPLEX_STREAMED",
        "500 for each request with a body; where only the response is full duplex, 200 with a response that breaks off",
        (_DUPLEX, 500, True),
    ),
    Finding(
        _GCP,
        ("gcp-callouts-quiet",),
        "MUT-09.5",
        "",
        "a buffered request of 5 MiB",
        "RESOURCE_EXHAUSTED: messages have at most 4 MiB",
        "a host may buffer more: the limit has to be said, or be the operator's to set",
        "500, and not a 413",
        ("a request of 5 MiB", 500, True),
    ),
    Finding(
        _GCP,
        ("gcp-callouts-basic",),
        "LAY-01",
        "INV-14",
        "request headers, to the sample `basic`",
        "`:authority` is set",
        f"it can't be, unless `mutation_rules` allow all routing: {_PROTO}, HeaderMutation",
        "the host stays as it was, without a word; the rest of the mutation takes effect",
        ("NONE/NONE", 200, True),
    ),
    Finding(
        _GLOVEBOX,
        ("glovebox-egress-gateway",),
        "LAY-31",
        "",
        "the response's body without its headers (`response_header_mode: SKIP`)",
        "UNKNOWN: an exception (a file that the headers would have made isn't there)",
        f"a reply or a refusal: {_PROTO}, ProcessingResponse",
        "nothing in its own configuration, which sends headers",
        None,
    ),
)

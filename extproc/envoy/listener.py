"""The listeners, that for clients and the inner one: HTTP settings, the processor's filter, the access log.

The filter's layout: the processor sees the whole request, then the head of the response, of which nothing more
unless it overrides the mode for this one exchange. `extproc.exchange` is written for this layout and no other.
"""

from __future__ import annotations

from datetime import timedelta

from envoy_data_plane.envoy.config.accesslog import v3 as accesslog
from envoy_data_plane.envoy.config.common.mutation_rules.v3 import HeaderMutation as Mutation
from envoy_data_plane.envoy.config.common.mutation_rules.v3 import HeaderMutationRemoveOnMatch
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.listener import v3 as listeners
from envoy_data_plane.envoy.config.route.v3 import RouteConfiguration
from envoy_data_plane.envoy.extensions.access_loggers.grpc.v3 import (
    CommonGrpcAccessLogConfig,
    HttpGrpcAccessLogConfig,
)
from envoy_data_plane.envoy.extensions.access_loggers.stream.v3 import StdoutAccessLog
from envoy_data_plane.envoy.extensions.filters.http.buffer.v3 import Buffer
from envoy_data_plane.envoy.extensions.filters.http.cors.v3 import Cors
from envoy_data_plane.envoy.extensions.filters.http.ext_proc import v3 as ext_proc
from envoy_data_plane.envoy.extensions.filters.http.header_mutation.v3 import HeaderMutation as HeaderMutationFilter
from envoy_data_plane.envoy.extensions.filters.http.header_mutation.v3 import Mutations
from envoy_data_plane.envoy.extensions.filters.http.router.v3 import Router
from envoy_data_plane.envoy.extensions.filters.listener.http_inspector.v3 import HttpInspector
from envoy_data_plane.envoy.extensions.filters.listener.tls_inspector.v3 import TlsInspector
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.extensions.http.early_header_mutation.header_mutation.v3 import HeaderMutation
from envoy_data_plane.envoy.type.matcher.v3 import (
    MetadataMatcher,
    MetadataMatcherPathSegment,
    StringMatcher,
    ValueMatcher,
)
from envoy_data_plane.google.protobuf import Struct

from extproc.config import Config
from extproc.envoy.addresses import listening, listening_socket
from extproc.envoy.clients import client_filters
from extproc.envoy.clusters import PROCESSOR
from extproc.envoy.extensions import extension, packed
from extproc.envoy.global_limits import global_limit_filters
from extproc.envoy.local_replies import local_replies
from extproc.envoy.routes import BUFFER, EXT_PROC, SILENCE, inner_routes
from extproc.envoy.sources import Sources
from extproc.envoy.tracing import tracing
from extproc.envoy.transport import for_clients
from extproc.envoy.web_pages import CORS
from extproc.names import (
    INNER_LAYOUT,
    LAYOUT,
    LAYOUT_METADATA,
    LEASE_KEY,
    LEASE_NAMESPACE,
    LIMITED_HEADER,
    METADATA_NAMESPACE,
    OWN_HEADERS,
    REPLY_HEADER,
)

PROCESSING = timedelta(seconds=5)
"""How long the processor may take for one message. Only its own work counts: a model's time is never inside."""

ANOTHER_TRY = timedelta(minutes=5)
"""The most that the processor may ask for instead, by `override_message_timeout`: when it lets a model try again, a
model's time does lie inside of a message. Envoy ignores what is longer, and without such a limit all that is asked."""

BUFFERED = 128 * 1024
"""Bytes of an answer that Envoy holds for a client that doesn't read, before it stops reading from the backend; and of
a request, until a filter asks for more (BUFFER in routes.py)."""

STREAMS_PER_CONNECTION = 100
"""Requests under way on one HTTP/2 connection; the others wait at the client, as RFC 9113 recommends no fewer."""

RESETS, RESETS_PER_SECOND = 200, 20
"""Requests that a client may take back on one connection, at once and in the long run, before the connection is closed.
An agent that is interrupted takes back a few; taking back is all that a rapid reset (CVE-2023-44487) does."""

HEADERS_TIMEOUT = timedelta(seconds=15)
"""For a TLS handshake, for the first byte on a connection, and for the head of a request, each."""

REQUEST_TIMEOUT = timedelta(seconds=60)
"""For a whole request: 32 MB at 4.5 Mbit/s. A body that doesn't go on holds memory for so long at most."""

IDLE_CONNECTION = timedelta(minutes=5)
"""Without a request. Longer than load balancers keep theirs (60 seconds mostly), so that they are the ones to close."""

FLUSH = timedelta(milliseconds=100)
"""Between the end of a request and the processor's hearing of it."""

ACCESS_LOG = {
    # What a client sends is cut: it may be 60 kB.
    "time": "%START_TIME%",
    "request_id": "%REQ(X-REQUEST-ID):128%",
    "method": "%REQ(:METHOD):20%",
    "path": "%PATH(NQ:PATH):200%",
    "route": "%ROUTE_NAME%",
    "traceparent": "%REQ(TRACEPARENT):64%",
    "status": "%RESPONSE_CODE%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "flags": "%RESPONSE_FLAGS%",
    "backend": "%UPSTREAM_CLUSTER%",
    "upstream": "%UPSTREAM_HOST%",
    "upstream_failure": "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
    "bytes_received": "%BYTES_RECEIVED%",
    "bytes_sent": "%BYTES_SENT%",
    "first_byte_ms": "%RESPONSE_DURATION%",
    "duration_ms": "%DURATION%",
    # What the processor has learned (model, token usage), and its latency by phase.
    "extproc": f"%DYNAMIC_METADATA({METADATA_NAMESPACE})%",
    "extproc_latency": f"%FILTER_STATE({EXT_PROC}:PLAIN)%",
}


def listener(config: Config, sources: Sources) -> listeners.Listener:
    manager = listeners.Filter(
        name="envoy.filters.network.http_connection_manager",
        typed_config=packed(_http_connection_manager(config, sources)),
    )
    return listeners.Listener(
        name="openai",
        address=listening(config.listen_address),
        # By this a pod that leaves shuts clients out and goes on being watched: `drain_listeners?inboundonly`.
        traffic_direction=core.TrafficDirection.INBOUND,
        per_connection_buffer_limit_bytes=BUFFERED,
        filter_chains=[
            listeners.FilterChain(
                filters=[manager],
                transport_socket=for_clients(config.tls, sources) if config.tls is not None else None,
                transport_socket_connect_timeout=HEADERS_TIMEOUT,
            )
        ],
        # It waits for the first bytes, which nothing else does: a connection that never says anything is closed.
        listener_filters=[_first_bytes(tls=config.tls is not None)],
        listener_filters_timeout=HEADERS_TIMEOUT,
    )


def inner_listener(config: Config, sources: Sources) -> listeners.Listener:
    """For the gateway's own requests, by a socket: a run's model rounds, and second tries (`extproc.names`).

    It asks for no key, and trusts what a request says of its client: only the runner and the processor get there.
    """
    manager = listeners.Filter(
        name="envoy.filters.network.http_connection_manager",
        typed_config=packed(_http_connection_manager(config, sources, inner=True)),
    )
    return listeners.Listener(
        name="inner",
        address=listening_socket(str(config.inner_socket)),
        # A gateway that leaves takes no new requests of clients: the runs that are under way go on by this.
        traffic_direction=core.TrafficDirection.OUTBOUND,
        per_connection_buffer_limit_bytes=BUFFERED,
        filter_chains=[listeners.FilterChain(filters=[manager])],
    )


def _first_bytes(*, tls: bool) -> listeners.ListenerFilter:
    if tls:
        return listeners.ListenerFilter(
            name="envoy.filters.listener.tls_inspector", typed_config=packed(TlsInspector())
        )
    return listeners.ListenerFilter(name="envoy.filters.listener.http_inspector", typed_config=packed(HttpInspector()))


def _http_connection_manager(config: Config, sources: Sources, *, inner: bool = False) -> hcm.HttpConnectionManager:
    routes = inner_routes(config) if inner else sources.routes(config)
    processing = _ext_proc(INNER_LAYOUT if inner else LAYOUT, several=config.workers != 1)
    return hcm.HttpConnectionManager(
        stat_prefix="inner" if inner else "openai",
        codec_type=hcm.HttpConnectionManagerCodecType.AUTO,
        http2_protocol_options=_http2(),
        route_config=routes if isinstance(routes, RouteConfiguration) else None,
        rds=routes if isinstance(routes, hcm.Rds) else None,
        http_filters=[
            _last_changes(),
            *([] if inner else _filters_of_clients(config, sources)),
            hcm.HttpFilter(name=BUFFER, typed_config=packed(Buffer(max_request_bytes=1)), disabled=True),
            hcm.HttpFilter(name=EXT_PROC, typed_config=packed(processing), disabled=True),
            *global_limit_filters(config, inner=inner),
            hcm.HttpFilter(name="envoy.filters.http.router", typed_config=packed(Router(suppress_envoy_headers=True))),
        ],
        local_reply_config=local_replies(config, silence=SILENCE, processing=PROCESSING),
        tracing=tracing(config.tracing, inner=inner) if config.tracing is not None else None,
        access_log=[_access_log(), _to_the_processor()],
        # The backend, and the replica, are the processor's choice: a client's headers of our own names go before
        # anything looks at them.
        early_header_mutation_extensions=[] if inner else [_without_own_headers()],
        # Who the client is, the connection says, not its x-forwarded-for. Its request id is kept, and every answer
        # shows the id.
        use_remote_address=not inner,
        preserve_external_request_id=True,
        always_set_request_id_in_response=True,
        server_header_transformation=hcm.HttpConnectionManagerServerHeaderTransformation.PASS_THROUGH,
        # A base URL that ends in a slash makes clients ask for /v1//chat/completions.
        normalize_path=True,
        merge_slashes=True,
        # Backends take %2F for a slash: what is no chat completion to us may not be one to them.
        path_with_escaped_slashes_action=hcm.HttpConnectionManagerPathWithEscapedSlashesAction.UNESCAPE_AND_FORWARD,
        # A request must arrive in reasonable time; for its answer, SILENCE in the routes decides.
        request_headers_timeout=HEADERS_TIMEOUT,
        request_timeout=REQUEST_TIMEOUT,
        stream_idle_timeout=SILENCE,
        common_http_protocol_options=core.HttpProtocolOptions(idle_timeout=IDLE_CONNECTION),
    )


def _filters_of_clients(config: Config, sources: Sources) -> list[hcm.HttpFilter]:
    return [
        # Before all that asks for a key: a browser's question has none, and its page may read why it is refused.
        hcm.HttpFilter(name=CORS, typed_config=packed(Cors())),
        *client_filters(config, sources.keys()),
    ]


def _without_own_headers() -> core.TypedExtensionConfig:
    own = HeaderMutationRemoveOnMatch(key_matcher=StringMatcher(prefix=OWN_HEADERS))
    return extension(
        "envoy.http.early_header_mutation.header_mutation", HeaderMutation(mutations=[Mutation(remove_on_match=own)])
    )


def _last_changes() -> hcm.HttpFilter:
    """The first filter, and so the last to see an answer: it removes the marks."""
    marks = [Mutation(remove=REPLY_HEADER), Mutation(remove=LIMITED_HEADER)]
    changes = HeaderMutationFilter(mutations=Mutations(response_mutations=marks))
    return hcm.HttpFilter(name="envoy.filters.http.header_mutation", typed_config=packed(changes))


def _http2() -> core.Http2ProtocolOptions:
    return core.Http2ProtocolOptions(
        max_concurrent_streams=STREAMS_PER_CONNECTION,
        initial_stream_window_size=BUFFERED,
        initial_connection_window_size=4 * BUFFERED,
        stream_reset_burst=RESETS,
        stream_reset_rate=RESETS_PER_SECOND,
    )


_ANOTHER_WORKER = core.RetryPolicy(
    retry_on="connect-failure,reset",
    num_retries=2,
    retry_back_off=core.BackoffStrategy(
        base_interval=timedelta(milliseconds=20), max_interval=timedelta(milliseconds=100)
    ),
)
"""A call that a worker takes along before its first word: nothing has come of it, and another worker can have it. Envoy
1.40 takes this for calls of its external processor; in `envoy_grpc` it is left unnoticed."""


def _ext_proc(layout: str, *, several: bool) -> ext_proc.ExternalProcessor:
    """`several`: there are other workers, when one is lost."""
    send, skip = ext_proc.ProcessingModeHeaderSendMode.SEND, ext_proc.ProcessingModeHeaderSendMode.SKIP
    return ext_proc.ExternalProcessor(
        grpc_service=core.GrpcService(
            envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=PROCESSOR),
            retry_policy=_ANOTHER_WORKER if several else None,
            initial_metadata=[core.HeaderValue(key=LAYOUT_METADATA, value=layout)],
        ),
        processing_mode=ext_proc.ProcessingMode(
            request_header_mode=send,
            request_body_mode=ext_proc.ProcessingModeBodySendMode.BUFFERED,
            request_trailer_mode=skip,
            # The processor asks for the rest when it wants it (extproc.exchange.layout.Layout.to_the_end).
            response_header_mode=skip,
            response_body_mode=ext_proc.ProcessingModeBodySendMode.NONE,
            response_trailer_mode=skip,
        ),
        # Without a list of allowed modes: Envoy compares its entries with the whole resulting mode, not the override.
        allow_mode_override=True,
        message_timeout=PROCESSING,
        max_message_timeout=ANOTHER_TRY,
        metadata_options=ext_proc.MetadataOptions(
            receiving_namespaces=ext_proc.MetadataOptionsMetadataNamespaces(
                untyped=[METADATA_NAMESPACE, LEASE_NAMESPACE]
            )
        ),
    )


def _has(namespace: str, key: str) -> accesslog.AccessLogFilter:
    matcher = MetadataMatcher(
        filter=namespace, path=[MetadataMatcherPathSegment(key=key)], value=ValueMatcher(present_match=True)
    )
    told = accesslog.MetadataFilter(matcher=matcher, match_if_key_not_found=False)
    return accesslog.AccessLogFilter(metadata_filter=told)


def _to_the_processor() -> accesslog.AccessLog:
    """Tells the processor when a request is over that counts against its client's share (`exchange.concurrency`), and
    how each ended that asked for an answer: only Envoy sees who cut it, and what passes the processor by."""
    to_the_processor = CommonGrpcAccessLogConfig(
        log_name="extproc",
        grpc_service=core.GrpcService(envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=PROCESSOR)),
        transport_api_version=core.ApiVersion.V3,
        buffer_flush_interval=FLUSH,
    )
    return accesslog.AccessLog(
        name="envoy.access_loggers.http_grpc",
        filter=accesslog.AccessLogFilter(
            or_filter=accesslog.OrFilter(filters=[_has(LEASE_NAMESPACE, LEASE_KEY), _has(METADATA_NAMESPACE, "mode")])
        ),
        typed_config=packed(HttpGrpcAccessLogConfig(common_config=to_the_processor)),
    )


def _access_log() -> accesslog.AccessLog:
    line = core.SubstitutionFormatString(json_format=Struct.from_dict(ACCESS_LOG))
    return accesslog.AccessLog(
        name="envoy.access_loggers.stdout", typed_config=packed(StdoutAccessLog(log_format=line))
    )

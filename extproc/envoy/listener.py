"""The listener that clients talk to: HTTP settings, the processor's filter, the access log.

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
from envoy_data_plane.envoy.extensions.access_loggers.stream.v3 import StdoutAccessLog
from envoy_data_plane.envoy.extensions.filters.http.ext_proc import v3 as ext_proc
from envoy_data_plane.envoy.extensions.filters.http.router.v3 import Router
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.extensions.http.early_header_mutation.header_mutation.v3 import HeaderMutation
from envoy_data_plane.envoy.type.matcher.v3 import StringMatcher
from envoy_data_plane.google.protobuf import Struct

from extproc.config import Config
from extproc.envoy.addresses import tcp
from extproc.envoy.clusters import PROCESSOR
from extproc.envoy.extensions import extension, packed
from extproc.envoy.local_replies import local_replies
from extproc.envoy.routes import EXT_PROC, SILENCE, route_configuration
from extproc.envoy.transport import for_clients
from extproc.names import METADATA_NAMESPACE, OWN_HEADERS

PROCESSING = timedelta(seconds=5)
"""How long the processor may take for one message. Only its own work counts: a model's time is never inside."""

ANOTHER_TRY = timedelta(minutes=5)
"""The most that the processor may ask for instead, by `override_message_timeout`: when it lets a model try again, a
model's time does lie inside of a message. Envoy ignores what is longer, and without such a limit all that is asked."""

ACCESS_LOG = {
    "time": "%START_TIME%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "method": "%REQ(:METHOD)%",
    "path": "%PATH(NQ:PATH)%",
    "traceparent": "%REQ(TRACEPARENT)%",
    "status": "%RESPONSE_CODE%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "flags": "%RESPONSE_FLAGS%",
    "backend": "%UPSTREAM_CLUSTER%",
    "upstream": "%UPSTREAM_HOST%",
    "bytes_received": "%BYTES_RECEIVED%",
    "bytes_sent": "%BYTES_SENT%",
    "first_byte_ms": "%RESPONSE_DURATION%",
    "duration_ms": "%DURATION%",
    # What the processor has learned (model, token usage), and its latency by phase.
    "extproc": f"%DYNAMIC_METADATA({METADATA_NAMESPACE})%",
    "extproc_latency": f"%FILTER_STATE({EXT_PROC}:PLAIN)%",
}


def listener(config: Config, directory: str | None = None) -> listeners.Listener:
    """`directory` is where Envoy finds the files of its secrets (`extproc.envoy.secrets`), unless in the bootstrap."""
    manager = listeners.Filter(
        name="envoy.filters.network.http_connection_manager", typed_config=packed(_http_connection_manager(config))
    )
    return listeners.Listener(
        name="openai",
        address=tcp(config.listen_address),
        # By this a pod that leaves shuts clients out and goes on being watched: `drain_listeners?inboundonly`.
        traffic_direction=core.TrafficDirection.INBOUND,
        # The bound of what is buffered for one exchange, requests and rewritten responses alike.
        per_connection_buffer_limit_bytes=config.limits.max_body_bytes,
        filter_chains=[
            listeners.FilterChain(
                filters=[manager],
                transport_socket=for_clients(config.tls, directory) if config.tls is not None else None,
            )
        ],
    )


def _http_connection_manager(config: Config) -> hcm.HttpConnectionManager:
    return hcm.HttpConnectionManager(
        stat_prefix="openai",
        codec_type=hcm.HttpConnectionManagerCodecType.AUTO,
        http2_protocol_options=_http2(config.limits.max_body_bytes),
        route_config=route_configuration(config),
        http_filters=[
            hcm.HttpFilter(name=EXT_PROC, typed_config=packed(_ext_proc()), disabled=True),
            hcm.HttpFilter(name="envoy.filters.http.router", typed_config=packed(Router(suppress_envoy_headers=True))),
        ],
        local_reply_config=local_replies(
            max_body_bytes=config.limits.max_body_bytes, silence=SILENCE, processing=PROCESSING
        ),
        access_log=[_access_log()],
        # The backend, and the replica, are the processor's choice: a client's headers of our own names go before
        # anything looks at them.
        early_header_mutation_extensions=[
            extension(
                "envoy.http.early_header_mutation.header_mutation", HeaderMutation(mutations=[_without(OWN_HEADERS)])
            )
        ],
        # Who the client is, the connection says, not its x-forwarded-for. Its request id is kept, and every answer
        # shows the id.
        use_remote_address=True,
        preserve_external_request_id=True,
        always_set_request_id_in_response=True,
        server_header_transformation=hcm.HttpConnectionManagerServerHeaderTransformation.PASS_THROUGH,
        # A base URL that ends in a slash makes clients ask for /v1//chat/completions.
        normalize_path=True,
        merge_slashes=True,
        # Backends take %2F for a slash: what is no chat completion to us may not be one to them.
        path_with_escaped_slashes_action=hcm.HttpConnectionManagerPathWithEscapedSlashesAction.UNESCAPE_AND_FORWARD,
        # A request must arrive in reasonable time; for its answer, SILENCE in the routes decides.
        request_headers_timeout=timedelta(seconds=30),
        request_timeout=timedelta(minutes=5),
        stream_idle_timeout=SILENCE,
    )


def _without(prefix: str) -> Mutation:
    return Mutation(remove_on_match=HeaderMutationRemoveOnMatch(key_matcher=StringMatcher(prefix=prefix)))


def _http2(max_body_bytes: int) -> core.Http2ProtocolOptions:
    # What Envoy buffers for an HTTP/2 exchange is bounded by the stream's window, not by the listener's limit.
    window = max(max_body_bytes, 65_535)
    return core.Http2ProtocolOptions(initial_stream_window_size=window, initial_connection_window_size=window)


def _ext_proc() -> ext_proc.ExternalProcessor:
    send, skip = ext_proc.ProcessingModeHeaderSendMode.SEND, ext_proc.ProcessingModeHeaderSendMode.SKIP
    return ext_proc.ExternalProcessor(
        grpc_service=core.GrpcService(envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=PROCESSOR)),
        processing_mode=ext_proc.ProcessingMode(
            request_header_mode=send,
            request_body_mode=ext_proc.ProcessingModeBodySendMode.BUFFERED,
            request_trailer_mode=skip,
            response_header_mode=send,
            response_body_mode=ext_proc.ProcessingModeBodySendMode.NONE,
            response_trailer_mode=send,
        ),
        # Without a list of allowed modes: Envoy compares its entries with the whole resulting mode, not the override.
        allow_mode_override=True,
        message_timeout=PROCESSING,
        max_message_timeout=ANOTHER_TRY,
        metadata_options=ext_proc.MetadataOptions(
            receiving_namespaces=ext_proc.MetadataOptionsMetadataNamespaces(untyped=[METADATA_NAMESPACE])
        ),
    )


def _access_log() -> accesslog.AccessLog:
    line = core.SubstitutionFormatString(json_format=Struct.from_dict(ACCESS_LOG))
    return accesslog.AccessLog(
        name="envoy.access_loggers.stdout", typed_config=packed(StdoutAccessLog(log_format=line))
    )

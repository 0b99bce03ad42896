"""Clusters: the processor, and one per backend under the backend's own name."""

from __future__ import annotations

from datetime import timedelta

from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.extensions.upstreams.http import v3 as upstreams
from envoy_data_plane.google.protobuf import Any

from extproc.config import Backend
from extproc.envoy.addresses import is_name, tcp, tcp_or_unix
from extproc.envoy.extensions import packed

PROCESSOR = "_processor"
"""The processor's cluster. The names of backends can't begin with an underscore."""

CONNECT_TIMEOUT = timedelta(seconds=5)
"""A SYN that is lost is sent again after 1 and 3 seconds: two of them may be lost before we give up."""

IDLE_BACKEND_CONNECTION = timedelta(seconds=4)
"""vLLM's HTTP server closes connections that were idle for 5 seconds. A request sent at that very moment is lost
and may not be repeated, so Envoy must be the first to close."""

CONCURRENT_EXCHANGES = 100_000
"""Envoy's default of 1024 requests per cluster would otherwise limit all backends together, at the processor."""


def backend_cluster(backend: Backend) -> cluster.Cluster:
    endpoint_address = tcp(backend.endpoint)
    return cluster.Cluster(
        name=backend.name,
        type=_discovery(endpoint_address),
        # A name with addresses of both families usually means a server that listens on the older one as well.
        dns_lookup_family=cluster.ClusterDnsLookupFamily.V4_PREFERRED,
        # Requests differ in cost by orders of magnitude: taking turns would let them pile up on one replica.
        lb_policy=cluster.ClusterLbPolicy.LEAST_REQUEST,
        connect_timeout=CONNECT_TIMEOUT,
        load_assignment=_one_endpoint(backend.name, endpoint_address),
        typed_extension_protocol_options=_protocol(
            upstreams.HttpProtocolOptionsExplicitHttpConfig(http_protocol_options=core.Http1ProtocolOptions()),
            core.HttpProtocolOptions(idle_timeout=IDLE_BACKEND_CONNECTION),
        ),
        # A long prompt means minutes without a byte: probes keep middleboxes from forgetting the connection, and
        # find a machine that has gone within 90 seconds instead of when the exchange times out.
        upstream_connection_options=cluster.UpstreamConnectionOptions(
            tcp_keepalive=core.TcpKeepalive(keepalive_time=60, keepalive_interval=10, keepalive_probes=3)
        ),
    )


def processor_cluster(address: str) -> cluster.Cluster:
    """`address` is the path of a unix socket, or host:port."""
    endpoint_address = tcp_or_unix(address)
    return cluster.Cluster(
        name=PROCESSOR,
        type=_discovery(endpoint_address),
        connect_timeout=timedelta(seconds=1),
        load_assignment=_one_endpoint(PROCESSOR, endpoint_address),
        typed_extension_protocol_options=_protocol(
            upstreams.HttpProtocolOptionsExplicitHttpConfig(http2_protocol_options=core.Http2ProtocolOptions())
        ),
        circuit_breakers=cluster.CircuitBreakers(
            thresholds=[
                cluster.CircuitBreakersThresholds(
                    max_requests=CONCURRENT_EXCHANGES, max_pending_requests=CONCURRENT_EXCHANGES
                )
            ]
        ),
    )


def _discovery(address: core.Address) -> cluster.ClusterDiscoveryType:
    return cluster.ClusterDiscoveryType.STRICT_DNS if is_name(address) else cluster.ClusterDiscoveryType.STATIC


def _one_endpoint(name: str, address: core.Address) -> endpoint.ClusterLoadAssignment:
    server = endpoint.LbEndpoint(endpoint=endpoint.Endpoint(address=address))
    return endpoint.ClusterLoadAssignment(
        cluster_name=name, endpoints=[endpoint.LocalityLbEndpoints(lb_endpoints=[server])]
    )


def _protocol(
    version: upstreams.HttpProtocolOptionsExplicitHttpConfig, common: core.HttpProtocolOptions | None = None
) -> dict[str, Any]:
    options = upstreams.HttpProtocolOptions(explicit_http_config=version, common_http_protocol_options=common)
    return {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": packed(options)}

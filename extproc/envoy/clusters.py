"""Clusters: the processor, and one per backend under the backend's own name."""

from __future__ import annotations

from datetime import timedelta

from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.endpoint import v3 as endpoint
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.extensions.load_balancing_policies.least_request.v3 import (
    LeastRequest,
    LeastRequestSelectionMethod,
)
from envoy_data_plane.envoy.extensions.upstreams.http import v3 as upstreams
from envoy_data_plane.google.protobuf import Any

from extproc.config import Address, Backend, KeysUrl
from extproc.envoy.addresses import is_name, tcp, tcp_or_unix, unix
from extproc.envoy.extensions import extension, packed
from extproc.envoy.failover import (
    CONCURRENT,
    PANIC,
    circuit_breakers,
    health_checks,
    outlier_detection,
    retry_policy,
)
from extproc.envoy.sources import Sources
from extproc.envoy.token_check import JWKS
from extproc.envoy.transport import to_backend, to_provider
from extproc.envoy.upstream_filters import upstream_filters
from extproc.names import AFFINITY_HEADER, RUNNER, worker_address

PROCESSOR = "_processor"
"""The processor's cluster. The names of backends can't begin with an underscore."""

COLLECTOR = "_collector"
"""The cluster of what takes spans."""

COUNTING = "_rate_limits"
"""The cluster of what counts requests and tokens for all Envoys."""

CONNECT_TIMEOUT = timedelta(seconds=5)
"""A SYN that is lost is sent again after 1 and 3 seconds: two of them may be lost before we give up."""

IDLE_BACKEND_CONNECTION = timedelta(seconds=4)
"""vLLM's HTTP server closes connections that were idle for 5 seconds. A request sent at that very moment is lost
and may not be repeated, so Envoy must be the first to close."""

STREAMS_PER_CONNECTION = 50
"""Calls on one connection to the processor, before Envoy opens one more. What breaks a connection breaks all calls on
it, and the answers that they rewrite."""

QUEUED_FRAMES = 1_000_000
"""What Envoy may have to tell the processor and couldn't send yet, in frames. Its own limits (10,000, and 1,000 of
those that end a stream) are meant for peers that don't read. But a client that goes leaves one of the latter for each
of its requests: 2,000 requests, dropped at once, would end the connection with everybody's calls on it."""

BUFFERED = 128 * 1024
"""Bytes of an answer that are read ahead for a client that is slower than the backend."""

LOAD_BOUND = 150
"""How much of the average load a replica may have, in percent, before affinity gives way: conversations beyond it go
elsewhere until it has less to do, and so does one that asks for much at once."""


def backend_cluster(backend: Backend, sources: Sources) -> cluster.Cluster:
    replicas = [_replica(backend, address) for address in backend.endpoints]
    made = cluster.Cluster(
        name=backend.name,
        type=_discovery(*(tcp(address) for address in backend.endpoints)),
        # A name with addresses of both families usually means a server that listens on the older one as well.
        dns_lookup_family=cluster.ClusterDnsLookupFamily.V4_PREFERRED,
        # Requests differ in cost by orders of magnitude: taking turns would let them pile up on one replica.
        lb_policy=cluster.ClusterLbPolicy.LEAST_REQUEST,
        common_lb_config=cluster.ClusterCommonLbConfig(
            healthy_panic_threshold=PANIC,
            # What is learned about a replica holds from the next request on; Envoy would collect it for a second.
            update_merge_window=timedelta(0),
        ),
        connect_timeout=CONNECT_TIMEOUT,
        per_connection_buffer_limit_bytes=BUFFERED,
        load_assignment=_assignment(backend.name, replicas),
        health_checks=health_checks(backend),
        # A server whose address the name has no more is to get nothing new, however well it is: a pod that is about to
        # end answers its checks to the last. What it has begun goes on.
        ignore_health_on_host_removal=True,
        outlier_detection=outlier_detection(),
        circuit_breakers=circuit_breakers(backend.max_requests),
        transport_socket=to_backend(backend, sources),
        typed_extension_protocol_options=_protocol(
            upstreams.HttpProtocolOptions(
                explicit_http_config=upstreams.HttpProtocolOptionsExplicitHttpConfig(
                    http_protocol_options=core.Http1ProtocolOptions()
                ),
                common_http_protocol_options=core.HttpProtocolOptions(idle_timeout=IDLE_BACKEND_CONNECTION),
                http_filters=upstream_filters(backend, sources),
                retry_policy=retry_policy(backend),
                hash_policy=[_by_conversation()] if backend.affinity else [],
            )
        ),
        # A long prompt means minutes without a byte: probes keep middleboxes from forgetting the connection, and
        # find a machine that has gone within 90 seconds instead of when the exchange times out.
        upstream_connection_options=cluster.UpstreamConnectionOptions(
            tcp_keepalive=core.TcpKeepalive(keepalive_time=60, keepalive_interval=10, keepalive_probes=3)
        ),
    )
    if backend.affinity:
        # When one of ten replicas goes, Maglev moves 1 in 200 of the conversations of the others; Envoy's ring hash, of
        # which each replica then gets a larger share, moves 1 in 20.
        made.lb_policy = cluster.ClusterLbPolicy.MAGLEV
        assert made.common_lb_config is not None  # set above
        made.common_lb_config.consistent_hashing_lb_config = cluster.ClusterCommonLbConfigConsistentHashingLbConfig(
            hash_balance_factor=LOAD_BOUND
        )
    return made


def processor_cluster(address: str, workers: int = 1) -> cluster.Cluster:
    """`address` is the path of a unix socket, or host:port; of several workers that of the first."""
    addresses = [tcp_or_unix(worker_address(address, number)) for number in range(workers)]
    made = cluster.Cluster(
        name=PROCESSOR,
        type=_discovery(*addresses),
        connect_timeout=timedelta(seconds=1),
        per_connection_buffer_limit_bytes=BUFFERED,
        load_assignment=_assignment(PROCESSOR, [endpoint.Endpoint(address=each) for each in addresses]),
        typed_extension_protocol_options=_protocol(
            upstreams.HttpProtocolOptions(
                explicit_http_config=upstreams.HttpProtocolOptionsExplicitHttpConfig(
                    http2_protocol_options=core.Http2ProtocolOptions(
                        max_concurrent_streams=STREAMS_PER_CONNECTION,
                        initial_stream_window_size=BUFFERED,
                        initial_connection_window_size=STREAMS_PER_CONNECTION * BUFFERED,
                        max_outbound_frames=QUEUED_FRAMES,
                        max_outbound_control_frames=QUEUED_FRAMES,
                    )
                )
            )
        ),
        # Envoy's default of 1024 would otherwise limit the requests of all backends together, at the processor.
        circuit_breakers=circuit_breakers(CONCURRENT),
    )
    if workers > 1:
        made.load_balancing_policy = _least_request()
    return made


def runner_cluster(path: str) -> cluster.Cluster:
    """`path` is that of its socket."""
    address = unix(path)
    return cluster.Cluster(
        name=RUNNER,
        type=_discovery(address),
        connect_timeout=timedelta(seconds=1),
        per_connection_buffer_limit_bytes=BUFFERED,
        load_assignment=_assignment(RUNNER, [endpoint.Endpoint(address=address)]),
        typed_extension_protocol_options=_protocol(
            upstreams.HttpProtocolOptions(
                explicit_http_config=upstreams.HttpProtocolOptionsExplicitHttpConfig(
                    http_protocol_options=core.Http1ProtocolOptions()
                ),
                common_http_protocol_options=core.HttpProtocolOptions(idle_timeout=IDLE_BACKEND_CONNECTION),
                # A connection that the runner closes at this very moment, or that it isn't there to take.
                retry_policy=route.RetryPolicy(retry_on="connect-failure,reset-before-request", num_retries=2),
            )
        ),
        circuit_breakers=circuit_breakers(CONCURRENT),
    )


def collector_cluster(address: Address) -> cluster.Cluster:
    """What takes spans. Of what can't be sent Envoy drops the oldest; no request waits for it."""
    return _beside(COLLECTOR, address, timedelta(seconds=1))


def jwks_cluster(url: str, sources: Sources) -> cluster.Cluster:
    """What publishes an identity provider's keys."""
    at = KeysUrl.parse(url)
    made = _beside(JWKS, Address(at.host, at.port), CONNECT_TIMEOUT)
    made.transport_socket = to_provider(at.host, sources)
    return made


def rate_limit_cluster(address: Address) -> cluster.Cluster:
    """What counts for all Envoys, by gRPC. It stays while there may be limits: what is under way still tells it."""
    made = _beside(COUNTING, address, timedelta(seconds=1))
    made.typed_extension_protocol_options = _protocol(
        upstreams.HttpProtocolOptions(
            explicit_http_config=upstreams.HttpProtocolOptionsExplicitHttpConfig(
                http2_protocol_options=core.Http2ProtocolOptions()
            )
        )
    )
    made.circuit_breakers = circuit_breakers(CONCURRENT)
    return made


def _beside(name: str, address: Address, connect_timeout: timedelta) -> cluster.Cluster:
    """A service that is no backend, at one address."""
    return cluster.Cluster(
        name=name,
        type=_discovery(tcp(address)),
        dns_lookup_family=cluster.ClusterDnsLookupFamily.V4_PREFERRED,
        connect_timeout=connect_timeout,
        load_assignment=_assignment(name, [endpoint.Endpoint(address=tcp(address), hostname=address.host)]),
    )


def _least_request() -> cluster.LoadBalancingPolicy:
    """Each exchange to the worker that has the fewest. All are looked at: of two that are drawn by lot, as Envoy has it
    otherwise, half of the time both are the same one where there are two."""
    settings = LeastRequest(selection_method=LeastRequestSelectionMethod.FULL_SCAN)
    name = "envoy.load_balancing_policies.least_request"
    return cluster.LoadBalancingPolicy(
        policies=[cluster.LoadBalancingPolicyPolicy(typed_extension_config=extension(name, settings))]
    )


def _discovery(*addresses: core.Address) -> cluster.ClusterDiscoveryType:
    """Among names, an IP address stands for itself."""
    named = any(map(is_name, addresses))
    return cluster.ClusterDiscoveryType.STRICT_DNS if named else cluster.ClusterDiscoveryType.STATIC


def _replica(backend: Backend, address: Address) -> endpoint.Endpoint:
    # What the Host header says, and SNI unless it is an address: one server may serve many names.
    hostname = backend.tls.sni if backend.tls is not None and backend.tls.sni is not None else address.host
    return endpoint.Endpoint(
        address=tcp(address),
        hostname=hostname,
        health_check_config=endpoint.EndpointHealthCheckConfig(hostname=hostname),
    )


def _assignment(name: str, servers: list[endpoint.Endpoint]) -> endpoint.ClusterLoadAssignment:
    replicas = [endpoint.LbEndpoint(endpoint=server) for server in servers]
    return endpoint.ClusterLoadAssignment(
        cluster_name=name, endpoints=[endpoint.LocalityLbEndpoints(lb_endpoints=replicas)]
    )


def _by_conversation() -> route.RouteActionHashPolicy:
    return route.RouteActionHashPolicy(header=route.RouteActionHashPolicyHeader(header_name=AFFINITY_HEADER))


def _protocol(options: upstreams.HttpProtocolOptions) -> dict[str, Any]:
    return {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": packed(options)}

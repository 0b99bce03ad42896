"""What keeps requests away from replicas that are ill, dead or full.

Four things work together, each where the others are blind:

    retries           save the request that meets a bad replica, before any byte of an answer
    outlier ejection  keeps the next requests away from it, within three of them
    health checks     find a replica that nobody uses, and bring one back that has recovered
    circuit breakers  say no at once when a backend has all that it can take

When no replica is left, all are tried: the checks may be wrong, and if not, the error says what really is.
"""

from __future__ import annotations

from datetime import timedelta

from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.extensions.retry.host.previous_hosts.v3 import PreviousHostsPredicate
from envoy_data_plane.envoy.type.v3 import Percent

from extproc.config import Backend
from extproc.envoy.addresses import is_ip
from extproc.envoy.extensions import packed

CHECK_EVERY = timedelta(seconds=5)
CHECK_AGAIN = timedelta(seconds=1)
"""After a failure, until it is clear which way it goes."""
CHECK_TIMEOUT = timedelta(seconds=3)
"""vLLM answers from the same loop that tokenizes and streams: a busy one may take a second or two. At its start Envoy
waits this long for a server that says nothing, and no longer, before it serves."""
FAILED_CHECKS = 3
READ_OF_ANSWER = 64 * 1024
"""Bytes of a check's answer in which words are looked for. A list of models has 500 for each."""

FAILURES = 3
"""Connections that fail, or answers 502, 503 or 504, one after the other, that eject a replica."""
SERVER_ERRORS = 10
"""The same for any 5xx: a 500 may well be the request's fault, and what is sent again and again by one client must not
take a replica from all the others."""
EJECTED_FOR = timedelta(seconds=30)
"""At first; as much longer with every further time, up to 5 minutes. A health check that succeeds ends it at once."""
LOOK_FOR_RETURNERS = timedelta(seconds=5)
LARGEST_SHARE_EJECTED = 50
"""Percent. Overload must not spread: those that are left would get the load of those that are ejected. Dead ones beyond
this share are left to health checks and retries."""

PANIC = Percent(value=1)
"""Below this percentage of usable replicas all are used: when there is none. Envoy's 50 would already send every second
request to a dead replica when half of them are gone."""

CONCURRENT = 100_000
"""In the place of limits of Envoy's that would come before `max_requests`, or count something that we don't limit."""


def health_checks(backend: Backend) -> list[core.HealthCheck]:
    asked = backend.health_check
    if asked is None:
        return []
    words = [core.HealthCheckPayload(text=asked.contains.encode().hex())] if asked.contains is not None else []
    return [
        core.HealthCheck(
            http_health_check=core.HealthCheckHttpHealthCheck(
                path=asked.path or backend.kind.health,
                receive=words,
                response_buffer_size=READ_OF_ANSWER if words else None,
            ),
            timeout=CHECK_TIMEOUT,
            interval=CHECK_EVERY,
            # Envoy would ask once a minute only until the first request, and learn too late what has come up.
            no_traffic_interval=CHECK_EVERY,
            unhealthy_edge_interval=CHECK_AGAIN,
            unhealthy_threshold=FAILED_CHECKS,
            # A new replica is used after its first check; one that was ill after one success.
            healthy_threshold=1,
            # vLLM closes connections that were idle for as long as our interval: each check has its own.
            reuse_connection=False,
        )
    ]


def outlier_detection() -> cluster.OutlierDetection:
    return cluster.OutlierDetection(
        consecutive_5xx=SERVER_ERRORS,
        consecutive_gateway_failure=FAILURES,
        enforcing_consecutive_gateway_failure=100,
        # Failures to connect are counted by themselves, not as the 503 that they would become.
        split_external_local_origin_errors=True,
        consecutive_local_origin_failure=FAILURES,
        base_ejection_time=EJECTED_FOR,
        interval=LOOK_FOR_RETURNERS,
        max_ejection_percent=LARGEST_SHARE_EJECTED,
        # Comparing the replicas' rates of success needs more requests than models get, and all of the same kind.
        enforcing_success_rate=0,
        enforcing_local_origin_success_rate=0,
    )


def circuit_breakers(max_requests: int) -> cluster.CircuitBreakers:
    return cluster.CircuitBreakers(
        thresholds=[
            cluster.CircuitBreakersThresholds(
                max_requests=max_requests,
                max_pending_requests=max_requests,  # they are waiting for their connection to open
                # Connections beyond the limit would make requests wait; Envoy allows three retries at a time, so that
                # all others would fail when a busy replica dies.
                max_connections=CONCURRENT,
                max_retries=max_requests,
            )
        ]
    )


def retry_policy(backend: Backend) -> route.RetryPolicy:
    """Another replica is asked as long as none can have begun to work on the request."""
    conditions = ["connect-failure", "reset-before-request"]
    # A 503 says: not now. Another replica, or another server behind the same name, may say otherwise; asking the same
    # one again at once would only add to its load, and the client knows from Retry-After when to come back.
    elsewhere = len(backend.endpoints) > 1 or not is_ip(backend.endpoints[0].host)
    if elsewhere:
        conditions.append("retriable-status-codes")
    return route.RetryPolicy(
        retry_on=",".join(conditions),
        retriable_status_codes=[503] if elsewhere else [],
        num_retries=2,
        retry_host_predicate=[
            route.RetryPolicyRetryHostPredicate(
                name="envoy.retry_host_predicates.previous_hosts", typed_config=packed(PreviousHostsPredicate())
            )
        ],
        # How often the choice is made again when it falls on a replica that was tried; it is made at random.
        host_selection_retry_max_attempts=20,
    )

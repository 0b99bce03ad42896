"""Limits that a service counts for all Envoys together: Envoy's global rate limit, behind the processor.

    before a request    the service is asked whether any tokens are left to its key and its team: it adds 0
                        then it counts the request: for the key, and for the team if the key may send it
    behind its answer   the service is told what that has cost, which the processor has put into the dynamic metadata

All are descriptors of one entry, whose key is the kind of the limit and whose value is the name of the key or the team
(the service's half is extproc.envoy.rate_limit_service). A descriptor whose metadata is missing isn't sent, so that
nothing counts where no answer came. What the gateway asks itself, round by round of a run, is no client's request, and
its tokens are counted and not asked for: the run has been let in.

Before the processor, where the buckets of each Envoy are (extproc.envoy.clients), the filter does nothing: Envoy 1.40
asks no service for a request whose cluster isn't known yet. So what the processor answers itself isn't counted here.

There are up to three filters. One tells clients of one limit alone, the nearest: by one for tokens and others for
requests they learn what is left of both. And the service counts for all descriptors of a call, even if one of them is
over its limit: by one filter for the requests of keys, and behind it one for those of teams, what a key is refused
counts for no team, so that no key uses up its team's limit by that.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.ratelimit import v3 as service
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.extensions.filters.http.ratelimit.v3 import (
    RateLimit,
    RateLimitXRateLimitHeadersRfcVersion,
)
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter
from envoy_data_plane.envoy.type.metadata.v3 import MetadataKey, MetadataKeyPathSegment
from envoy_data_plane.envoy.type.v3 import HttpStatus, StatusCode

from extproc.config import Config
from extproc.config.global_limits import GlobalLimit, Of, RateLimitService, Whose
from extproc.envoy.clusters import COUNTING
from extproc.envoy.extensions import packed
from extproc.envoy.limit_headers import limit_headers, refused_by
from extproc.exchange.cost import TOTAL
from extproc.names import LIMITS_DOMAIN, METADATA_NAMESPACE


def global_limit_filters(config: Config, *, inner: bool) -> Iterator[HttpFilter]:
    """The filters, in their order, of what is limited; of the `inner` listener, where nothing is refused."""
    if config.rate_limit_service is None:
        return
    tokens, requests = _limits(config, "tokens"), _limits(config, "requests")
    if tokens and not inner:
        yield limit_headers("tokens")
    if tokens:
        asked = [] if inner else [_asked(limit) for limit in tokens]
        yield _filter("tokens", config.rate_limit_service, [*asked, *map(_told, tokens)])
    for limit in () if inner else requests:
        yield limit_headers("requests", whose=limit.whose)
        yield _filter("requests", config.rate_limit_service, [_counted(limit)], whose=limit.whose)


def _limits(config: Config, of: Of) -> list[GlobalLimit]:
    """One of each kind, those of keys before those of teams. Those of a day come first: of two that are used up,
    clients are told of the first."""
    kinds = {limit.kind: limit for limit in config.global_limits if limit.of == of}
    return sorted(kinds.values(), key=lambda limit: (limit.unit, limit.whose))


def _filter(
    of: Of, counting: RateLimitService, limits: list[route.RateLimit], *, whose: Whose | None = None
) -> HttpFilter:
    """`whose` all the limits are, if that is said."""
    refuses = counting.when_down == "refuse"
    filter_ = RateLimit(
        domain=LIMITS_DOMAIN,
        timeout=timedelta(seconds=counting.timeout_seconds),
        failure_mode_deny=refuses,
        status_on_error=HttpStatus(code=StatusCode.ServiceUnavailable) if refuses else None,
        disable_x_envoy_ratelimited_header=True,
        enable_x_ratelimit_headers=RateLimitXRateLimitHeadersRfcVersion.DRAFT_VERSION_03,
        response_headers_to_add=[refused_by(of)],
        rate_limit_service=service.RateLimitServiceConfig(
            transport_api_version=core.ApiVersion.V3,
            grpc_service=core.GrpcService(envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=COUNTING)),
        ),
        rate_limits=limits,
    )
    name = of if whose is None else f"{whose}_{of}"
    return HttpFilter(name=f"extproc.{name}_limits", typed_config=packed(filter_))


def _asked(limit: GlobalLimit) -> route.RateLimit:
    return route.RateLimit(actions=[_name(limit)], hits_addend=route.RateLimitHitsAddend(number=0))


def _counted(limit: GlobalLimit) -> route.RateLimit:
    return route.RateLimit(actions=[_name(limit)])


def _told(limit: GlobalLimit) -> route.RateLimit:
    cost = f"%DYNAMIC_METADATA({METADATA_NAMESPACE}:{TOTAL})%"
    return route.RateLimit(
        actions=[_name(limit)], hits_addend=route.RateLimitHitsAddend(format=cost), apply_on_stream_done=True
    )


def _name(limit: GlobalLimit) -> route.RateLimitAction:
    key = MetadataKey(key=METADATA_NAMESPACE, path=[MetadataKeyPathSegment(key=limit.whose)])
    return route.RateLimitAction(
        metadata=route.RateLimitActionMetaData(
            descriptor_key=limit.kind, metadata_key=key, source=route.RateLimitActionMetaDataSource.DYNAMIC
        )
    )

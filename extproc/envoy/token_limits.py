"""Limits in tokens, which a service counts for all Envoys together: Envoy's global rate limit, behind the processor.

    before a request    the service is asked whether anything is left to its key and its team: it adds 0
    behind its answer   the service is told what that has cost, which the processor has put into the dynamic metadata

Both are descriptors of one entry, whose key is the kind of the limit and whose value is the name of the key or the team
(the service's half is extproc.envoy.rate_limit_service). A descriptor whose metadata is missing isn't sent, so that
nothing counts where no answer came. What the gateway asks itself, round by round of a run, is counted and not asked
for: the run has been let in.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.ratelimit import v3 as service
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.extensions.filters.http.ratelimit.v3 import RateLimit
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter
from envoy_data_plane.envoy.type.metadata.v3 import MetadataKey, MetadataKeyPathSegment
from envoy_data_plane.envoy.type.v3 import HttpStatus, StatusCode

from extproc.config import Config
from extproc.config.token_limits import Whose
from extproc.envoy.clusters import COUNTING
from extproc.envoy.extensions import packed
from extproc.exchange.cost import TOTAL
from extproc.names import LIMITS_DOMAIN, METADATA_NAMESPACE


def token_limit_filters(config: Config, *, inner: bool) -> list[HttpFilter]:
    """The filter, if there are such limits; of the `inner` listener, where nothing is refused."""
    if config.rate_limit_service is None or not config.token_limits:
        return []
    refuses = config.rate_limit_service.when_down == "refuse"
    filter_ = RateLimit(
        domain=LIMITS_DOMAIN,
        timeout=timedelta(seconds=config.rate_limit_service.timeout_seconds),
        failure_mode_deny=refuses,
        status_on_error=HttpStatus(code=StatusCode.ServiceUnavailable) if refuses else None,
        disable_x_envoy_ratelimited_header=True,
        rate_limit_service=service.RateLimitServiceConfig(
            transport_api_version=core.ApiVersion.V3,
            grpc_service=core.GrpcService(envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=COUNTING)),
        ),
        rate_limits=[*([] if inner else _asked(config)), *_told(config)],
    )
    return [HttpFilter(name="envoy.filters.http.ratelimit", typed_config=packed(filter_))]


def _asked(config: Config) -> Iterator[route.RateLimit]:
    for kind, whose in config.token_limit_kinds.items():
        yield route.RateLimit(actions=[_name(kind, whose)], hits_addend=route.RateLimitHitsAddend(number=0))


def _told(config: Config) -> Iterator[route.RateLimit]:
    cost = f"%DYNAMIC_METADATA({METADATA_NAMESPACE}:{TOTAL})%"
    for kind, whose in config.token_limit_kinds.items():
        yield route.RateLimit(
            actions=[_name(kind, whose)],
            hits_addend=route.RateLimitHitsAddend(format=cost),
            apply_on_stream_done=True,
        )


def _name(kind: str, whose: Whose) -> route.RateLimitAction:
    key = MetadataKey(key=METADATA_NAMESPACE, path=[MetadataKeyPathSegment(key=whose)])
    return route.RateLimitAction(
        metadata=route.RateLimitActionMetaData(
            descriptor_key=kind, metadata_key=key, source=route.RateLimitActionMetaDataSource.DYNAMIC
        )
    )

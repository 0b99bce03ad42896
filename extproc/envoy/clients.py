"""What Envoy itself refuses, and counts, by whose request it is: before the processor hears of it.

    key check    a header tells the client's name, or why it has none (extproc.envoy.key_check); where clients come with
                 tokens, of those that were verified (extproc.envoy.token_check)
    RBAC         a request without a name is a 401, counted as `http.openai.rbac.policy.POLICY.denied`
    rate limit   of the requests of one key, and of one team, in a minute; one more is a 429 with `retry-after`

Only with `api_keys` or `jwt` in the settings. The words of both answers are in local_replies.py. Each Envoy counts for
itself, without asking anybody. Where a service counts for all of them (extproc.envoy.global_limits), these buckets hold
while it is away, and keep from the processor most of what comes beyond a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.rbac import v3 as rbac
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.extensions.common.ratelimit import v3 as ratelimit
from envoy_data_plane.envoy.extensions.filters.http.local_ratelimit.v3 import LocalRateLimit
from envoy_data_plane.envoy.extensions.filters.http.lua.v3 import Lua
from envoy_data_plane.envoy.extensions.filters.http.rbac.v3 import Rbac, RbacPerRoute
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter
from envoy_data_plane.envoy.type.matcher.v3 import StringMatcher
from envoy_data_plane.envoy.type.v3 import FractionalPercent, FractionalPercentDenominatorType, TokenBucket
from envoy_data_plane.google.protobuf import Any

from extproc.config import Config
from extproc.contract.errors import ApiError
from extproc.envoy.extensions import packed
from extproc.envoy.key_check import FILTER, LUA
from extproc.envoy.limit_headers import limit_headers, refused_by
from extproc.envoy.token_check import asking_for_a_token, token_filters
from extproc.exchange.admission import KEY_ERRORS
from extproc.exchange.tokens import claim_errors
from extproc.names import CLIENT_HEADER, DENIED_HEADER, TEAM_HEADER

RBAC = "envoy.filters.http.rbac"

_KEY_NAMES = 10_000
"""Keys whose requests are counted at a time; those that were quiet the longest are forgotten first."""


def client_filters(config: Config, keys: core.ConfigSource | None) -> list[HttpFilter]:
    """The filters, in their order. `keys` is where Envoy finds the check of keys; without it there is none."""
    if config.jwt is not None:
        check = [*token_filters(config.jwt)]
    elif config.api_keys is not None and keys is not None:
        check = [_key_check(keys)]
    else:
        return []
    # Only the routes that ask for a key refuse a request without one.
    filters = [*check, HttpFilter(name=RBAC, typed_config=packed(_refusal(config)), disabled=True)]
    of_key, of_teams = config.limits.requests_per_minute, config.rates_of_teams
    if of_key is not None or of_teams:
        limit = packed(_rate_limit(of_key, of_teams))
        filters += [limit_headers("here"), HttpFilter(name="envoy.filters.http.local_ratelimit", typed_config=limit)]
    return filters


def refusing(config: Config) -> dict[str, Any]:
    """What a route that asks for a key, or a token, says of the filters."""
    if not config.identifies_clients:
        return {}
    asking = asking_for_a_token() if config.jwt is not None else {}
    return {**asking, RBAC: packed(RbacPerRoute(rbac=_refusal(config)))}


def denials(config: Config) -> Mapping[str, ApiError]:
    """Why the check may give a request no name, with the answer to it."""
    return claim_errors(config.jwt) if config.jwt is not None else KEY_ERRORS


def _key_check(source: core.ConfigSource) -> HttpFilter:
    return HttpFilter(
        name=FILTER,
        config_discovery=core.ExtensionConfigSource(
            config_source=source,
            # Until the file is there: names nobody and refuses nobody, which leaves both to the processor.
            default_config=packed(Lua(default_source_code=core.DataSource(inline_string=_NOBODY))),
            apply_default_config_without_warming=True,
            type_urls=[LUA],
        ),
    )


_NOBODY = "function envoy_on_request(handle) end"


def _refusal(config: Config) -> Rbac:
    policies = {
        name: rbac.Policy(
            permissions=[rbac.Permission(any=True)],
            principals=[
                rbac.Principal(header=route.HeaderMatcher(name=DENIED_HEADER, string_match=StringMatcher(exact=name)))
            ],
        )
        for name in denials(config)
    }
    return Rbac(rules=rbac.Rbac(action=rbac.RbacAction.DENY, policies=policies), track_per_rule_stats=True)


def _rate_limit(of_key: int | None, of_teams: Mapping[str, int]) -> LocalRateLimit:
    """Requests per minute: a request counts for its key, and for its team, and neither may be over its limit."""
    buckets = [_limited(_TEAM, name, per_minute) for name, per_minute in of_teams.items()]
    if of_key is not None:
        buckets.append(_limited(_CLIENT, "", of_key))
    return LocalRateLimit(
        stat_prefix="requests_per_key",
        filter_enabled=_always(),
        filter_enforced=_always(),
        rate_limits=[_by(_TEAM, TEAM_HEADER), _by(_CLIENT, CLIENT_HEADER)],
        descriptors=buckets,
        max_dynamic_descriptors=_KEY_NAMES,
        response_headers_to_add=[refused_by("here")],
        enable_x_ratelimit_headers=ratelimit.XRateLimitHeadersRfcVersion.DRAFT_VERSION_03,
    )


_CLIENT, _TEAM = "client", "team"


def _limited(key: str, value: str, per_minute: int) -> ratelimit.LocalRateLimitDescriptor:
    """`value`: '' for a bucket for each that comes."""
    entries = [ratelimit.RateLimitDescriptorEntry(key=key, value=value)]
    return ratelimit.LocalRateLimitDescriptor(entries=entries, token_bucket=_bucket(per_minute))


def _by(key: str, header: str) -> route.RateLimit:
    told = route.RateLimitActionRequestHeaders(header_name=header, descriptor_key=key, skip_if_absent=True)
    return route.RateLimit(actions=[route.RateLimitAction(request_headers=told)])


def _bucket(per_minute: int) -> TokenBucket:
    """A minute's requests at once, and then as many as come back with time.

    They come back one by one, unless Envoy's shortest interval (50 ms) is too long for that.
    """
    tokens = 1 + (per_minute - 1) // 1200
    return TokenBucket(
        max_tokens=per_minute, tokens_per_fill=tokens, fill_interval=timedelta(minutes=1) * tokens / per_minute
    )


def _always() -> core.RuntimeFractionalPercent:
    return core.RuntimeFractionalPercent(
        default_value=FractionalPercent(numerator=100, denominator=FractionalPercentDenominatorType.HUNDRED)
    )

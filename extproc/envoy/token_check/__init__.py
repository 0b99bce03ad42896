"""Clients' tokens, checked by Envoy: `jwt` in the settings.

    jwt_authn    verifies signature, issuer, audience and times, refuses what isn't good, and takes the token away
    Lua          puts the client's name and team, from the verified claims, where those of keys stand (`claims.lua`)

What follows is the same as with keys (extproc.envoy.clients). The processor never sees a token, and believes what this
says, which is why the filter is in the static bootstrap too. Only the routes that ask for a token require one.

Measured with Envoy 1.40: of several tokens in one request each has to be good; a token without `exp` counts as one
whose signature is wrong; a wrong audience is a 403 of Envoy's; the file of keys is read when the listener is made, and
never again, with `watched_directory` neither; audiences are compared without `http://`, `https://` and a slash at their
end.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.filters.http.jwt_authn.v3 import (
    JwksAsyncFetch,
    JwtAuthentication,
    JwtHeader,
    JwtProvider,
    JwtRequirement,
    PerRouteConfig,
    RemoteJwks,
)
from envoy_data_plane.envoy.extensions.filters.http.lua.v3 import Lua
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter
from envoy_data_plane.google.protobuf import Any

from extproc.config import Jwt
from extproc.envoy.extensions import packed
from extproc.exchange.tokens import LONGEST_NAME

JWT_AUTHN = "envoy.filters.http.jwt_authn"
FILTER = "extproc.claims"
"""The name of the filter that reads claims, in Envoy's configuration."""

JWKS = "_jwks"
"""The cluster of what publishes a provider's keys. The names of backends can't begin with an underscore."""

REFRESH = timedelta(minutes=5)
"""How old the keys from a URL may be. A provider shows a new key for longer than that before it signs with it."""
FETCHING = timedelta(seconds=5)

_PROGRAM = Path(__file__).with_name("claims.lua")
_PROVIDER = _REQUIRED = "client"
_FROM = [
    *(JwtHeader(name="authorization", value_prefix=f"{scheme} ") for scheme in ("Bearer", "bearer")),
    JwtHeader(name="api-key"),
    JwtHeader(name="x-api-key"),
]
"""Where clients put tokens: where they put keys (`extproc.exchange.admission.KEY_HEADERS`)."""


def token_filters(jwt: Jwt) -> Iterator[HttpFilter]:
    """The two filters, in their order."""
    provider = JwtProvider(
        issuer=jwt.issuer,
        audiences=list(jwt.audiences),
        require_expiration=True,
        from_headers=_FROM,
        payload_in_metadata="claims",
    )
    if jwt.jwks.url is not None:
        provider.remote_jwks = _remote(jwt.jwks.url)
    else:
        provider.local_jwks = core.DataSource(filename=str(jwt.jwks.file))
    check = JwtAuthentication(
        providers={_PROVIDER: provider},
        requirement_map={_REQUIRED: JwtRequirement(provider_name=_PROVIDER)},
        strip_failure_response=True,  # the words: replies.py
    )
    yield HttpFilter(name=JWT_AUTHN, typed_config=packed(check))
    yield HttpFilter(
        name=FILTER, typed_config=packed(Lua(default_source_code=core.DataSource(inline_string=_program(jwt))))
    )


def asking_for_a_token() -> dict[str, Any]:
    """What a route says that lets nobody in without one."""
    return {JWT_AUTHN: packed(PerRouteConfig(requirement_name=_REQUIRED))}


def _remote(url: str) -> RemoteJwks:
    return RemoteJwks(
        http_uri=core.HttpUri(uri=url, cluster=JWKS, timeout=FETCHING),
        cache_duration=REFRESH,
        # Before anybody asks: no request waits for it, and a listener only takes connections when it was tried.
        async_fetch=JwksAsyncFetch(fast_listener=False),
        retry_policy=core.RetryPolicy(num_retries=2),
    )


def _program(jwt: Jwt) -> str:
    # The names have no quote and no backslash (extproc.config.jwt.CLAIM_NAME).
    team = f'"{jwt.team_claim}"' if jwt.team_claim is not None else "nil"
    needed = str(jwt.without_team == "refuse").lower()
    names = f'local CLIENT, TEAM, NEEDED, LONGEST = "{jwt.client_claim}", {team}, {needed}, {LONGEST_NAME}\n'
    return names + _PROGRAM.read_text(encoding="utf-8")

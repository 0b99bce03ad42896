"""Web pages: whose requests are served, and who may read the answers.

A browser sends what any page asks of any address that it can reach, a gateway on the loopback interface and one behind
a firewall among them. It says for which page (`Origin`), and that is all that there is to tell such a request from
that of a program where no key is asked for. So the requests of pages that aren't allowed are refused before anything
is done for them, and allowed ones get what the browser wants to see (CORS), of the gateway and not of a backend: vLLM
allows all pages by itself.

Sources: the Fetch standard (Origin, CORS) and Fetch Metadata (Sec-Fetch-Site). `*` doesn't cover `authorization`.
"""

from __future__ import annotations

from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.extensions.filters.http.cors.v3 import CorsPolicy
from envoy_data_plane.envoy.type.matcher.v3 import RegexMatcher, StringMatcher
from envoy_data_plane.google.protobuf import Any

from extproc.config import ANY_ORIGIN, Config
from extproc.envoy.extensions import packed

CORS = "envoy.filters.http.cors"
REFUSED = 403

_ANY = StringMatcher(safe_regex=RegexMatcher(regex=".*"))


def cors_policy(config: Config) -> dict[str, Any]:
    """What browsers are told, by the filter that tells them."""
    if not config.origins:
        return {}
    return {
        CORS: packed(
            CorsPolicy(
                allow_origin_string_match=[_matcher(origin) for origin in config.origins],
                allow_methods="GET, POST",
                allow_headers="authorization, *",
                expose_headers="*",
                max_age="7200",
            )
        )
    }


def refused_pages(config: Config) -> list[route.Route]:
    """The routes of requests that other pages make."""
    if ANY_ORIGIN in config.origins:
        return []
    other_origin = [_present("origin"), *(_no_match("origin", _matcher(origin)) for origin in config.origins)]
    # A browser names the origin of whatever is no GET. Should that have been taken away, this was not.
    unnamed = [
        _present("origin", present=False),
        _match("sec-fetch-site", StringMatcher(safe_regex=RegexMatcher(regex="cross-site|same-site"))),
        _no_match(":method", StringMatcher(safe_regex=RegexMatcher(regex="GET|HEAD"))),
    ]
    return [_refused(conditions) for conditions in (other_origin, unnamed)]


def _refused(headers: list[route.HeaderMatcher]) -> route.Route:
    return route.Route(
        name="other-web-page",
        match=route.RouteMatch(prefix="/", headers=headers),
        direct_response=route.DirectResponseAction(status=REFUSED),  # the words: local_replies.py
    )


def _matcher(origin: str) -> StringMatcher:
    return _ANY if origin == ANY_ORIGIN else StringMatcher(exact=origin)


def _present(name: str, *, present: bool = True) -> route.HeaderMatcher:
    return route.HeaderMatcher(name=name, present_match=present)


def _match(name: str, matcher: StringMatcher) -> route.HeaderMatcher:
    return route.HeaderMatcher(name=name, string_match=matcher)


def _no_match(name: str, matcher: StringMatcher) -> route.HeaderMatcher:
    return route.HeaderMatcher(name=name, string_match=matcher, invert_match=True)

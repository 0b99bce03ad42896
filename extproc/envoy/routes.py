"""Routes: which requests the processor sees, and where the others go.

    web pages           none, unless the settings let them: their requests are refused, whatever the path
    chat completions    the processor reads them and names their backend
    health, the models  the processor answers
    `other_paths`       the processor finds the model in them and names its backend; where there is one backend, and it
                        knows all models by the names that clients use, they go past the processor unless it has API
                        keys to check, or tokens

For all else there is no route: Envoy answers, and neither the processor nor a backend hears of it. A backend takes the
gateway's own key for whatever it is asked, its management among it, so what it may be asked is listed. Paths are
compared when escaped slashes, double slashes and dots in them are resolved (listener.py), and go on as compared.

Of chat completions the processor's filter sends it all that its layout says (listener.py), of other requests what is
needed to find their backend. A path may come without its `/v1`, as from clients whose base URL has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.extensions.filters.http.buffer.v3 import Buffer, BufferPerRoute
from envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3 import (
    ExtProcOverrides,
    ExtProcPerRoute,
    ProcessingMode,
    ProcessingModeBodySendMode,
    ProcessingModeHeaderSendMode,
)
from envoy_data_plane.envoy.type.matcher.v3 import RegexMatchAndSubstitute, RegexMatcher, StringMatcher
from envoy_data_plane.envoy.type.v3 import Int64Range
from envoy_data_plane.google.protobuf import Any

from extproc.config import Config
from extproc.envoy.clients import refusing
from extproc.envoy.extensions import packed
from extproc.envoy.web_pages import cors_policy, refused_pages
from extproc.exchange.admission import KEY_HEADERS
from extproc.names import (
    AGAIN_HEADER,
    BACKEND_HEADER,
    CHAT_PATH,
    HEALTH_PATH,
    MODELS_PATH,
    SMALL_BODY,
    without_version,
)
from extproc.surfaces import ROUTES, Route

EXT_PROC = "envoy.filters.http.ext_proc"
BUFFER = "envoy.filters.http.buffer"
"""Stands before the processor, which so hears of a chat completion when its body is there, and not of requests that
never end. It also sets what Envoy may buffer for the exchange, for its answer too."""

OTHER_METHODS = ("GET", "HEAD", "POST", "OPTIONS")
"""What `other_paths` are asked with."""

SILENCE = timedelta(minutes=30)
"""How long an exchange may go without a byte in either direction. It has no limit in all: an answer may stream for
as long as it likes. But a unary answer is silent until it is complete, and a slow model behind a queue may well take
20 minutes for it; OpenAI's own clients give up after 10 unless told otherwise."""

NAME = "openai"
"""Of the route configuration: a listener whose routes are elsewhere asks for them by it."""


def route_configuration(config: Config) -> route.RouteConfiguration:
    # With keys, the processor has a look at all: under an Envoy that doesn't know them (clients.py), it alone does.
    answered = _processed(ExtProcOverrides(processing_mode=_HEADERS_ALONE))
    asking = {**answered, **refusing(config)}
    for_others = asking if config.identifies_clients else {}
    answered_by_models = RegexMatcher(regex="|".join(map(_spelled, ROUTES)))
    virtual_host = route.VirtualHost(
        name="openai",
        domains=["*"],
        typed_per_filter_config=cors_policy(config),
        routes=[
            _grpc(),
            *refused_pages(config),
            *(each for answered in ROUTES.values() for each in _model_routes(answered, config)),
            _preflight(answered_by_models),
            _allowed(route.RouteMatch(safe_regex=answered_by_models)),
            _wrong_method(route.RouteMatch(safe_regex=answered_by_models)),
            # Without a key: for load balancers and gateways in front, which have none.
            *_answered("health", route.RouteMatch(path=HEALTH_PATH), answered),
            *_answered("models", route.RouteMatch(path_separated_prefix=MODELS_PATH), asking),
            *_answered("models", route.RouteMatch(path_separated_prefix=without_version(MODELS_PATH)), asking),
            *_other_paths(config, for_others),
        ],
    )
    return route.RouteConfiguration(
        name=NAME,
        virtual_hosts=[virtual_host],
        # Clients' keys go no further, whatever else a backend takes (passing_headers.py).
        request_headers_to_remove=list(KEY_HEADERS),
    )


def inner_routes(config: Config) -> route.RouteConfiguration:
    """Of the inner listener: chat completions alone, which the processor reads unless they were read before."""
    made = partial(_model_route, ROUTES[CHAT_PATH])
    read = _read(made, _processed(ExtProcOverrides()), config)
    virtual_host = route.VirtualHost(name="inner", domains=["*"], routes=[_again(), *read])
    return route.RouteConfiguration(name="inner", virtual_hosts=[virtual_host])


def _again() -> route.Route:
    """A second try, which is as its backend is to get it."""
    again = route.HeaderMatcher(name=AGAIN_HEADER, present_match=True)
    return route.Route(
        name="again",
        match=route.RouteMatch(path=CHAT_PATH, headers=[_with_method("POST"), again]),
        route=_action(route.RouteAction(cluster_header=BACKEND_HEADER)),
    )


def _spelled(path: str) -> str:
    """A path as clients spell it."""
    return f"(?:/v1)?{re.escape(without_version(path))}/?"


def _model_routes(answered: Route, config: Config) -> Iterator[route.Route]:
    """Of the requests that are for a model, in one of the dialects."""
    # What is overridden doesn't matter.
    yield from _read(partial(_model_route, answered), _processed(ExtProcOverrides()) | refusing(config), config)


def _model_route(answered: Route) -> route.Route:
    paths = RegexMatcher(regex=_spelled(answered.path))
    return route.Route(
        name=answered.name,
        match=route.RouteMatch(safe_regex=paths, headers=[_with_method("POST")]),
        # Empty until the processor has read the body: the header is its choice, and none but its (see listener.py).
        route=_action(route.RouteAction(cluster_header=BACKEND_HEADER, prefix_rewrite=answered.upstream)),
        # The processor reads answers as they are: it doesn't decompress.
        request_headers_to_remove=["accept-encoding"],
    )


def _read(made: Callable[[], route.Route], filters: dict[str, Any], config: Config) -> Iterator[route.Route]:
    """Routes of requests that the processor reads.

    Small ones are held until they are whole; of a large one the processor hears first, to let it in or not.
    """
    limit = config.limits.max_body_bytes
    small, large = made(), made()
    assert small.match is not None  # each route has one
    small.match.headers.append(
        route.HeaderMatcher(name="content-length", range_match=Int64Range(start=0, end=SMALL_BODY + 1))
    )
    small.typed_per_filter_config = {
        BUFFER: packed(BufferPerRoute(buffer=Buffer(max_request_bytes=limit))),
        **filters,
    }
    large.request_body_buffer_limit = limit
    large.typed_per_filter_config = filters
    yield small
    yield large


def _preflight(path: RegexMatcher) -> route.Route:
    """A browser's question whether a page may ask for `path`. Its filter answers, and takes no route for one that isn't
    to any backend; should it ever not answer, this one leads to none."""
    from_a_page = route.HeaderMatcher(name="origin", present_match=True)
    return route.Route(
        name="chat-preflight",
        match=route.RouteMatch(safe_regex=path, headers=[_with_method("OPTIONS"), _asks_for_a_method(), from_a_page]),
        route=_to_nobody(),
    )


def _asks_for_a_method(*, present: bool = True) -> route.HeaderMatcher:
    return route.HeaderMatcher(name="access-control-request-method", present_match=present)


def _allowed(match: route.RouteMatch, allowed: Sequence[str] = ("POST",)) -> route.Route:
    """The answer to whoever asks by OPTIONS, and is no browser."""
    match.headers += [_with_method("OPTIONS"), _asks_for_a_method(present=False)]
    return _direct("options", match, 204, (*allowed, "OPTIONS"))


def _answered(name: str, match: route.RouteMatch, filters: dict[str, Any]) -> Iterator[route.Route]:
    """The processor answers, before it comes to the route: should it ever not, no backend is asked either."""
    yield _allowed(replace(match, headers=[]), ("GET", "HEAD"))
    yield route.Route(name=name, match=match, route=_to_nobody(), typed_per_filter_config=filters)


def _other_paths(config: Config, filters: dict[str, Any]) -> Iterator[route.Route]:
    listed = config.other_paths
    unversioned = [without_version(path) for path in listed if path.startswith("/v1/")]
    yield from _other(listed, config, filters)
    yield from _other([path for path in unversioned if path not in listed], config, filters, "/v1/")


def _other(
    listed: Sequence[str], config: Config, filters: dict[str, Any], version: str | None = None
) -> Iterator[route.Route]:
    """All in one route: each has to be made, checked and compared, and there are many.

    `version` is put before the paths on their way to a backend.
    """
    if not listed:
        return
    paths = RegexMatcher(regex="|".join(map(re.escape, listed)))
    rewrite = None
    if version is not None:
        rewrite = RegexMatchAndSubstitute(pattern=RegexMatcher(regex="^/"), substitution=version)
    if config.routes_by_model:

        def made() -> route.Route:
            return route.Route(
                name="other-path-by-model",
                match=route.RouteMatch(safe_regex=paths, headers=[_with_method("POST")]),
                route=_action(route.RouteAction(cluster_header=BACKEND_HEADER, regex_rewrite=rewrite)),
            )

        read = _processed(ExtProcOverrides(processing_mode=_BODY_ALONE)) | refusing(config)
        yield from _read(made, read, config)
    # What has no body, or is for the only backend by whatever name, goes there unread.
    methods = StringMatcher(safe_regex=RegexMatcher(regex="|".join(OTHER_METHODS)))
    yield route.Route(
        name="other-path",
        match=route.RouteMatch(safe_regex=paths, headers=[route.HeaderMatcher(name=":method", string_match=methods)]),
        route=_action(route.RouteAction(cluster=config.default_backend.name, regex_rewrite=rewrite)),
        typed_per_filter_config=filters,
    )
    yield _wrong_method(route.RouteMatch(safe_regex=paths), OTHER_METHODS)


def _grpc() -> route.Route:
    """Envoy tells such a client of a failure by 200 and a `grpc-status`, which may as well be the right one."""
    content_type = route.HeaderMatcher(name="content-type", string_match=StringMatcher(prefix="application/grpc"))
    return route.Route(
        name="grpc",
        match=route.RouteMatch(prefix="/", headers=[content_type]),
        direct_response=route.DirectResponseAction(status=404),  # which is UNIMPLEMENTED
    )


def _wrong_method(match: route.RouteMatch, allowed: Sequence[str] = ("POST",)) -> route.Route:
    return _direct("wrong-method", match, 405, allowed)


def _direct(name: str, match: route.RouteMatch, status: int, allowed: Sequence[str]) -> route.Route:
    return route.Route(
        name=name,
        match=match,
        direct_response=route.DirectResponseAction(status=status),  # the words: local_replies.py
        response_headers_to_add=[
            core.HeaderValueOption(header=core.HeaderValue(key="allow", value=", ".join(allowed)))
        ],
    )


def _to_nobody() -> route.RouteAction:
    """A 404. The header is the processor's alone, which sets it for chat completions only."""
    not_found = route.RouteActionClusterNotFoundResponseCode.NOT_FOUND
    return route.RouteAction(cluster_header=BACKEND_HEADER, cluster_not_found_response_code=not_found)


def _with_method(method: str) -> route.HeaderMatcher:
    return route.HeaderMatcher(name=":method", string_match=StringMatcher(exact=method))


# Said here, and not by the processor for each exchange: in the layout for chat completions a body may outgrow the
# buffer before the processor has seen the headers.
_HEADERS_ALONE = ProcessingMode(
    request_header_mode=ProcessingModeHeaderSendMode.SEND,
    request_body_mode=ProcessingModeBodySendMode.NONE,
    request_trailer_mode=ProcessingModeHeaderSendMode.SKIP,
    response_header_mode=ProcessingModeHeaderSendMode.SKIP,
    response_body_mode=ProcessingModeBodySendMode.NONE,
    response_trailer_mode=ProcessingModeHeaderSendMode.SKIP,
)


_BODY_ALONE = replace(_HEADERS_ALONE, request_body_mode=ProcessingModeBodySendMode.BUFFERED)
"""The request, of which the backend hangs on the body, and nothing of the answer."""


def _processed(overrides: ExtProcOverrides) -> dict[str, Any]:
    """The filter is disabled unless a route overrides it."""
    return {EXT_PROC: packed(ExtProcPerRoute(overrides=overrides))}


def _action(action: route.RouteAction) -> route.RouteAction:
    """What is tried again, and where, the backend's cluster says."""
    action.timeout = timedelta(0)
    action.idle_timeout = SILENCE
    # A server behind TLS often serves many names, and goes by the one in this header: its own, not the gateway's.
    action.auto_host_rewrite = True
    return action

"""Routes: which requests the processor sees, and where the others go.

    web pages           none, unless the settings let them: their requests are refused, whatever the path
    chat completions    the processor reads them and names their backend
    the models          the processor answers
    `other_paths`       go to the first backend, past the processor unless it has API keys to check

For all else there is no route: Envoy answers, and neither the processor nor a backend hears of it. A backend takes the
gateway's own key for whatever it is asked, its management among it, so what it may be asked is listed. Paths are
compared when escaped slashes, double slashes and dots in them are resolved (listener.py), and go on as compared.

Of chat completions the processor's filter sends it all that its layout says (listener.py), of other requests the
headers alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta

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
from envoy_data_plane.envoy.type.matcher.v3 import RegexMatcher, StringMatcher
from envoy_data_plane.envoy.type.v3 import Int64Range
from envoy_data_plane.google.protobuf import Any

from extproc.admission import KEY_HEADERS
from extproc.config import Config
from extproc.envoy.clients import refusing
from extproc.envoy.extensions import packed
from extproc.envoy.web_pages import cors_policy, refused_pages
from extproc.names import BACKEND_HEADER, CHAT_PATH, MODELS_PATH, SMALL_BODY

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


def route_configuration(config: Config) -> route.RouteConfiguration:
    # With keys, the processor has a look at all: under an Envoy that doesn't know them (clients.py), it alone does.
    asking = {**_processed(ExtProcOverrides(processing_mode=_HEADERS_ALONE)), **refusing(config)}
    for_others = asking if config.api_keys is not None else {}
    virtual_host = route.VirtualHost(
        name="openai",
        domains=["*"],
        typed_per_filter_config=cors_policy(config),
        routes=[
            _grpc(),
            *refused_pages(config),
            *_chat_completions(CHAT_PATH, config),
            *_chat_completions(CHAT_PATH + "/", config),  # as some clients spell it
            _preflight(CHAT_PATH),
            _preflight(CHAT_PATH + "/"),
            _wrong_method(route.RouteMatch(path=CHAT_PATH)),
            _wrong_method(route.RouteMatch(path=CHAT_PATH + "/")),
            _models(asking),
            *_other_paths(config, for_others),
        ],
    )
    return route.RouteConfiguration(
        name="openai",
        virtual_hosts=[virtual_host],
        # Clients' keys go no further, whatever else a backend takes (passing_headers.py).
        request_headers_to_remove=list(KEY_HEADERS),
    )


def _chat_completions(path: str, config: Config) -> Iterator[route.Route]:
    """Small requests are held until they are whole; of a large one the processor hears first, to let it in or not."""
    limit = config.limits.max_body_bytes
    small = route.HeaderMatcher(name="content-length", range_match=Int64Range(start=0, end=SMALL_BODY + 1))
    buffered = BufferPerRoute(buffer=Buffer(max_request_bytes=limit))
    yield _chat_completion(path, config, [small], {BUFFER: packed(buffered)})
    large = _chat_completion(path, config, [], {})
    large.request_body_buffer_limit = limit
    yield large


def _chat_completion(
    path: str, config: Config, headers: list[route.HeaderMatcher], filters: dict[str, Any]
) -> route.Route:
    return route.Route(
        name="chat-completions",
        match=route.RouteMatch(path=path, headers=[_with_method("POST"), *headers]),
        # Empty until the processor has read the body: the header is its choice, and none but its (see listener.py).
        route=_action(route.RouteAction(cluster_header=BACKEND_HEADER, prefix_rewrite=CHAT_PATH)),
        # The processor reads answers as they are: it doesn't decompress.
        request_headers_to_remove=["accept-encoding"],
        typed_per_filter_config={
            **filters,
            **_processed(ExtProcOverrides()),  # what it overrides doesn't matter
            **refusing(config),
        },
    )


def _preflight(path: str) -> route.Route:
    """A browser's question whether a page may ask for `path`. Its filter answers, and takes no route for one that isn't
    to any backend; should it ever not answer, this one leads to none."""
    asks_for_a_method = route.HeaderMatcher(name="access-control-request-method", present_match=True)
    from_a_page = route.HeaderMatcher(name="origin", present_match=True)
    return route.Route(
        name="chat-preflight",
        match=route.RouteMatch(path=path, headers=[_with_method("OPTIONS"), asks_for_a_method, from_a_page]),
        route=_to_nobody(),
    )


def _other_paths(config: Config, filters: dict[str, Any]) -> Iterator[route.Route]:
    """All in one route: each has to be made, checked and compared, and there are many."""
    if not config.other_paths:
        return
    paths = RegexMatcher(regex="|".join(map(re.escape, config.other_paths)))
    methods = StringMatcher(safe_regex=RegexMatcher(regex="|".join(OTHER_METHODS)))
    match = route.RouteMatch(safe_regex=paths, headers=[route.HeaderMatcher(name=":method", string_match=methods)])
    yield _to_backend("other-path", match, config.backends[0].name, filters)
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
    return route.Route(
        name="wrong-method",
        match=match,
        direct_response=route.DirectResponseAction(status=405),  # the words: local_replies.py
        response_headers_to_add=[
            core.HeaderValueOption(header=core.HeaderValue(key="allow", value=", ".join(allowed)))
        ],
    )


def _models(filters: dict[str, Any]) -> route.Route:
    return route.Route(
        name="models",
        match=route.RouteMatch(path_separated_prefix=MODELS_PATH),
        # The processor answers before it comes to this: should it ever not, no backend is asked either.
        route=_to_nobody(),
        typed_per_filter_config=filters,
    )


def _to_backend(name: str, match: route.RouteMatch, backend: str, filters: dict[str, Any]) -> route.Route:
    return route.Route(
        name=name,
        match=match,
        route=_action(route.RouteAction(cluster=backend)),
        typed_per_filter_config=filters,
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

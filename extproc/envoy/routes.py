"""Routes: chat completions go through the processor, which names their backend; all else goes to the first one."""

from __future__ import annotations

from datetime import timedelta

from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3 import ExtProcOverrides, ExtProcPerRoute
from envoy_data_plane.envoy.extensions.retry.host.previous_hosts.v3 import PreviousHostsPredicate
from envoy_data_plane.envoy.type.matcher.v3 import StringMatcher

from extproc.config import Config
from extproc.envoy.extensions import packed
from extproc.names import BACKEND_HEADER, CHAT_PATH, DROPPED_HEADER

EXT_PROC = "envoy.filters.http.ext_proc"

SILENCE = timedelta(minutes=30)
"""How long an exchange may go without a byte in either direction. It has no limit in all: an answer may stream for
as long as it likes. But a unary answer is silent until it is complete, and a slow model behind a queue may well take
20 minutes for it; OpenAI's own clients give up after 10 unless told otherwise."""


def route_configuration(config: Config) -> route.RouteConfiguration:
    virtual_host = route.VirtualHost(
        name="openai",
        domains=["*"],
        routes=[
            _chat_completions(CHAT_PATH),
            _chat_completions(CHAT_PATH + "/"),  # as some clients spell it
            _everything_else(config.backends[0].name),
        ],
    )
    return route.RouteConfiguration(name="openai", virtual_hosts=[virtual_host])


def _chat_completions(path: str) -> route.Route:
    return route.Route(
        name="chat-completions",
        match=route.RouteMatch(
            path=path,
            headers=[route.HeaderMatcher(name=":method", string_match=StringMatcher(exact="POST"))],
        ),
        # Empty until the processor has read the body: the header is its choice, and none but its (see listener.py).
        route=_action(route.RouteAction(cluster_header=BACKEND_HEADER, prefix_rewrite=CHAT_PATH)),
        # The processor reads answers as they are: it doesn't decompress.
        request_headers_to_remove=[BACKEND_HEADER, "accept-encoding"],
        # A backend's own: this happens before the processor sees the answer, and sets its own.
        response_headers_to_remove=[DROPPED_HEADER],
        # The filter is disabled unless a route overrides it; what it overrides doesn't matter.
        typed_per_filter_config={EXT_PROC: packed(ExtProcPerRoute(overrides=ExtProcOverrides()))},
    )


def _everything_else(backend: str) -> route.Route:
    return route.Route(
        name="everything-else",
        match=route.RouteMatch(prefix="/"),
        route=_action(route.RouteAction(cluster=backend)),
    )


def _action(action: route.RouteAction) -> route.RouteAction:
    action.timeout = timedelta(0)
    action.idle_timeout = SILENCE
    # Only when no byte of the request can have reached a model; then best at another replica.
    action.retry_policy = route.RetryPolicy(
        retry_on="connect-failure",
        num_retries=2,
        retry_host_predicate=[
            route.RetryPolicyRetryHostPredicate(
                name="envoy.retry_host_predicates.previous_hosts", typed_config=packed(PreviousHostsPredicate())
            )
        ],
        host_selection_retry_max_attempts=3,
    )
    return action

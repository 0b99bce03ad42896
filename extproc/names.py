"""Names on which Envoy's configuration and the processor must agree."""

from __future__ import annotations

CHAT_PATH = "/v1/chat/completions"
MESSAGES_PATH = "/v1/messages"
COUNT_TOKENS_PATH = "/v1/messages/count_tokens"
RESPONSES_PATH = "/v1/responses"
TOKENIZE_PATH = "/tokenize"
"""Where a backend says how many tokens a prompt has."""
ANSWERED_PATHS = (CHAT_PATH, MESSAGES_PATH, COUNT_TOKENS_PATH, RESPONSES_PATH)
"""The paths whose requests and answers are processed (`extproc.surfaces.ROUTES`)."""
MODELS_PATH = "/v1/models"
"""What the processor answers itself."""
HEALTH_PATH = "/health"
"""Tells whoever asks, key or not, that the gateway works: Envoy takes requests, and the processor answers them."""


CHARACTER = "character/"
"""How the name of a model begins that is a character."""


def without_version(path: str) -> str:
    """How a client asks for it whose base URL has no `/v1` at its end."""
    return path.removeprefix("/v1")


BACKEND_HEADER = "x-extproc-backend"
"""Set by the processor on a request: the name of the cluster that it goes to. Never taken from a client."""

AFFINITY_HEADER = "x-extproc-affinity"
"""Set by the processor on a request: equal for all requests of a conversation, which then go to the same replica. Never
taken from a client, and never shown to a backend."""

DROPPED_HEADER = "x-extproc-dropped"
"""Set by the processor on an answer: the request's parameters that its backend didn't get. Never taken from one."""

USAGE_HEADER = "x-extproc-usage"
"""Set by the processor on a whole answer that its backend didn't count: `estimated`. Never taken from a backend."""

MODEL_HEADER, FALLBACK_HEADER = "x-extproc-model", "x-extproc-fallback"
"""Set by the processor on an answer, where the client named an alias of several models: which of them was asked; and
which it was asked in the place of, and why, as `coder failing`. Never taken from a backend."""

RUNNER = "_runner"
"""The runner's cluster. The names of backends can't begin with an underscore."""

PATH_HEADER = "x-extproc-path"
"""Set by the processor on a request that goes to the runner: the path that the client asked for, as the gateway knows
it."""

ROUND_HEADER = "x-extproc-round"
"""Set by the runner on what it asks of the inner listener: which model round of its run that is. Never taken from a
client."""

ROUNDS_HEADER, TOOLS_HEADER = "x-extproc-rounds", "x-extproc-tools"
"""Set by the runner on a whole answer: how many model rounds it took, and how many tools ran."""

AGAIN_HEADER = "x-extproc-again"
"""Set by the processor on what it asks of the inner listener: the second try of a demanded call, ready for its
backend."""

LIMITS_DOMAIN = "extproc"
"""Under which limits stand in the service that counts for all Envoys."""

LIMITED_HEADER = "x-extproc-limited"
"""Set by Envoy on its reply to a request that a limit has refused: which of its filters that was. Never shown to a
client."""

CLIENT_HEADER = "x-extproc-client"
"""Set by Envoy on a request: the name of the key that it came with. Never taken from a client."""

TEAM_HEADER = "x-extproc-team"
"""Set by Envoy on a request whose key is one of a team: the team's name. Never taken from a client."""

DENIED_HEADER = "x-extproc-denied"
"""Set by Envoy on a request that has no right key: why."""

REPLY_HEADER = "x-extproc-reply"
"""Set by Envoy on each reply of its own, where the processor may see it, to the error's code: no backend has said that.
Never taken from one, and never shown to a client."""

OWN_HEADERS = "x-extproc-"
"""How the names of all of these begin. What a client sends under such a name is removed before anything sees it."""

METADATA_NAMESPACE = "extproc"
"""Dynamic metadata of an exchange, for the access log: model, backend, error and counts."""
STREAM_ENDED = "ended"
"""The member of it that comes with the last event of a stream: who leaves before the end of its body has all of it."""

TRACES_PATH = "/v1/traces"
"""Where a collector takes spans, by OTLP over HTTP,"""
METRICS_PATH = "/v1/metrics"
"""and metrics."""

LEASE_NAMESPACE, LEASE_KEY = "extproc.lease", "number"
"""Dynamic metadata of a request that is counted against its client's share: what Envoy says of it when it is over."""

SMALL_BODY = 256 * 1024
"""Bytes of a chat completion's request that Envoy holds until it is whole, before the processor hears of it. Of a
larger one the processor is asked first whether to let it in. A coding agent's has 50 to 200 kB, without pictures."""

LAYOUT_METADATA, LAYOUT, INNER_LAYOUT = "x-extproc-layout", "own", "inner"
"""gRPC metadata of the calls of an Envoy whose configuration is this project's own: by which of its listeners a request
came. Of any other nothing is taken for granted (extproc.exchange.host)."""

REPLY_DETAILS = "extproc."
"""How the response code details of every answer begin that the processor gives itself. Envoy's own answers are
rewritten on the way out, and are told from the processor's by this."""


def worker_address(address: str, number: int) -> str:
    """Where the processor's worker of this number listens, from 0 on, when the processor's address is this one: a path,
    with or without `unix:` before it, or `host:port`.

        /run/extproc.sock    /run/extproc.sock, /run/extproc.1.sock, /run/extproc.2.sock
        127.0.0.1:9000       127.0.0.1:9000, 127.0.0.1:9001, 127.0.0.1:9002
    """
    if number == 0:
        return address
    if "/" in address:
        directory, slash, name = address.rpartition("/")
        stem, dot, suffix = name.rpartition(".")
        return f"{directory}{slash}{stem}.{number}.{suffix}" if dot and stem else f"{address}.{number}"
    host, colon, port = address.rpartition(":")
    return f"{host}{colon}{int(port) + number}"

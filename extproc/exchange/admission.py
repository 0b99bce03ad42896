"""What becomes of a request by its headers alone: who comes in, and what is answered without any backend.

    API keys          if the settings name a file of them, every path asks for one; its team has to be known, where
                      teams are named
    tokens            if they are taken instead, Envoy has checked them, and says whose they are
    /health           answered here, without a key
    /v1/models        answered here, see extproc.exchange.catalogue
    a model's answer  asked for in any dialect, goes on to the exchange, which reads the body
    `other_paths`     go on to the backend that serves the model they name; with one backend, without being read
    all else          is refused, should Envoy have a route for it; of other Envoys' routes, all but GET

Pure, and the only place that sees a client's key, which goes no further: Envoy keeps it from backends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from extproc.config import Config, Team
from extproc.contract.errors import ApiError
from extproc.exchange.api_keys import team_of
from extproc.exchange.catalogue import anthropic_catalogue_answer, catalogue_answer
from extproc.exchange.context import ExchangeContext
from extproc.exchange.tokens import NO_TOKEN, UNCHECKED_TOKEN
from extproc.names import CLIENT_HEADER, HEALTH_PATH, MESSAGES_PATH, MODELS_PATH
from extproc.surfaces import MESSAGES, ROUTES, Surface, surface_of

KEY_HEADERS = ("authorization", "api-key", "x-api-key")
"""Where clients put their keys: OpenAI's own as `Bearer KEY`, those of Azure's kind, those of Anthropic's kind."""

VERSION_HEADER = "anthropic-version"
"""Which every client of Anthropic's kind sends: it gets lists and errors in its own shape."""

WANTED = (":path", ":method", VERSION_HEADER, CLIENT_HEADER, *KEY_HEADERS)
"""The header fields that the decision takes."""

CHALLENGE = {"www-authenticate": 'Bearer realm="extproc"'}


@dataclass(frozen=True, slots=True)
class Admitted:
    """The request goes on."""

    client: str | None
    """The name of the key, or by the token, that it came with, where one is asked for."""
    path: str | None
    """The path of a request for a model's answer (`surfaces.ROUTES`), None for all others."""
    named: bool = False
    """Whether it is to be routed by the model that it names. If neither, nothing more of it is wanted."""
    ours: bool = True
    """Whether it is for a backend. Else a host that has other things besides us has sent it here as well."""
    team: Team | None = None
    """Of that client, where the settings name it."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The request is answered with this."""

    body: bytes
    client: str | None
    what: str
    """One word for the access log."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The request is answered with an error, and these header fields."""

    error: ApiError
    fields: Mapping[str, str] = field(default_factory=dict)
    client: str | None = None


WHERE = f"Models answer at {', '.join(ROUTES)}; they are listed at {MODELS_PATH}."
"""For who asked elsewhere."""
_READING = ("GET", "HEAD")
_WELL = b'{"status":"ok"}'

Decision: TypeAlias = Admitted | Answered | Refused


def admit(
    fields: Mapping[str, str], context: ExchangeContext, *, foreign: bool = False, inner: bool = False
) -> Decision:
    """Decide by the header fields of a request, of which WANTED are looked at.

    `foreign`: by an Envoy that isn't configured by us, and may have other routes. `inner`: it is one of the gateway's
    own, which says for whom.
    """
    client = None
    path, method = context.config.path_of(fields.get(":path", "").partition("?")[0]), fields.get(":method", "")
    if path == HEALTH_PATH and method in _READING:
        return Answered(_WELL, None, "health")
    if inner:
        client = fields.get(CLIENT_HEADER)
    elif context.keys is not None or context.config.jwt is not None:
        found = _client_of(fields, context, foreign=foreign)
        if isinstance(found, ApiError):
            return Refused(found, CHALLENGE)
        client = found
    name = team_of(client)
    team = context.config.teams_by_name.get(name) if name is not None else None
    if name is not None and team is None and context.config.teams and not inner:
        return Refused(_unknown_team(name), client=client)
    if path == MODELS_PATH or path.startswith(f"{MODELS_PATH}/"):
        if method not in _READING:
            error = ApiError(
                405, f"Models can be read with GET, and not be changed with {method[:20]}.", code="method_not_allowed"
            )
            return Refused(error, {"allow": ", ".join(_READING)}, client)
        try:
            answer = anthropic_catalogue_answer if VERSION_HEADER in fields else catalogue_answer
            return Answered(answer(path, context.config, context.reports, context.since, team), client, "models")
        except ApiError as error:
            return Refused(error, client=client)
    if path in ROUTES and method == "POST":
        return Admitted(client, path, team=team)
    if path in context.config.other_paths:
        return _elsewhere(method, context.config, client, team)
    if path in ROUTES or path == HEALTH_PATH:
        allowed = "POST" if path in ROUTES else ", ".join(_READING)
        return Refused(_wrong_method(method, allowed), {"allow": allowed}, client)
    if foreign and method in _READING:
        return Admitted(client, None, ours=False)  # it says nothing that would have to be read
    message = f"Unknown path: {path[:200]}. {WHERE}"
    return Refused(ApiError(404, message, code="unknown_path"), client=client)


def _client_of(fields: Mapping[str, str], context: ExchangeContext, *, foreign: bool) -> str | ApiError:
    """The name of the client, or why it doesn't come in."""
    if context.config.jwt is not None:
        # Who comes by another's Envoy may have named itself.
        return UNCHECKED_TOKEN if foreign else fields.get(CLIENT_HEADER) or NO_TOKEN
    offered = list(_keys(fields))
    owners = map(context.keys.owner, offered) if context.keys is not None else ()
    return next(filter(None, owners), None) or (_WRONG_KEY if offered else _NO_KEY)


def _elsewhere(method: str, config: Config, client: str | None, team: Team | None) -> Decision:
    """Of what is asked of backends besides answers. A request without a body names no model."""
    if method != "POST" and team is not None and team.is_bounded:
        return Refused(_wrong_method(method, "POST"), {"allow": "POST"}, client)
    return Admitted(client, None, named=method == "POST" and config.routes_by_model, team=team)


# OpenAI's words for type and code; a client library makes its AuthenticationError of the status.
_NO_KEY = ApiError(
    401,
    "You didn't provide an API key. Send one as the header 'Authorization: Bearer YOUR_KEY'.",
    code="invalid_api_key",
)
_WRONG_KEY = ApiError(
    401, "Incorrect API key provided. Ask those who run this gateway for one.", code="invalid_api_key"
)


def _wrong_method(method: str, allowed: str) -> ApiError:
    return ApiError(405, f"{method[:20]} isn't allowed here, but {allowed}.", code="method_not_allowed")


def _unknown_team(name: str) -> ApiError:
    """A 403: nobody has said what the team may do."""
    message = (
        f"The team {name!r} of this API key, or token, isn't among this gateway's. Those who run it have to add it to "
        "`teams` in its settings, or make a key for another one."
    )
    return ApiError(403, message, code="unknown_team")


KEY_ERRORS = {"no_key": _NO_KEY, "wrong_key": _WRONG_KEY}
"""The answers to requests that don't come in, by the reasons that Envoy's check of keys knows (`envoy.key_check`)."""


def dialect_of(fields: Mapping[str, str], context: ExchangeContext) -> Surface:
    """In whose words a request is answered, whatever comes of it."""
    path = context.config.path_of(fields.get(":path", "").partition("?")[0])
    if path not in ROUTES and (VERSION_HEADER in fields or f"{path}/".startswith(f"{MESSAGES_PATH}/")):
        return MESSAGES
    return surface_of(path)


def _keys(fields: Mapping[str, str]) -> Iterator[str]:
    for name in KEY_HEADERS:
        value = fields.get(name, "").strip()
        if name == "authorization":
            scheme, _, value = value.partition(" ")
            if scheme.lower() != "bearer":
                continue
        if value.strip():
            yield value.strip()

"""The configuration as typed, immutable settings: what may be said, what it means, and what it is by default.

Nothing here opens a socket or looks at a backend; the only files that are read are checkpoints' response templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationInfo, model_validator

from extproc.config.address import Address, check_listen
from extproc.config.alias import Alias, Choice
from extproc.config.backend import PRIORITY, Backend
from extproc.config.base import (
    DIRECTORY,
    AbsolutePath,
    AliasName,
    FieldError,
    FieldErrors,
    Name,
    ParameterName,
    Settings,
)
from extproc.config.global_limits import GlobalLimit, RateLimitService, request_limits, token_limits
from extproc.config.jwt import Jwt
from extproc.config.ladder import Ladder, Step
from extproc.config.limits import Limits
from extproc.config.listener_tls import ListenerTls
from extproc.config.metrics import Metrics
from extproc.config.model import Model
from extproc.config.origins import ANY_ORIGIN, check_origin
from extproc.config.paths import OTHER_PATHS, check_exact_path
from extproc.config.recording import Recording
from extproc.config.references import broken_references
from extproc.config.team import Team
from extproc.config.tools import Runs, ToolServer
from extproc.config.tracing import Tracing
from extproc.contract.media_urls import MediaUrls
from extproc.contract.parameters import TOOL_PARAMETERS
from extproc.contract.withheld import WITHHELD
from extproc.names import ANSWERED_PATHS, CHARACTER, HEALTH_PATH, MODELS_PATH

AUTO = "auto"
NOBODY = "without `api_keys` or `jwt` nobody can be told from anybody else"
MOST_WORKERS = 128


def _check_workers(workers: object) -> object:
    # A union's own messages would be one for each of its members.
    if workers != AUTO and not (type(workers) is int and 1 <= workers <= MOST_WORKERS):
        raise ValueError(f"expected a number from 1 to {MOST_WORKERS}, or {AUTO}, got {workers!r}")
    return workers


def _beside_the_file(value: Any, info: ValidationInfo) -> Any:
    return Path((info.context or {}).get(DIRECTORY, "")).absolute() / value if isinstance(value, str) else value


class Config(Settings):
    """The whole file."""

    listen: Annotated[str, AfterValidator(check_listen)] = "127.0.0.1:10000"
    """Where clients connect. `[::]:PORT` takes IPv4 and IPv6, at all of the machine's addresses."""
    tls: ListenerTls | None = None
    """Clients connect by TLS, with this certificate."""
    api_keys: AbsolutePath | None = None
    """The file with the keys of those who may come in: a line `name: sha256 of the key, in hexadecimal` for each."""
    jwt: Jwt | None = None
    """Clients come with tokens of an identity provider, instead of keys."""
    teams: tuple[Team, ...] = ()
    """Whose keys may do what, by the part of a key's name before its slash. Unless given, a key's team is only told."""
    models: Annotated[tuple[Model, ...], Field(min_length=1)]
    """What clients may ask for."""
    backends: Annotated[tuple[Backend, ...], Field(min_length=1)]
    """The model servers."""
    aliases: dict[AliasName, Annotated[Alias, BeforeValidator(Alias.written, json_schema_input_type=Name | Alias)]] = (
        Field(default_factory=dict)
    )
    """Other names that clients may ask for, and the model that is meant, or several. A `*` at the end stands for
    anything: `claude-*`. The models' own names come first, then the longest alias."""
    other_paths: tuple[Annotated[str, AfterValidator(check_exact_path)], ...] = OTHER_PATHS
    """What backends are asked for besides chat completions; which one, the model that a request names says. A path that
    is neither here nor the gateway's own is a 404."""
    allowed_origins: tuple[Annotated[str, AfterValidator(check_origin)], ...] | None = None
    """The web pages that may use the gateway from within a browser, by their origin. Unless given: all where keys are
    asked for, because a page has to know one; none where they aren't, because any page that is opened could ask."""
    withheld: tuple[ParameterName, ...] = tuple(WITHHELD)
    """What of requests no backend gets, but those that name it among their `parameters`."""
    media_urls: MediaUrls = "public"
    """Where content parts may send backends for images, audio and video: nowhere (`none`), to what can be told to be
    `public`, or `any` place, files of the backend among them."""
    limits: Limits = Limits()
    """What one exchange, and one client, may use."""
    rate_limit_service: RateLimitService | None = None
    """What counts requests and tokens for all Envoys together. It needs `api_keys` or `jwt`, and without it there can
    be no limit in tokens."""
    count_every_answer: bool = False
    """Answers without tools are read for what they cost as well, which limits in tokens do anyway."""
    characters: Annotated[AbsolutePath | None, BeforeValidator(_beside_the_file)] = None
    """The directory of characters, from this file's own: each `NAME.py` there is the model `character/NAME`."""
    tool_servers: tuple[ToolServer, ...] = ()
    """MCP servers whose tools run on our side."""
    runs: Runs = Runs()
    """What one request may use whose tools run on our side."""
    sockets: AbsolutePath = Path("/run/extproc")
    """The directory of the sockets between Envoy, the processor and the runner."""
    transport: Literal["lean", "grpcio"] = "lean"
    """What carries gRPC between Envoy and the processor: HTTP/2 of our own, or gRPC's library."""
    workers: Annotated[
        int | Literal["auto"],
        BeforeValidator(
            _check_workers, json_schema_input_type=Annotated[int, Field(ge=1, le=MOST_WORKERS)] | Literal["auto"]
        ),
    ] = 1
    """In how many processes exchanges run: a number, or `auto` for one on each core that this process may use."""
    recording: Recording | None = None
    """Put exchanges into files, for bug reports."""
    tracing: Tracing | None = None
    """Send traces of exchanges to a collector."""
    metrics: Metrics | None = None
    """Send metrics to a collector, besides the page of them."""
    watch: bool = False
    """Show exchanges to `extproc watch`, if that runs."""
    _ladders: dict[str, Ladder] = PrivateAttr(default_factory=dict)
    _places: Mapping[str, int] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _references_hold(self) -> Self:
        models, backends = [model.name for model in self.models], [backend.name for backend in self.backends]
        recorded = self.recording.model if self.recording is not None else None
        if faults := list(broken_references(models, [model.backend for model in self.models], backends, recorded)):
            raise FieldErrors(faults)
        servers = [server.name for server in self.tool_servers]
        for index, server in enumerate(servers):
            if server in servers[:index]:
                raise FieldError(("tool_servers", index, "name"), f"{server!r} is used twice")
        for index, model in enumerate(self.models):
            for place, server in enumerate(model.tool_servers):
                if server not in servers:
                    problem = f"no entry of `tool_servers` is named {server!r}"
                    raise FieldError(("models", index, "tool_servers", place), problem)
            if model.name.startswith(CHARACTER) and self.characters is not None:
                raise FieldError(("models", index, "name"), f"names that begin with {CHARACTER} are characters'")
        for index, name in enumerate(self.withheld):
            if name in TOOL_PARAMETERS or name in ("model", "messages", "stream", "stream_options"):
                raise FieldError(("withheld", index), f"{name} can't be withheld: a request makes no sense without it")
            if name.startswith("content.") and name not in WITHHELD:
                raise FieldError(("withheld", index), "no such content part")
            for place, backend in enumerate(self.backends if "withheld" in self.model_fields_set else ()):
                if name in backend.parameters:
                    problem = f"{name} is also in `withheld`: remove it from one of the two"
                    raise FieldError(("backends", place, "parameters"), problem)
        if self.workers != 1 and self.transport != "lean":
            raise FieldError(
                ("workers",), "more than one needs `transport: lean`: gRPC's library can't share its sockets"
            )
        return self

    @model_validator(mode="after")
    def _tools_can_be_shown(self) -> Self:
        for index, model in enumerate(self.models):
            backend = self.backends_by_name[model.backend]
            if model.tools in ("template", "auto") and backend.kind.unread is None:
                problem = (
                    f"the backend {model.backend!r} has `server: {backend.server}`, and {backend.kind.title} reads "
                    "calls itself wherever its chat template shows tools: `native` or `prompt`"
                )
                raise FieldError(("models", index, "tools"), problem)
        return self

    @model_validator(mode="after")
    def _ladders_hold(self) -> Self:
        for index, model in enumerate(self.models):
            if model.tools == "auto":
                try:
                    ladder = Ladder.of(model, self.backends_by_name[model.backend])
                except FieldError as error:
                    raise FieldError(("models", index, *error.location), str(error)) from None
                self._ladders[model.name] = ladder
        self._place({})  # so that nothing else ever meets an `auto`
        return self

    @model_validator(mode="after")
    def _aliases_hold(self) -> Self:
        for alias, meant in self.aliases.items():
            for place, name in meant.places():
                at = ("aliases", alias, *(() if meant.is_plain else place))
                if name not in self.models_by_name:
                    raise FieldError(at, f"no model is named {name!r}")
                if self.models_by_name[name].tool_servers and not meant.is_plain:
                    raise FieldError(at, f"{name!r} has `tool_servers`, whose runs go by one model")
            if alias.startswith(CHARACTER) and self.characters is not None:
                raise FieldError(("aliases", alias), f"names that begin with {CHARACTER} are characters'")
            if alias in self.models_by_name:
                raise FieldError(("aliases", alias), "a model has this name itself")
        return self

    @model_validator(mode="after")
    def _teams_hold(self) -> Self:
        if self.jwt is not None and self.api_keys is not None:
            problem = "clients come with keys or with tokens, not with both: remove `jwt` or `api_keys`"
            raise FieldError(("jwt",), problem)
        if self.teams and not self.identifies_clients:
            raise FieldError(("teams",), "without `api_keys` or `jwt` nobody is of any team")
        if self.teams and self.jwt is not None and self.jwt.team_claim is None:
            raise FieldError(("teams",), "without `jwt.team_claim` nobody is of any team")
        for index, team in enumerate(self.teams):
            if team.name in [other.name for other in self.teams[:index]]:
                raise FieldError(("teams", index, "name"), f"{team.name!r} is used twice")
            for place, model in enumerate(team.models or ()):
                of_a_character = model.startswith(CHARACTER) and self.characters is not None
                if model not in self.models_by_name and model not in self.splits and not of_a_character:
                    raise FieldError(("teams", index, "models", place), f"no model is named {model!r}")
        return self

    @model_validator(mode="after")
    def _priorities_hold(self) -> Self:
        for index, model in enumerate(self.models):
            if PRIORITY in model.defaults and self.backends_by_name[model.backend].priority_scheduling:
                problem = f"{PRIORITY} is the gateway's own: the backend {model.backend!r} has `priority_scheduling`"
                raise FieldError(("models", index, "defaults", PRIORITY), problem)
        return self

    @model_validator(mode="after")
    def _limits_hold(self) -> Self:
        for limit in self.token_limits:
            at = [index for index, team in enumerate(self.teams) if limit.whose == "team" and team.name == limit.name]
            location = (*(("teams", at[0]) if at else ("limits",)), limit.setting)
            if self.rate_limit_service is None:
                raise FieldError(location, "without `rate_limit_service` nobody counts tokens")
            if not self.identifies_clients:
                raise FieldError(location, NOBODY)
        if self.rate_limit_service is not None and not self.identifies_clients:
            raise FieldError(("rate_limit_service",), NOBODY)
        if self.limits.requests_per_minute not in (None, Limits().requests_per_minute) and not self.identifies_clients:
            raise FieldError(("limits", "requests_per_minute"), NOBODY)
        return self

    @model_validator(mode="after")
    def _can_force(self) -> Self:
        for index, model in enumerate(self.models):
            backend = self.backends_by_name[model.backend]
            if model.forced and not backend.can_force:
                why = "server: " + backend.server if backend.structured_outputs else "structured_outputs: false"
                problem = f"the backend {model.backend!r} has `{why}`: nothing can be forced there"
                raise FieldError(("models", index, "forced"), problem)
        return self

    @model_validator(mode="after")
    def _can_tell_confidence(self) -> Self:
        for index, model in enumerate(self.models):
            if model.min_confidence is None:
                continue
            backend, steps = self.backends_by_name[model.backend], self.all_models
            shows_tools = any(each.tools == "template" and each.retry for each in steps if each.name == model.name)
            problem = ""
            if shows_tools and not backend.kind.logprobs_with_tools:
                problem = (
                    f"the backend {model.backend!r} has `server: {backend.server}`, and {backend.kind.title} tells no "
                    "probabilities in streams with tools: it needs `tools: prompt`, or `steering: {first: prompt}`"
                )
            elif "logprobs" in self.withheld_from(backend):
                problem = "the backend is asked for logprobs then, and `withheld` keeps them from it"
            if problem:
                raise FieldError(("models", index, "min_confidence"), problem)
        return self

    @property
    def ladders(self) -> Mapping[str, Ladder]:
        """Of the models with `tools: auto`, by name. Each stands in `models` as one of its steps, first the first."""
        return self._ladders

    @cached_property
    def steps(self) -> Mapping[str, Step]:
        """At which of them each of those models stands here."""
        return {name: ladder.steps[self._places.get(name, 0)] for name, ladder in self._ladders.items()}

    def at(self, places: Mapping[str, int]) -> Self:
        """The same with models at other steps, by their places in the ladders; who isn't named is at the first."""
        made = self.model_copy()
        made._place(places)
        return made

    def _place(self, places: Mapping[str, int]) -> None:
        for kept in ("steps", "models_by_name"):
            self.__dict__.pop(kept, None)
        self._places = places
        steps = self.steps
        self.__dict__["models"] = tuple(
            steps[model.name].model if model.name in steps else model for model in self.models
        )

    @property
    def all_models(self) -> Sequence[Model]:
        """As which models backends may be asked: of those that are steered, every step."""
        others = [model for model in self.models if model.name not in self._ladders]
        return [*others, *(step.model for ladder in self._ladders.values() for step in ladder.steps)]

    @property
    def identifies_clients(self) -> bool:
        """Whether only those come in of whom it is known who they are."""
        return self.api_keys is not None or self.jwt is not None

    @property
    def runs_tools(self) -> bool:
        """Whether anything is asked of the runner."""
        return self.characters is not None or any(model.tool_servers for model in self.models)

    @property
    def asks_itself(self) -> bool:
        """Whether Envoy needs its inner listener, by which the gateway's own requests come."""
        return self.runs_tools or any(model.retry for model in self.all_models)

    @property
    def inner_socket(self) -> Path:
        """Where Envoy listens for the gateway's own requests."""
        return self.sockets / "inner.sock"

    @property
    def runner_socket(self) -> Path:
        """Where the runner listens."""
        return self.sockets / "runner.sock"

    @property
    def watch_socket(self) -> Path:
        """Where a watcher listens."""
        return self.sockets / "watch.sock"

    @property
    def origins(self) -> tuple[str, ...]:
        """Those of `allowed_origins`, or what holds when it isn't given."""
        if self.allowed_origins is not None:
            return self.allowed_origins
        return (ANY_ORIGIN,) if self.identifies_clients else ()

    def withheld_from(self, backend: Backend) -> frozenset[str]:
        """What this backend doesn't get."""
        own = (PRIORITY,) if backend.priority_scheduling else ()  # whoever sends the lowest would be first
        return _difference((*self.withheld, *own), backend.parameters)

    @cached_property
    def routes_by_model(self) -> bool:
        """Whether a request of `other_paths` is read for its model: not where one backend serves all, by the names that
        clients use, to all of them."""
        renamed = any(model.upstream_name != model.name for model in self.models)
        bounded = any(team.is_bounded for team in self.teams)
        return self.only_backend is None or renamed or bounded or bool(self.aliases)

    @property
    def only_backend(self) -> str | None:
        """The backend that serves all models, if one does."""
        names = {model.backend for model in self.models}
        return names.pop() if len(names) == 1 else None

    @property
    def default_backend(self) -> Backend:
        """Which gets a request of `other_paths` that has no body to name a model in."""
        return self.backends_by_name[self.only_backend or self.backends[0].name]

    def path_of(self, path: str) -> str:
        """By which name the gateway knows the path that a client asks for, whose base URL may have no `/v1`."""
        spelled = path.removesuffix("/")  # some clients have a slash at the end
        if spelled in ANSWERED_PATHS or f"/v1{spelled}" in ANSWERED_PATHS:
            return spelled if spelled in ANSWERED_PATHS else f"/v1{spelled}"
        if path == HEALTH_PATH or path in self.other_paths:
            return path
        versioned = f"/v1{path}"
        return versioned if versioned in self.other_paths or f"{versioned}/".startswith(f"{MODELS_PATH}/") else path

    @property
    def listen_address(self) -> Address:
        return Address.parse(self.listen)

    @cached_property
    def models_by_name(self) -> Mapping[str, Model]:
        return {model.name: model for model in self.models}

    @cached_property
    def splits(self) -> Mapping[str, Alias]:
        """The aliases that are more than another name for one model, by name."""
        return {name: alias for name, alias in self.aliases.items() if not alias.is_plain}

    @cached_property
    def backends_with_fallback(self) -> Sequence[Backend]:
        """Those for whose models some alias has others to ask."""
        models = [name for alias in self.aliases.values() if alias.fallback for name in alias.models]
        return [self.backends_by_name[name] for name in dict.fromkeys(self.models_by_name[m].backend for m in models)]

    def alias_of(self, name: str) -> str | None:
        """The alias that a client means by a name, which no model has itself."""
        if name in self.models_by_name:
            return None
        if name in self.aliases:
            return name
        beginnings = [alias for alias in self.aliases if alias.endswith("*") and name.startswith(alias[:-1])]
        return max(beginnings, key=len) if beginnings else None

    def model_of(self, name: str, choice: Choice | None = None) -> Model | None:
        """The model that a client means by a name; of several the one of the `choice`, or else the largest."""
        if (model := self.models_by_name.get(name)) is not None:
            return model
        if (alias := self.alias_of(name)) is None:
            return None
        if choice is not None and choice.alias == alias:
            return self.models_by_name[choice.model]
        return self.models_by_name[self.aliases[alias].models[0]]

    @cached_property
    def teams_by_name(self) -> Mapping[str, Team]:
        return {team.name: team for team in self.teams}

    @property
    def rates_of_teams(self) -> Mapping[str, int]:
        """Requests per minute of the teams that have a limit, by name."""
        return {team.name: team.requests_per_minute for team in self.teams if team.requests_per_minute is not None}

    @cached_property
    def token_limits(self) -> tuple[GlobalLimit, ...]:
        """All limits in tokens, of keys and of teams."""
        return token_limits(self.limits, self.teams)

    @cached_property
    def global_limits(self) -> tuple[GlobalLimit, ...]:
        """All that the service counts for: those in tokens, and then those of requests."""
        if self.rate_limit_service is None:
            return ()
        return (*self.token_limits, *request_limits(self.limits, self.teams))

    @property
    def global_limit_kinds(self) -> Sequence[tuple[str, str]]:
        """What kinds of them there are, each once, and whose each is."""
        return list(dict.fromkeys((limit.kind, limit.whose) for limit in self.global_limits))

    @property
    def counts_tokens(self) -> bool:
        """Whether it is to be known of each answer what it cost, which counts against a limit, or is asked for."""
        return self.count_every_answer or bool(self.token_limits)

    def model_for(self, team: Team | None, name: str, choice: Choice | None = None) -> Model | None:
        """The model that a client of this team means by a name: to it, there are no others than it may ask."""
        model = self.model_of(name, choice)
        if model is None or team is None:
            return model
        alias = self.alias_of(name)
        if alias is not None and alias in self.splits:
            return model if self.may_ask_split(team, alias) else None
        return model if team.may_ask(model.name) else None

    def may_ask_split(self, team: Team, alias: str) -> bool:
        """Whether a team may ask by this alias: if it has its name, or those of all models that it may lead to."""
        return team.may_ask(alias) or all(map(team.may_ask, self.splits[alias].models))

    def names_for(self, team: Team | None) -> list[str]:
        """Of the models that it may ask, and of the splits that it may ask by name alone."""
        if team is None or team.models is None:
            return list(self.models_by_name)
        return [name for name in (*self.models_by_name, *self.splits) if name in team.models]

    @cached_property
    def backends_by_name(self) -> Mapping[str, Backend]:
        return {backend.name: backend for backend in self.backends}


@lru_cache
def _difference(names: tuple[str, ...], without: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names).difference(without)

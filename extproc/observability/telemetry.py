"""What the processor counts, for Prometheus.

Every label has few values, all known beforehand: models of the configuration, words of OpenAI's and of our own, and
a word for whatever else clients and backends may write. So nobody can make the number of series grow, and nothing
that was said can become one. docs/observability.md tells what each metric means and what to do when it rises; a test
holds the two together.

Whoever counts runs in one event loop with whoever reads: there is nothing here to be locked. What makes a page of it
is imported with the first page: who waits for a processor to come back doesn't wait for that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from http import HTTPStatus
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from extproc.config import Config
from extproc.contract.errors import ANSWER_VIOLATIONS, OUT_OF_BOUNDS, ApiError
from extproc.contract.parameters import PARAMETERS
from extproc.contract.withheld import WITHHELD
from extproc.observability.choice_metrics import ChoiceMetrics
from extproc.observability.model_metrics import ModelMetrics
from extproc.observability.series import (
    Build,
    Counter,
    Gauge,
    Histogram,
    Info,
    OfMemory,
    OfProcess,
    OfQuality,
    Quality,
    Read,
    Remembering,
    Series,
)
from extproc.observability.steering_metrics import SteeringMetrics, Steps

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

CODES = ANSWER_VIOLATIONS.union(OUT_OF_BOUNDS) | frozenset(
    """
    invalid_json missing_required_parameter invalid_type invalid_value model_not_found
    property_name_above_max_length invalid_function_parameters
    parameter_withheld origin_not_allowed request_too_large request_timeout overloaded bad_request method_not_allowed
    context_length_exceeded rate_limit_exceeded batch_limit_exceeded invalid_api_key missing_token invalid_token
    unknown_team not_found
    rate_limits_unavailable backend_key_refused bad_gateway service_unavailable gateway_timeout
    """.split()
)
"""The codes of errors that are counted by their name: those of refused requests, of Envoy's own refusals, and those
that backends' errors are given. Any other error is counted by its status."""

KNOWN_PARAMETERS = frozenset([*(row.name for row in PARAMETERS), *WITHHELD]) | frozenset(
    """
    audio moderation prediction prompt_cache_options prompt_cache_retention web_search_options
    """.split()
)
"""The request parameters that are counted by their name: those of the table, what clients aren't trusted with, and
OpenAI's others."""

TOKENS = {"prompt": "prompt_tokens", "completion": "completion_tokens"}
"""The kinds of tokens that are counted, and what OpenAI's usage calls them."""

OTHER = "other"

File: TypeAlias = Literal["config", "api_keys"]
"""What is read again when it changes."""

TRANSPORT = (
    ("extproc_transport_connections", "Connections of Envoy's, and of probes."),
    ("extproc_transport_streams", "gRPC calls that are open."),
    ("extproc_transport_unsent_bytes", "Bytes of replies that Envoy hasn't taken yet."),
)
READING = (
    ("extproc_reading_queue", "Bodies that are read by other processes, or wait for it."),
    ("extproc_reading_queue_bytes", "Bytes of the bodies that are read by other processes, or wait for it."),
)

LAGS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Seconds."""

_STATUSES = frozenset(HTTPStatus)


class Telemetry:
    """The metrics of one processor, in a registry of their own."""

    def __init__(self, config: Config, digest: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` tells seconds, from any beginning: exchanges' times are measured by it."""
        self.clock = clock
        self.models = ModelMetrics()
        """What is counted of models' answers."""
        self._series: list[Series] = []
        counter = self._counter
        self._requests = counter("requests", "Chat completions sent on to a backend.", "model")
        self._with_tools = counter("requests_with_tools", "Chat completions whose answers are rewritten.", "model")
        self._refused = counter("refused_requests", "Requests refused before any backend.", "code")
        self._backend_errors = counter("backend_errors", "Errors instead of answers, by status.", "model", "status")
        self._stream_errors = counter("stream_errors", "Streams that ended with an error event.", "model", "code")
        self._withheld = counter("withheld_error_texts", "Backends' errors of which clients don't get all.", "model")
        self._dropped = counter("dropped_parameters", "Request parameters that backends didn't get.", "parameter")
        self._repaired = counter("repaired_arguments", "Malformed arguments in histories that were repaired.", "model")
        self._invalid_calls = counter("invalid_calls", "Calls that don't fit the offered tools.", "model", "fault")
        self._diagnosed = counter(
            "diagnosed", "Answers of which it was found why there is no call in them, by the cause.", "model", "cause"
        )
        self._tokens = counter(
            "tokens", "Tokens of the answers that are read, as backends count them.", "model", "kind"
        )
        self._team_requests = counter("team_requests", "Chat completions sent on, by the team of the key.", "team")
        self._team_tokens = counter(
            "team_tokens", "Tokens of the answers that are read, by the team of the key.", "team", "kind"
        )
        self._unfinished = counter("unfinished_exchanges", "Exchanges that ended before their answer.", "phase")
        self._aborted = counter("aborted_exchanges", "Exchanges that the processor broke off.", "reason")
        self._worker_restarts = counter("worker_restarts", "Workers started again, because they died or hung.")
        self._worker_restarts.add(count=0)
        self._running = self._gauge("extproc_running_exchanges", "Exchanges under way.")
        self._series.append(Build("extproc_build", "Versions of the processor and of its Python."))
        self._memory = OfMemory()
        self._series.append(self._memory)
        self._series += self.models.series
        self._quality = OfQuality()
        self.steering = SteeringMetrics()
        """What is counted, and logged, of models that are steered."""
        self._series += self.steering.series
        self.choices = ChoiceMetrics()
        """What is counted, and logged, of aliases with several models."""
        self._series += self.choices.series
        self._transport = Read(*TRANSPORT)
        self._reading = Read(*READING)
        self._series += [self._quality, self._transport, self._reading, OfProcess()]
        self._config = Info("extproc_config", "The configuration in force.")
        self._series.append(self._config)
        self._valid: dict[File, Gauge] = {
            "config": self._gauge("extproc_config_valid", "1 if the configuration file is in force as it is."),
            "api_keys": self._gauge("extproc_api_keys_valid", "1 if every line of the API keys' file is in force."),
        }
        self._reloads: dict[File, Counter] = {
            "config": counter("config_reloads", "Changes of the configuration file, by what came of them.", "result"),
            "api_keys": counter("api_keys_reloads", "Changes of the API keys' file, by what came of them.", "result"),
        }
        self._keys_unreadable = self._gauge(
            "extproc_api_keys_unreadable_lines", "Lines of the API keys' file that let nobody in."
        )
        self._keys_missing = self._gauge(
            "extproc_api_keys_missing", "1 while there is no API key in the file any more."
        )
        self._keys_closed = self._gauge("extproc_api_keys_closed", "1 while nobody is let in for want of an API key.")
        for file in self._valid:
            self._valid[file].set(1)
            for result in ("ok", "refused"):
                self._reloads[file].add(result, count=0)
        self._ignored_overrides = counter("ignored_overrides", "Calls that ended where an override's body was due.")
        self._ignored_overrides.add(count=0)
        self._host_follows = self._gauge("extproc_host_follows_overrides", "0 while Envoy ignores mode_override.")
        self._host_follows.set(1)
        for reason in ("bug", "protocol_error", "observability_mode"):
            self._aborted.add(reason, count=0)
        lag = Histogram("extproc_loop_lag_seconds", "Rounds of the event loop, by how long they took.", LAGS)
        self._series.append(lag)
        self.lagged = lag.observe
        """Counts a round of the event loop, by its seconds."""
        self.configured(config, digest)

    def shows(self, memory: Remembering, quality: Quality | None = None, steps: Steps | None = None) -> None:
        """These are the numbers of the processor's memory, of how its models call, and at which steps they are."""
        self._memory.source = memory
        self._quality.source = quality
        self.steering.source = steps

    def configured(self, config: Config, digest: str) -> None:
        """`config`, from a file with this `digest`, is in force from now on.

        Series of models that are gone stay: their exchanges may still run, and what isn't read yet would be lost.
        """
        self._config.values = {"hash": digest}
        self._parameters = KNOWN_PARAMETERS.union(config.withheld, *(backend.parameters for backend in config.backends))
        self.models.configured(config)
        self.steering.configured(config)
        self.choices.configured(config)
        # Prometheus doesn't see the first event of a series that begins with it: all that are known begin at 0.
        for model in config.models_by_name:
            for of_a_model in (self._requests, self._with_tools, self._repaired, self._withheld):
                of_a_model.add(model, count=0)
            for violation in sorted(ANSWER_VIOLATIONS):
                self._invalid_calls.add(model, violation, count=0)
            for kind in TOKENS:
                self._tokens.add(model, kind, count=0)
        for team in config.teams_by_name:
            self._team_requests.add(team, count=0)
            for kind in TOKENS:
                self._team_tokens.add(team, kind, count=0)

    def reloaded(self, file: File, *, valid: bool) -> None:
        """A file was changed, and is in force as it is now, or not."""
        self._reloads[file].add("ok" if valid else "refused")

    def show_validity(self, file: File, *, valid: bool) -> None:
        """Whether what is in a file is in force."""
        self._valid[file].set(valid)

    def show_keys(self, *, unreadable: int = 0, missing: bool = False, closed: bool = False) -> None:
        """What is wrong with the file of API keys: lines of it, or that there is no key in it, by now to its effect."""
        self._keys_unreadable.set(unreadable)
        self._keys_missing.set(missing)
        self._keys_closed.set(closed)

    def worker_restarted(self) -> None:
        """A worker has died, or hung and was killed, and another takes its place."""
        self._worker_restarts.add()

    @cached_property
    def registry(self) -> CollectorRegistry:
        """All metrics, as prometheus-client collects them."""
        from extproc.observability.exposition import registry_of

        return registry_of(self._series)

    def page(self) -> bytes:
        """All metrics in Prometheus' text format."""
        from extproc.observability.exposition import pieces_of

        return b"".join(pieces_of(self.registry.collect()))

    @property
    def metrics(self) -> list[Metric]:
        """All of them, as they are now."""
        return list(self.registry.collect())

    async def metrics_in_turns(self) -> list[Metric]:
        """The same, while others have their turn."""
        exposition = await _exposition()
        collected: list[Metric] = await exposition.collected(self.registry)
        return collected

    async def page_in_turns(self, *, openmetrics: bool = False) -> bytes:
        """The page, while others have their turn; in OpenMetrics' format, if so."""
        exposition = await _exposition()
        pieces = exposition.pieces_of(self.registry.collect(), openmetrics=openmetrics)
        page: bytes = await exposition.whole(pieces)
        return page

    def watch(
        self,
        running: Callable[[], int],
        transport: Callable[[], Sequence[float]] | None = None,
        reading: Callable[[], Sequence[float]] | None = None,
    ) -> None:
        """Have these asked, whenever the metrics are read: how many exchanges are under way, and for the numbers of
        TRANSPORT and READING."""
        self._running.read = running
        self._transport.source, self._reading.source = transport, reading

    # What happens to an exchange. `model` is always a model's name in the configuration.

    def accepted(self, model: str, dropped: Sequence[str], repaired: int, *, with_tools: bool = False) -> None:
        """A request goes to its backend, without the parameters `dropped`; `with_tools`: its answer is rewritten."""
        self._requests.add(model)
        self._with_tools.add(model, count=int(with_tools))
        self._repaired.add(model, count=repaired)
        for name in dropped:
            self._dropped.add(name if name in self._parameters else OTHER)

    def refused(self, error: ApiError) -> None:
        """A request doesn't reach any backend."""
        self._refused.add(error_type(error))

    def backend_error(self, model: str, error: ApiError) -> None:
        """The client gets `error` instead of an answer."""
        self._backend_errors.add(model, _status(error.status))
        self._withheld.add(model, count=error.withheld)

    def stream_error(self, model: str, error: ApiError) -> None:
        """The client gets `error` inside a stream."""
        self._stream_errors.add(model, error_type(error))
        self._withheld.add(model, count=error.withheld)

    def asked_by(self, team: str) -> None:
        """What was accepted, a key of this team has asked for."""
        self._team_requests.add(team)

    def answered(
        self, model: str, usage: Mapping[str, Any], violations: Mapping[str, int], team: str | None = None
    ) -> None:
        """What an answer came to: OpenAI's `usage`, as the backend wrote it, and how many calls had which fault.

        `team`: whose key asked for it, if it is one of those in the settings.
        """
        for kind, name in TOKENS.items():
            count = usage.get(name)
            if isinstance(count, int) and count > 0:  # a backend may write anything
                self._tokens.add(model, kind, count=count)
                if team is not None:
                    self._team_tokens.add(team, kind, count=count)
        for violation, count in violations.items():
            self._invalid_calls.add(model, violation, count=count)

    def diagnosed(self, model: str, cause: str) -> None:
        """`cause` is a name of `extproc.diagnosis.CAUSES`."""
        self._diagnosed.add(model, cause)

    def unfinished(self, phase: str) -> None:
        """An exchange ended while it waited for `phase`: the client left, or the backend's connection broke."""
        self._unfinished.add(phase)

    def aborted(self, reason: str) -> None:
        """The processor itself broke an exchange off: `bug`, `protocol_error`, `head_gone` or
        `observability_mode`."""
        self._aborted.add(reason)

    def override_ignored(self) -> None:
        """A call ended as it does where a `mode_override` is ignored."""
        self._ignored_overrides.add()

    def show_host(self, *, follows: bool) -> None:
        """Whether `mode_override` is followed, as far as is known."""
        self._host_follows.set(follows)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        made = Counter(f"extproc_{name}", meaning, *labels)
        self._series.append(made)
        return made

    def _gauge(self, name: str, meaning: str) -> Gauge:
        made = Gauge(name, meaning)
        self._series.append(made)
        return made


async def _exposition() -> ModuleType:
    """Imported beside the loop: that takes 25 ms, once."""
    return await asyncio.to_thread(import_module, "extproc.observability.exposition")


def error_type(error: ApiError) -> str:
    """What an error counts as: a word that is known beforehand."""
    return error.code if error.code in CODES else _status(error.status)


def _status(status: int) -> str:
    return str(status) if status in _STATUSES else OTHER

"""What is counted of models' answers, by model, mode, format and dialect.

Durations and tokens have the names, units and bounds of OpenTelemetry's conventions for generative AI
(https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-metrics.md), as Prometheus spells
them: dots become underscores, and the unit stands at the end. Their durations end at 82 seconds, and an agent's answer
may take minutes: three bounds are added. What the conventions have no name for is called `extproc_`.

What the processor sees to the end it counts itself. Of answers that pass it by, and of how all of them ended, it learns
from Envoy's access log (`extproc.server.access_log`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args

from extproc.config import Config
from extproc.config.model import Mode
from extproc.contract.errors import CALL_VIOLATIONS
from extproc.observability.series import Counter, Exemplar, Histogram, Series
from extproc.toolcalls.repairs import REPAIRS

PROVIDER = "vllm"
"""`gen_ai.provider.name`: the conventions know no name for it, and allow one's own."""
OF_MODEL = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
OF_OURS = ("extproc_mode", "extproc_format", "extproc_dialect")
TOKEN_TYPES: Mapping[str, str] = {"prompt_tokens": "input", "completion_tokens": "output"}
"""The conventions' words, by OpenAI's."""

TOKENS = tuple(4**power for power in range(14))
SECONDS = tuple(0.01 * 2**power for power in range(17))
FIRST_TOKEN = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    *SECONDS[11:],
)
PER_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)

CONFIDENCE = (0.5, 0.6, 0.7, 0.8, 0.84, 0.86, 0.88, 0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)

FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})
OTHER = "other"
"""For whatever else a backend may write."""
UNFINISHED = "unfinished"
"""The `error_type` of an exchange that ended before its answer did: Envoy's log tells who left."""

RETRIES = ("helped", "in_vain")
"""What comes of asking a backend once more."""
CALL_RESULTS = ("valid", "cut_off", *sorted(CALL_VIOLATIONS))

End: TypeAlias = Literal["complete", "refused", "error", "cut_by_backend", "left_by_client", "timeout"]
"""How an answer ended, as Envoy saw it; `refused` is an error of the client's own."""
ENDS: tuple[End, ...] = get_args(End)
MODES: frozenset[str] = frozenset(get_args(Mode))


class Asked(Protocol):
    """What a request was (`extproc.turn.asked`)."""

    @property
    def mode(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def dialect(self) -> str: ...
    @property
    def operation(self) -> str: ...


class Tally(Protocol):
    """What an answer came to (`extproc.turn.tally`)."""

    @property
    def violations(self) -> Mapping[str, int]: ...
    @property
    def valid(self) -> int: ...
    @property
    def cut_off(self) -> int: ...
    @property
    def repairs(self) -> Mapping[str, int]: ...
    @property
    def finish_reasons(self) -> Iterable[str | None]: ...
    @property
    def called(self) -> bool: ...
    @property
    def confidence(self) -> float | None: ...
    @property
    def unsure_of(self) -> str | None: ...


@dataclass(slots=True)
class Passed:
    """What Envoy's access log tells of an answer, of which the labels are ours.

    Not frozen, because there is one for each request, and a frozen one takes three times as long to be made.
    """

    model: str
    mode: str
    format: str
    dialect: str
    operation: str
    stream: bool
    tools: bool
    """The processor rewrote it, and has counted what it came to."""
    end: End
    status: int
    seconds: float
    first_byte: float | None
    """Seconds until the backend's first byte, which are those of its head."""
    request_bytes: int
    answer_bytes: int


class ModelMetrics:
    """Of one processor. `model` is always a model's name in the configuration."""

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}  # formats by model
        self._tokens = Histogram(
            "gen_ai_client_token_usage",
            "Tokens of one answer, as the backend counts them.",
            TOKENS,
            *OF_MODEL,
            "gen_ai_token_type",
            *OF_OURS,
        )
        self._duration = Histogram(
            "gen_ai_client_operation_duration_seconds",
            "From the request to the end of its answer.",
            SECONDS,
            *OF_MODEL,
            "error_type",
            *OF_OURS,
        )
        self._first_token = Histogram(
            "gen_ai_server_time_to_first_token_seconds",
            "From the request to the first token of a stream that the processor reads.",
            FIRST_TOKEN,
            *OF_MODEL,
            *OF_OURS,
        )
        self._per_token = Histogram(
            "gen_ai_server_time_per_output_token_seconds",
            "Time per token behind the first one of a stream that the processor reads.",
            PER_TOKEN,
            *OF_MODEL,
            *OF_OURS,
        )
        of_model = ("model", "mode", "format")
        self._calls = Counter(
            "extproc_calls", "Calls that models made, by what was wrong with them.", *of_model, "result"
        )
        self._repaired = Counter(
            "extproc_repaired_calls",
            "Valid calls that were malformed, by what was repaired.",
            *of_model,
            "repair",
        )
        self._offers = Counter(
            "extproc_tool_answers", "Whole answers to requests that offered tools.", *of_model, "called"
        )
        self._reasons = Counter("extproc_finish_reasons", "Why answers' choices ended.", *of_model, "reason")
        self._forced = Counter("extproc_forced_requests", "Requests whose calls a grammar forces.", *of_model)
        self._retries = Counter("extproc_retries", "Answers asked for once more.", *of_model, "result")
        self._confidence = Histogram(
            "extproc_call_confidence",
            "How sure models with `min_confidence` were of answers that begin with a call: 1 is certain.",
            CONFIDENCE,
            *of_model,
        )
        self._unsure = Counter(
            "extproc_unsure_answers",
            "Answers that begin with a call of which the model was less sure than `min_confidence`.",
            *of_model,
        )
        ended = (*of_model, "dialect", "tools")
        self._ended = Counter("extproc_answers", "Answers by how they ended, as Envoy saw it.", *ended, "end")
        self._bytes = Counter("extproc_answer_bytes", "Bytes of bodies to and from clients.", *ended, "direction")
        self._first_byte = Histogram(
            "extproc_time_to_first_byte_seconds",
            "From a request without tools to the first byte of its answer's head.",
            FIRST_TOKEN,
            *of_model,
            "dialect",
            "stream",
        )

    @property
    def series(self) -> list[Series]:
        """All of them."""
        return [
            self._tokens,
            self._duration,
            self._first_token,
            self._per_token,
            self._calls,
            self._repaired,
            self._offers,
            self._reasons,
            self._forced,
            self._retries,
            self._confidence,
            self._unsure,
            self._ended,
            self._bytes,
            self._first_byte,
        ]

    def configured(self, config: Config) -> None:
        """These models may be asked from now on, besides those that were there."""
        for model in config.all_models:
            label = model.format if model.mode != "native" or model.repair else ""
            self._known.setdefault(model.name, {""}).add(label)
            of_model = (model.name, model.mode, label)
            # Prometheus doesn't see the first event of a series that begins with it.
            for result in CALL_RESULTS:
                self._calls.add(*of_model, result, count=0)
            for repair in REPAIRS if label else ():
                self._repaired.add(*of_model, repair, count=0)
            for called in ("yes", "no"):
                self._offers.add(*of_model, called, count=0)
            for result in RETRIES:
                self._retries.add(*of_model, result, count=0)
            if model.min_confidence is not None:
                self._unsure.add(*of_model, count=0)

    # What the processor sees itself

    def forced(self, model: str, asked: Asked) -> None:
        """A grammar goes along with the request."""
        self._forced.add(model, asked.mode, asked.format)

    def retried(self, model: str, asked: Asked, *, helped: bool) -> None:
        """A required call, or another answer than a made-up or unsure one, was asked for, and came, or not."""
        self._retries.add(model, asked.mode, asked.format, RETRIES[0] if helped else RETRIES[1])

    def first_token(self, model: str, asked: Asked, seconds: float, exemplar: Exemplar | None) -> None:
        """The first chunk of a stream has come."""
        self._first_token.observe(seconds, *_of(model, asked), *_ours(asked), exemplar=exemplar)

    def per_token(self, model: str, asked: Asked, seconds: float, exemplar: Exemplar | None) -> None:
        """A stream's tokens took so long each, the first one aside."""
        self._per_token.observe(seconds, *_of(model, asked), *_ours(asked), exemplar=exemplar)

    def answered(
        self,
        model: str,
        asked: Asked,
        tally: Tally,
        tokens: Mapping[str, int],
        exemplar: Exemplar | None,
        *,
        offered: bool,
    ) -> None:
        """A backend's answer, whole or as far as it came. `tokens` by OpenAI's names, `offered`: it might call."""
        of_model = (model, asked.mode, asked.format)
        for name, kind in TOKEN_TYPES.items():
            if count := tokens.get(name):
                self._tokens.observe(count, *_of(model, asked), kind, *_ours(asked), exemplar=exemplar)
        self._calls.add(*of_model, "valid", count=tally.valid)
        self._calls.add(*of_model, "cut_off", count=tally.cut_off)
        for violation, count in tally.violations.items():
            if violation in CALL_VIOLATIONS:
                self._calls.add(*of_model, violation, count=count)
        for repair, count in tally.repairs.items():
            self._repaired.add(*of_model, repair, count=count)
        if tally.confidence is not None:
            self._confidence.observe(tally.confidence, *of_model, exemplar=exemplar)
            self._unsure.add(*of_model, count=tally.unsure_of is not None)
        whole = False
        for reason in tally.finish_reasons:
            self._reasons.add(*of_model, reason if reason in FINISH_REASONS else OTHER)
            whole = True
        if whole and offered:
            self._offers.add(*of_model, "yes" if tally.called else "no")

    def ended(self, model: str, asked: Asked, seconds: float, error: str, exemplar: Exemplar | None) -> None:
        """The client has its answer, or the error of this type."""
        self._duration.observe(seconds, *_of(model, asked), error, *_ours(asked), exemplar=exemplar)

    # What Envoy's access log tells

    def logged(self, passed: Passed) -> None:
        """A request for an answer is over. What nobody configured counts for nothing."""
        if (
            passed.format not in self._known.get(passed.model, ())
            or passed.mode not in MODES
            or passed.dialect not in DIALECTS
            or passed.operation not in OPERATIONS
        ):
            return
        ended = (passed.model, passed.mode, passed.format, passed.dialect, _flag(passed.tools))
        self._ended.add(*ended, passed.end)
        self._bytes.add(*ended, "from_client", count=passed.request_bytes)
        self._bytes.add(*ended, "to_client", count=passed.answer_bytes)
        if passed.tools or passed.end in ("error", "refused") or not 0 < passed.status < 400:
            return  # the processor has counted it itself
        error = "" if passed.end == "complete" else passed.end
        self.ended(passed.model, passed, passed.seconds, error, None)
        if passed.first_byte is not None:
            self._first_byte.observe(passed.first_byte, *ended[:4], _flag(passed.stream))


DIALECTS = frozenset({"chat", "messages", "responses"})
OPERATIONS = frozenset({"chat", "count_tokens"})


def _of(model: str, asked: Asked) -> tuple[str, str, str]:
    return asked.operation, PROVIDER, model


def _ours(asked: Asked) -> tuple[str, str, str]:
    return asked.mode, asked.format, asked.dialect


def _flag(value: bool) -> str:
    return "yes" if value else "no"

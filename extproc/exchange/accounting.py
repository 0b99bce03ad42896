"""What came of an exchange, for those who look on: the metrics at once, and what Envoy's metadata is told."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from extproc.config import Choice, Model, Team
from extproc.contract.errors import CONTEXT_LENGTH, LIMIT_REFUSALS, ApiError
from extproc.exchange.context import ExchangeContext
from extproc.exchange.cost import TOTAL
from extproc.observability.model_metrics import FINISH_REASONS, OTHER, UNFINISHED
from extproc.observability.telemetry import Telemetry, error_type
from extproc.turn.answer_stream import AnswerStream
from extproc.turn.asked import Asked
from extproc.turn.spec import ResponseSpec
from extproc.turn.tally import Tally
from extproc.turn.upstream import UpstreamRequest

_SHOWN = ("prompt_tokens", "completion_tokens", TOTAL)

_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f][13579bdf]")
"""The context of a trace that is kept: the last bit says `sampled`."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
"""Request ids as Envoy makes them: a client's own may say anything, and is shown to nobody else."""


class ExchangeStats:
    """Of one exchange. What returns something returns fields for Envoy's metadata."""

    __slots__ = (
        "_advice",
        "_answers",
        "_asked",
        "_began",
        "_calls",
        "_config",
        "_exemplar",
        "_finish_reasons",
        "_first",
        "_model",
        "_outages",
        "_over",
        "_quality",
        "_reply",
        "_spec",
        "_steered",
        "_steering",
        "_team",
        "_telemetry",
        "_tokens",
        "_violations",
    )

    def __init__(self, telemetry: Telemetry, context: ExchangeContext) -> None:
        self._telemetry = telemetry
        self._config = context.config
        self._outages = context.outages
        self._advice = context.advice
        self._quality = context.quality
        self._spec: ResponseSpec | None = None
        self._steering = context.steering
        self._steered: Model | None = None  # as which it was asked, if the answer says how well that suits it
        self._model: str | None = None
        self._team: str | None = None
        self._asked: Asked | None = None
        self._began = telemetry.clock()
        self._first: float | None = None  # when a stream's first token came, until it was made use of
        self._answers = False  # the backend, with a status that is none of an error
        self._reply = ""  # the code of the answer, if that is Envoy's own
        self._over = False  # how long it took is counted
        self._exemplar: dict[str, str] | None = None
        self._tokens = Counter[str]()
        self._violations = self._calls = 0
        self._finish_reasons: list[str] = []

    def identified(self, request_id: str, trace: Mapping[str, str]) -> None:
        """By what the exchange is found again."""
        if found := _TRACE.fullmatch(trace.get("traceparent", "")):
            self._exemplar = {"trace_id": found[1]}
        elif _UUID.fullmatch(request_id):
            self._exemplar = {"request_id": request_id}

    def let_in(self, team: Team | None) -> None:
        """Whose key it came with. Teams that the settings don't name aren't counted: a file of keys may have any."""
        self._team = team.name if team is not None else None

    def accepted(self, prepared: UpstreamRequest) -> dict[str, Any]:
        """The request goes to its backend."""
        assert prepared.model is not None  # a chat completion names one
        self._model, self._asked, self._spec = prepared.model, prepared.asked, prepared.answer
        rewritten = prepared.answer is not None and not prepared.answer.passes
        self._telemetry.accepted(prepared.model, prepared.dropped, prepared.repaired, with_tools=rewritten)
        if self._team is not None:
            self._telemetry.asked_by(self._team)
        fields: dict[str, Any] = {"model": prepared.model, "backend": prepared.backend}
        fields |= choice_told(prepared.choice)
        if (asked := prepared.asked) is not None:
            if asked.forced:
                self._telemetry.models.forced(prepared.model, asked)
            if asked.step:
                fields["step"] = asked.step
                if _may_call_freely(prepared, asked):
                    self._steered = self._config.models_by_name[prepared.model]
            fields |= {"mode": asked.mode, "dialect": asked.dialect, "stream": asked.stream, "rewritten": rewritten}
            if asked.format:
                fields["format"] = asked.format
            if asked.operation != "chat":
                fields["operation"] = asked.operation
        if prepared.dropped:
            fields["dropped"] = len(prepared.dropped)
        return fields

    def chosen(self, choice: Choice | None) -> None:
        """Why it is that model."""
        if choice is not None:
            self._telemetry.choices.chosen(choice)

    @property
    def _passes(self) -> bool:
        """Whether the answer is the backend's, so that Envoy's access log tells how long it took."""
        return self._spec is not None and self._spec.passes

    def head_came(self, backend: str, status: int, reply: str, *, is_trial: bool) -> None:
        """The answer's head tells how its backend is (`Outages.answered`); `reply` is the code of Envoy's own."""
        self._reply, self._answers = reply, status < 400
        if (change := self._outages.answered(backend, status, reply, is_trial=is_trial)) is not None:
            self._telemetry.choices.changed(change)

    def first_token(self) -> None:
        """The first chunk of a stream has come."""
        self._first = self._telemetry.clock()
        if self._model is not None and self._asked is not None:
            seconds = self._first - self._began
            self._telemetry.models.first_token(self._model, self._asked, seconds, self._exemplar)

    def error(self, error: ApiError) -> dict[str, Any]:
        """The client gets an error instead of an answer."""
        if self._model is None or self._reply in LIMIT_REFUSALS:
            self._telemetry.refused(error)
        else:
            self._telemetry.backend_error(self._model, error)
            self._may_be_refused(error)
        self._ended(error_type(error))
        return {**self.so_far(), "error": error.code or error.type}

    def _may_be_refused(self, error: ApiError) -> None:
        """The backend may know no grammars: then none is sent that nobody but the ladder wants."""
        if error.status != 400 or error.code == CONTEXT_LENGTH or self._asked is None or not self._asked.forced:
            return
        if self._steered is not None and (change := self._steering.refused(self._steered)) is not None:
            self._telemetry.steering.changed(change)

    def stream_error(self, error: ApiError) -> dict[str, Any]:
        """The client gets an error inside a stream."""
        assert self._model is not None  # else there would be no stream
        if not self._passes:  # the metric is of answers with tools, as what it is compared with
            self._telemetry.stream_error(self._model, error)
        self._ended(error_type(error))
        return {**self.so_far(), "error": error.code or error.type}

    def answered(self, usage: Mapping[str, Any] | None, tally: Tally, cost: Mapping[str, Any] | None = None) -> None:
        """The backend has answered, for the first or the second time: both were its work.

        `usage` is its own count. `cost` is what counts against a limit, where something does.
        """
        assert self._model is not None  # else nobody would have been asked
        self._telemetry.answered(self._model, usage or {}, tally.violations, self._team)
        tokens = {name: count for name in _SHOWN if type(count := (usage or {}).get(name)) is int and count > 0}
        self._tokens.update(tokens)
        if cost is not None and TOTAL not in tokens:
            self._tokens[TOTAL] += cost[TOTAL]
        self._violations += sum(tally.violations.values())
        self._calls += tally.made
        self._finish_reasons = [reason if reason in FINISH_REASONS else OTHER for reason in tally.finish_reasons]
        if (asked := self._asked) is None:
            return
        self._quality.learn(self._model, asked.mode, tally)
        if self._steered is not None and (change := self._steering.learn(self._steered, tally)) is not None:
            self._telemetry.steering.changed(change)
        if self._advice is not None and self._spec is not None and asked.offers_tools:
            self._advice.answered(self._model, asked, self._spec, tally, usage or {})
        models = self._telemetry.models
        offered = asked.offers_tools
        models.answered(self._model, asked, tally, tokens, self._exemplar, offered=offered)
        written = tokens.get("completion_tokens", 0)
        if self._first is not None and written > 1 and tally.finish_reasons:
            seconds = (self._telemetry.clock() - self._first) / (written - 1)
            models.per_token(self._model, asked, seconds, self._exemplar)
        self._first = None

    def stream_answered(self, answer: AnswerStream) -> None:
        """The same of a stream, as far as it came."""
        self.answered(answer.usage, answer.tally, answer.cost)

    def retried(self, *, helped: bool) -> None:
        """A second answer was asked for, and is the one that the client gets, or not."""
        assert self._model is not None
        assert self._asked is not None  # an answer was
        self._telemetry.models.retried(self._model, self._asked, helped=helped)

    def complete(self) -> dict[str, Any]:
        """The client has its answer."""
        if not self._passes:
            self._ended("")
        return self.so_far()

    def unfinished(self, phase: str) -> None:
        """The exchange ended while it waited."""
        self._telemetry.unfinished(phase)
        if not (self._passes and self._answers and self._asked is not None and self._asked.stream):
            self._ended(UNFINISHED)

    def broke_off(self, reason: str) -> None:
        """The processor has no part in it any more."""
        self._telemetry.aborted(reason)

    def so_far(self) -> dict[str, Any]:
        """What all answers came to."""
        fields: dict[str, Any] = dict(self._tokens)
        if self._calls:
            fields["calls"] = self._calls
        if self._violations:
            fields["invalid_calls"] = self._violations
        if self._finish_reasons:
            fields["finish_reason"] = self._finish_reasons[0]
        return fields

    def _ended(self, error: str) -> None:
        if self._over or self._model is None or self._asked is None:
            return
        self._over = True
        seconds = self._telemetry.clock() - self._began
        self._telemetry.models.ended(self._model, self._asked, seconds, error, self._exemplar)


def choice_told(choice: Choice | None) -> dict[str, Any]:
    """What the access log gets of it."""
    if choice is None:
        return {}
    fallback = {"instead_of": choice.instead_of, "because": choice.why} if choice.instead_of is not None else {}
    return {"alias": choice.alias, **fallback}


def _may_call_freely(prepared: UpstreamRequest, asked: Asked) -> bool:
    """Whether what the model calls depends on its step: a demanded call that is forced is the same at each."""
    demanded = prepared.answer is not None and prepared.answer.required_tool is not None
    return asked.operation == "chat" and asked.offers_tools and not (asked.forced and demanded)

"""What came of an exchange, for those who look on: the metrics at once, and what the access log is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from extproc.contract.errors import ApiError
from extproc.observability.telemetry import Telemetry
from extproc.turn.upstream import UpstreamRequest

_SHOWN = ("prompt_tokens", "completion_tokens", "total_tokens")


class ExchangeStats:
    """Of one exchange. What returns something returns fields for the access log."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._model: str | None = None
        self._tokens = Counter[str]()
        self._violations = 0

    def accepted(self, prepared: UpstreamRequest) -> dict[str, Any]:
        """The request goes to its backend."""
        assert prepared.model is not None  # a chat completion names one
        self._model = prepared.model
        with_tools = prepared.answer is not None
        self._telemetry.accepted(prepared.model, prepared.dropped, prepared.repaired, with_tools=with_tools)
        fields: dict[str, Any] = {"model": prepared.model, "backend": prepared.backend}
        if prepared.dropped:
            fields["dropped"] = len(prepared.dropped)
        return fields

    def error(self, error: ApiError) -> dict[str, Any]:
        """The client gets an error instead of an answer."""
        if self._model is None:
            self._telemetry.refused(error)
        else:
            self._telemetry.backend_error(self._model, error)
        return {**self.so_far(), "error": error.code or error.type}

    def stream_error(self, error: ApiError) -> dict[str, Any]:
        """The client gets an error inside a stream."""
        assert self._model is not None  # else there would be no stream
        self._telemetry.stream_error(self._model, error)
        return {**self.so_far(), "error": error.code or error.type}

    def answered(self, usage: Mapping[str, Any] | None, violations: Mapping[str, int]) -> None:
        """The backend has answered, for the first or the second time: both were its work."""
        assert self._model is not None  # else nobody would have been asked
        self._telemetry.answered(self._model, usage or {}, violations)
        for name in _SHOWN:
            if isinstance(count := (usage or {}).get(name), int):
                self._tokens[name] += count
        self._violations += sum(violations.values())

    def retried(self, *, helped: bool) -> None:
        """A second answer was asked for, and is the one that the client gets, or not."""
        assert self._model is not None
        self._telemetry.retried(self._model, helped=helped)

    def unfinished(self, phase: str) -> None:
        """The exchange ended while it waited."""
        self._telemetry.unfinished(phase)

    def broke_off(self, reason: str) -> None:
        """The processor has no part in it any more."""
        self._telemetry.aborted(reason)

    def so_far(self) -> dict[str, Any]:
        """What all answers came to."""
        return {**self._tokens, **({"invalid_calls": self._violations} if self._violations else {})}

"""A run as spans: the run itself, and below it each tool that ran. Its model rounds are exchanges: Envoy's spans of
them, and with these the processor's and the backend's, are below the run by the `traceparent` that each round is sent
with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.trace import SpanKind

from extproc.tracing.attributes import of_operation
from extproc.tracing.context import TRACEPARENT, TRACESTATE, Parent
from extproc.tracing.spans import Spans

_WELL = ("complete", "client_left")
_TOOL_WELL = ("ok", "cancelled")


class TracedRun:
    """One run that is traced, from now on."""

    def __init__(self, spans: Spans, parent: Parent | None, agent: str, now: Callable[[], int] = time.time_ns) -> None:
        """`agent` is the character's name, or the model's."""
        self._spans = spans
        self._now = now
        self._span = spans.begin(f"invoke_agent {agent}", parent, at=now())
        self._span.say({**of_operation("invoke_agent"), "agent": agent})

    def below(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The header fields of a round that belongs to it."""
        kept = {name: value for name, value in headers.items() if name != TRACESTATE}
        return {**kept, TRACEPARENT: self._span.as_parent.written()}

    def tool_ran(self, facts: Mapping[str, Any], seconds: float) -> None:
        """A tool has just ended. `facts`: its `tool`, `source`, `call`, `outcome`; and `arguments` and `result`."""
        now = self._now()
        begun = now - round(seconds * 1e9)
        span = self._spans.begin(
            f"execute_tool {facts['tool']}", self._span.as_parent, at=begun, kind=SpanKind.INTERNAL
        )
        span.say({**of_operation("execute_tool"), **facts})
        outcome = facts["outcome"]
        span.end(at=now, error=None if outcome in _TOOL_WELL else outcome)

    def end(self, how: str, rounds: int) -> None:
        """`how` is `complete`, `client_left`, or an error's code."""
        self._span.say({"rounds": rounds, "unfinished": how if how == "client_left" else None})
        self._span.end(at=self._now(), error=None if how in _WELL else how)

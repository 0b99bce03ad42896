"""Which exchanges are traced, and where to: see docs/tracing.md."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from extproc.config.base import AddressText, Settings


class Tracing(Settings):
    """The `tracing` of a configuration; without one nothing is traced."""

    collector: AddressText
    """`host:port` of what takes spans, by OTLP over HTTP: an OpenTelemetry collector, as a rule at port 4318."""
    sampling: Annotated[float, Field(ge=0, le=1)] = 0.01
    """The share of those requests that is traced whose client hasn't decided it."""
    follow_clients: bool = True
    """Whether a client's `traceparent` decides; otherwise `sampling` does for all, and a client can only opt out."""
    attributes: Literal["gen_ai", "openinference"] = "gen_ai"
    """By whose names spans tell of models: OpenTelemetry's or OpenInference's."""
    content: bool = False
    """Spans hold what was said: prompts, tools, calls and answers."""

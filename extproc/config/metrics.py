"""Where metrics go besides their page: see docs/observability.md."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from extproc.config.base import AddressText, Settings


class Metrics(Settings):
    """The `metrics` of a configuration; without them nothing is sent."""

    collector: AddressText
    """`host:port` of what takes metrics, by OTLP over HTTP: an OpenTelemetry collector, as a rule at port 4318."""
    interval_seconds: Annotated[float, Field(ge=1, le=3600)] = 60.0
    """How often they are sent."""

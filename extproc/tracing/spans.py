"""Spans by OpenTelemetry's SDK, and their way to a collector.

A thread of the SDK's sends them in batches. What can't be sent is dropped, after some thousands have waited, and told
once until it works again; no exchange ever waits for it. What the SDK reads of its own environment variables
(`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_BSP_*`) holds.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TraceFlags

from extproc.config.tracing import Tracing
from extproc.names import TRACES_PATH
from extproc.observability.open_telemetry import EXPORT_SECONDS, LEAVING_SECONDS, Reception, resource_of
from extproc.tracing.attributes import attributes
from extproc.tracing.context import Parent

log = logging.getLogger(__name__)


class Spans:
    """Those of one process, by one configuration."""

    def __init__(self, settings: Tracing, service: str, exporter: SpanExporter | None = None) -> None:
        """`service` is what the process is called, unless its environment says otherwise."""
        self.settings = settings
        self._provider = TracerProvider(sampler=ALWAYS_ON, resource=resource_of(service), shutdown_on_exit=False)
        exporter = exporter or OTLPSpanExporter(f"http://{settings.collector}{TRACES_PATH}", timeout=EXPORT_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(_Telling(exporter, settings.collector)))
        self._tracer = self._provider.get_tracer("extproc")

    def wants(self, parent: Parent | None, *, decided: bool = False) -> bool:
        """Whether a span below this one is to be made. `decided`: by our own Envoy or runner; else by a client, or by
        nobody."""
        if parent is not None and (decided or self.settings.follow_clients or not parent.sampled):
            return parent.sampled
        return random.random() < self.settings.sampling  # noqa: S311

    def begin(self, name: str, parent: Parent | None, *, at: int, kind: SpanKind = SpanKind.INTERNAL) -> OneSpan:
        """`at` is in nanoseconds of Unix time, as in all that follows."""
        return OneSpan(self._tracer.start_span(name, _below(parent), kind=kind, start_time=at), self.settings)

    def close(self) -> None:
        """Send what is left, as far as that doesn't take long."""
        self._provider.force_flush(round(1000 * LEAVING_SECONDS))
        self._provider.shutdown()


class OneSpan:
    """One that says nothing but what `attributes` lets through."""

    def __init__(self, span: Span, settings: Tracing) -> None:
        self._span = span
        self._settings = settings

    @property
    def as_parent(self) -> Parent:
        context = self._span.get_span_context()
        return Parent(context.trace_id, context.span_id, sampled=True)

    def name(self, name: str) -> None:
        self._span.update_name(name)

    def say(self, facts: Mapping[str, Any]) -> None:
        settings = self._settings
        for name, value in attributes(facts, settings.attributes, content=settings.content).items():
            self._span.set_attribute(name, value)

    def event(self, name: str, *, at: int) -> None:
        self._span.add_event(name, timestamp=at)

    def end(self, *, at: int, error: str | None = None) -> None:
        """`error` is a word of few that there are."""
        if error is not None:
            self.say({"error": error})
            self._span.set_status(StatusCode.ERROR, error)
        self._span.end(at)


def _below(parent: Parent | None) -> Context:
    if parent is None:
        return Context()
    context = SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return trace.set_span_in_context(NonRecordingSpan(context), Context())


class _Telling(SpanExporter):
    """Tells when a collector doesn't take spans, and when it does again. Runs in the SDK's thread."""

    def __init__(self, exporter: SpanExporter, collector: str) -> None:
        self._exporter = exporter
        self._reception = Reception(
            log,
            fails=f"spans can't be sent to {collector}, and are lost until they can",
            works=f"spans are taken by {collector} again",
        )

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # of the connection, which the SDK would write out at length
            log.debug("spans can't be sent: %s", type(error).__name__)
            result = SpanExportResult.FAILURE
        self._reception.tell(taken=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

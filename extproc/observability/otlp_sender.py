"""Sends metrics to a collector by OpenTelemetry's exporter, which waits for the answer. Runs in a thread.

What the exporter reads of its own environment variables (`OTEL_EXPORTER_OTLP_HEADERS` and its kin) holds, but for where
to send.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric

from extproc.names import METRICS_PATH
from extproc.observability.open_telemetry import EXPORT_SECONDS, Reception, resource_of
from extproc.observability.otlp import translated

log = logging.getLogger(__name__)


class Sender:
    """To the collector at one address."""

    def __init__(self, address: str, service: str, since: int, exporter: MetricExporter | None = None) -> None:
        """`service` is what the process is called, which has counted since then, in nanoseconds of Unix time."""
        self.address = address
        self._resource = resource_of(service)
        self._scope = InstrumentationScope("extproc", version("extproc"))
        self._since = since
        self._reception = Reception(
            log, fails=f"metrics can't be sent to {address}", works=f"metrics are taken by {address} again"
        )
        self._exporter = exporter or OTLPMetricExporter(f"http://{address}{METRICS_PATH}", timeout=EXPORT_SECONDS)

    def send(self, families: Iterable[Metric]) -> None:
        """Returns when they are taken, or aren't after some seconds, which is told."""
        scope = ScopeMetrics(self._scope, translated(families, self._since, time.time_ns()), "")
        try:
            result = self._exporter.export(MetricsData([ResourceMetrics(self._resource, [scope], "")]))
        except Exception as error:  # of the connection, which the SDK would write out at length
            log.debug("metrics can't be sent: %s", type(error).__name__)
            result = MetricExportResult.FAILURE
        self._reception.tell(taken=result is MetricExportResult.SUCCESS)

    def close(self) -> None:
        """What is just being sent isn't tried again."""
        self._exporter.shutdown()

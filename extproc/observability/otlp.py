"""What the page of metrics shows, as OpenTelemetry's SDK sends it: the same numbers, read from the same families.

What OpenTelemetry's conventions for generative AI name has their names and units; all else is called as on the page,
but for the `_total` of counters, which who shows them in Prometheus' way puts there again. How each kind is translated
is OpenTelemetry's specification (compatibility/prometheus_and_openmetrics.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Exemplar as Shown
from prometheus_client.samples import Sample

NAMES: Mapping[str, tuple[str, str]] = {
    "gen_ai_client_token_usage": ("gen_ai.client.token.usage", "{token}"),
    "gen_ai_client_operation_duration_seconds": ("gen_ai.client.operation.duration", "s"),
    "gen_ai_server_time_to_first_token_seconds": ("gen_ai.server.time_to_first_token", "s"),
    "gen_ai_server_time_per_output_token_seconds": ("gen_ai.server.time_per_output_token", "s"),
    "gen_ai_execute_tool_duration_seconds": ("gen_ai.execute_tool.duration", "s"),
}
"""OpenTelemetry's names and units, by those of the page."""

ATTRIBUTES: Mapping[str, str] = {
    "gen_ai_operation_name": "gen_ai.operation.name",
    "gen_ai_provider_name": "gen_ai.provider.name",
    "gen_ai_request_model": "gen_ai.request.model",
    "gen_ai_token_type": "gen_ai.token.type",
    "gen_ai_tool_name": "gen_ai.tool.name",
    "error_type": "error.type",
    "extproc_mode": "extproc.mode",
    "extproc_format": "extproc.format",
    "extproc_dialect": "extproc.dialect",
    "extproc_tool_source": "extproc.tool.source",
}
"""The same of labels: those of spans (docs/tracing.md). Others are called as on the page."""

_UNITS = {"_seconds": "s", "_bytes": "By"}
_CUMULATIVE = AggregationTemporality.CUMULATIVE


def translated(families: Iterable[Family], since: int, now: int) -> list[Metric]:
    """All of these, counted from `since` until `now`, in nanoseconds of Unix time."""
    return [metric for family in families if (metric := _metric(family, since, now)) is not None]


def _metric(family: Family, since: int, now: int) -> Metric | None:
    name, unit = NAMES.get(family.name) or (family.name, _unit(family.name))
    match family.type:
        case "histogram":
            points = list(_histograms(family.samples, since, now))
            return Metric(name, family.documentation, unit, Histogram(points, _CUMULATIVE))
        case "counter":
            counts = [_number(sample, since, now) for sample in family.samples if sample.name.endswith("_total")]
            return Metric(name, family.documentation, unit, Sum(counts, _CUMULATIVE, is_monotonic=True))
        case "gauge":
            values = [_number(sample, 0, now) for sample in family.samples]
            return Metric(name, family.documentation, unit, Gauge(values))
        case "info":  # which the specification wants to be a sum: of so many processes it holds
            told = [_number(sample, since, now) for sample in family.samples]
            return Metric(f"{name}_info", family.documentation, unit, Sum(told, _CUMULATIVE, is_monotonic=False))
    return None


def _unit(name: str) -> str:
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")


def _attributes(labels: Mapping[str, str]) -> dict[str, str]:
    """An empty label is to Prometheus as if it weren't there."""
    return {ATTRIBUTES.get(name, name): value for name, value in labels.items() if value and name != "le"}


def _number(sample: Sample, since: int, now: int) -> NumberDataPoint:
    return NumberDataPoint(_attributes(sample.labels), since, now, sample.value)


def _histograms(samples: Iterable[Sample], since: int, now: int) -> Iterator[HistogramDataPoint]:
    """One for each set of labels. On the page a bucket has the smaller ones in it too."""
    every: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        every.setdefault(labels, []).append(sample)
    for labels, of in every.items():
        buckets = sorted((float(sample.labels["le"]), sample) for sample in of if sample.name.endswith("_bucket"))
        up_to = [int(sample.value) for _, sample in buckets]
        yield HistogramDataPoint(
            attributes=_attributes(dict(labels)),
            start_time_unix_nano=since,
            time_unix_nano=now,
            count=up_to[-1],
            sum=next(sample.value for sample in of if sample.name.endswith("_sum")),
            bucket_counts=[count - below for count, below in zip(up_to, [0, *up_to], strict=False)],
            explicit_bounds=[bound for bound, _ in buckets[:-1]],
            min=None,  # type: ignore[arg-type]  # the exporter leaves out what isn't known
            max=None,  # type: ignore[arg-type]
            exemplars=[_exemplar(sample.exemplar) for _, sample in buckets if sample.exemplar is not None],
        )


def _exemplar(shown: Shown) -> Exemplar:
    """Without a span's id the exporter has no place for a trace's but among the attributes."""
    at = int(float(shown.timestamp) * 1_000_000_000) if shown.timestamp is not None else 0
    return Exemplar(dict(shown.labels), shown.value, at)

"""A collector for tests: takes spans and metrics by OTLP over HTTP, as OpenTelemetry's own does, and keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from prometheus_client.parser import text_string_to_metric_families

from extproc.names import METRICS_PATH, TRACES_PATH
from tests.gateway import wait_until
from tests.serving_in_thread import serving_in_thread

Series: TypeAlias = tuple[str, frozenset[tuple[str, str]]]
"""Its name and its labels, as a page of Prometheus has them."""


@dataclass(frozen=True, slots=True)
class Span:
    """One, as it came."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    begin: int
    end: int
    attributes: dict[str, Any]
    events: tuple[str, ...]
    failed: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """Metrics, as they came together."""

    resource: dict[str, Any]
    metrics: tuple[Metric, ...]

    @property
    def numbers(self) -> dict[Series, float]:
        """Every number of it."""
        return {series: value for metric in self.metrics for series, value in _numbers(metric)}


class Collector:
    """What has come by now."""

    def __init__(self) -> None:
        self.port = 0
        self.raw = b""
        """All that was sent, for whoever looks for what must not be in it."""
        self.spans: list[Span] = []
        self.batches: list[Batch] = []
        self.headers: list[Mapping[str, str]] = []
        """Of each request, by names in small letters."""
        self.status = 200
        """What it answers."""

    def take(self, path: str, body: bytes) -> None:
        self.raw += body
        {TRACES_PATH: self._take_spans, METRICS_PATH: self._take_metrics}[path](body)

    def _take_metrics(self, body: bytes) -> None:
        for of in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            resource = {each.key: _value(each.value) for each in of.resource.attributes}
            metrics = tuple(metric for scope in of.scope_metrics for metric in scope.metrics)
            self.batches.append(Batch(resource, metrics))

    def _take_spans(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = next(
                each.value.string_value for each in resource.resource.attributes if each.key == "service.name"
            )
            for scope in resource.scope_spans:
                self.spans += [_span(service, each) for each in scope.spans]

    def of(self, trace: str, *names: str) -> list[Span]:
        """Those of a trace, once those of these names have come (a process sends last what ends last), and all parents.

        The topmost one's parent is the client's own.
        """

        def found() -> list[Span]:
            return [span for span in self.spans if span.trace == trace]

        def is_whole(spans: list[Span]) -> bool:
            above = {span.parent for span in spans} - {span.id for span in spans}
            return {*names} <= {span.name for span in spans} and len(above) == 1

        wait_until(lambda: is_whole(found()))
        return found()

    def has(self, traces: Iterable[str]) -> bool:
        """Whether there are spans of all of these."""
        return set(traces) <= {span.trace for span in self.spans}

    @contextmanager
    def running(self) -> Iterator[Collector]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                body = self._body()
                if collector.status == 200:
                    collector.take(self.path, body)
                self.send_response(collector.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def _body(self) -> bytes:
                if self.headers.get("transfer-encoding") != "chunked":
                    return self.rfile.read(int(self.headers["content-length"]))
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_port
        with serving_in_thread(server):
            yield self


def _span(service: str, each: Any) -> Span:
    return Span(
        service,
        each.name,
        each.trace_id.hex(),
        each.span_id.hex(),
        each.parent_span_id.hex(),
        each.start_time_unix_nano,
        each.end_time_unix_nano,
        {pair.key: _value(pair.value) for pair in each.attributes},
        tuple(event.name for event in each.events),
        each.status.code == Status.STATUS_CODE_ERROR,
    )


def _value(value: AnyValue) -> Any:
    return getattr(value, kind) if (kind := value.WhichOneof("value")) is not None else None


# Metrics, as Prometheus shows what it takes by OTLP: dots become underscores, the unit stands at the end.

_SUFFIXES = {"s": "_seconds", "By": "_bytes"}


def numbers_of(page: str) -> dict[Series, float]:
    """Every number of a page of Prometheus'. A label that is empty is none."""
    return {
        _series(sample.name, sample.labels): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def _numbers(metric: Metric) -> Iterator[tuple[Series, float]]:
    name = metric.name.replace(".", "_")
    suffix = _SUFFIXES.get(metric.unit, "")
    name += suffix if not name.endswith(suffix) else ""
    for point in metric.histogram.data_points:
        labels = _labels(point)
        count = 0
        bounds = [str(bound) for bound in point.explicit_bounds] + ["+Inf"]
        for bound, more in zip(bounds, point.bucket_counts, strict=True):
            count += more
            yield _series(f"{name}_bucket", {**labels, "le": bound}), count
        yield _series(f"{name}_count", labels), point.count
        yield _series(f"{name}_sum", labels), point.sum
    total = "_total" if metric.sum.is_monotonic else ""
    for single in (*metric.sum.data_points, *metric.gauge.data_points):
        kind = single.WhichOneof("value")
        assert kind is not None
        yield _series(f"{name}{total}", _labels(single)), getattr(single, kind)


def _labels(point: Any) -> dict[str, str]:
    return {each.key.replace(".", "_"): each.value.string_value for each in point.attributes}


def _series(name: str, labels: Mapping[str, str]) -> Series:
    return name, frozenset((label, value) for label, value in labels.items() if value)

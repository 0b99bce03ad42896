"""A collector for tests: takes spans by OTLP over HTTP, as OpenTelemetry's own does, and keeps them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from extproc.names import TRACES_PATH
from tests.gateway import wait_until


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


class Collector:
    """What has come by now."""

    def __init__(self) -> None:
        self.port = 0
        self.raw = b""
        """All that was sent, for whoever looks for what must not be in it."""
        self.spans: list[Span] = []

    def take(self, body: bytes) -> None:
        self.raw += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = next(
                each.value.string_value for each in resource.resource.attributes if each.key == "service.name"
            )
            for scope in resource.scope_spans:
                self.spans += [_span(service, each) for each in scope.spans]

    def of(self, trace: str, *names: str) -> list[Span]:
        """Those of a trace, once spans of these names are there: of a process the last to end."""
        wait_until(lambda: not set(names) - {span.name for span in self.spans if span.trace == trace}, 20)
        return [span for span in self.spans if span.trace == trace]

    @contextmanager
    def running(self) -> Iterator[Collector]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                assert self.path == TRACES_PATH, self.path
                collector.take(self._body())
                self.send_response(200)
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
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


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

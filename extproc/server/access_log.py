"""Envoy's access log, as far as the processor needs it: which requests are over that went past it.

Envoy sends the entries of requests that have a lease (extproc.exchange.concurrency) among their metadata, several in a
message and soon after their end: no request costs a message of its own. Nothing of them is kept or logged.
"""

from __future__ import annotations

from extproc.exchange.concurrency import Concurrency
from extproc.names import LEASE_KEY, LEASE_NAMESPACE
from extproc.transport import Call, Services
from extproc.wire.access_log_service_pb2 import StreamAccessLogsMessage, StreamAccessLogsResponse

SERVICE = "envoy.service.accesslog.v3.AccessLogService"


def access_log(concurrency: Concurrency) -> Services:
    """The gRPC service that Envoy sends its log to."""
    return {f"/{SERVICE}/StreamAccessLogs": lambda call: _Log(concurrency, call)}


class _Log:
    """What one of Envoy's threads tells."""

    def __init__(self, concurrency: Concurrency, call: Call) -> None:
        self._concurrency = concurrency
        self._call = call
        concurrency.logs += 1

    def received(self, message: bytes) -> None:
        for entry in StreamAccessLogsMessage.FromString(message).http_logs.log_entry:
            fields = entry.common_properties.metadata.filter_metadata.get(LEASE_NAMESPACE)
            if fields is not None:
                self._concurrency.release(round(fields.fields[LEASE_KEY].number_value))

    def half_closed(self) -> None:
        self._call.send(StreamAccessLogsResponse().SerializeToString())
        self._call.finish()

    def closed(self) -> None:
        self._concurrency.logs -= 1
        self._concurrency.forget_passed()

"""Envoy's access log, as far as the processor needs it: which requests are over that went past it.

Envoy sends the entries of requests that have a lease (extproc.exchange.concurrency) among their metadata, several in a
message and soon after their end: no request costs a message of its own. Nothing of them is kept or logged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from extproc.names import LEASE_KEY, LEASE_NAMESPACE
from extproc.transport import Call, Services
from extproc.wire.access_log_service_pb2 import StreamAccessLogsMessage, StreamAccessLogsResponse

SERVICE = "envoy.service.accesslog.v3.AccessLogService"


class Ends(Protocol):
    """Who is told (extproc.exchange.concurrency.Concurrency, or what knows several of them)."""

    def log_opened(self) -> None:
        """One more of Envoy's threads tells."""

    def log_closed(self) -> None:
        """One of them doesn't any more."""

    def ended(self, numbers: Iterable[int]) -> None:
        """The requests of these leases are over."""


def access_log(ends: Ends) -> Services:
    """The gRPC service that Envoy sends its log to."""
    return {f"/{SERVICE}/StreamAccessLogs": lambda call: _Log(ends, call)}


class _Log:
    """What one of Envoy's threads tells."""

    def __init__(self, ends: Ends, call: Call) -> None:
        self._ends = ends
        self._call = call
        ends.log_opened()

    def received(self, message: bytes) -> None:
        entries = StreamAccessLogsMessage.FromString(message).http_logs.log_entry
        told = (entry.common_properties.metadata.filter_metadata.get(LEASE_NAMESPACE) for entry in entries)
        self._ends.ended([round(fields.fields[LEASE_KEY].number_value) for fields in told if fields is not None])

    def half_closed(self) -> None:
        self._call.send(StreamAccessLogsResponse().SerializeToString())
        self._call.finish()

    def closed(self) -> None:
        self._ends.log_closed()

"""Envoy's access log, as far as the processor needs it: which requests are over, and how they ended.

Envoy sends the entries of requests for a model's answer, and of those that have a lease (extproc.exchange.concurrency),
among whose metadata the processor has said which they are: several in a message and soon after their end, so that no
request costs a message of its own. They are counted; nothing of them is kept or logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Protocol, TypeAlias

from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Value

from extproc.names import LEASE_KEY, LEASE_NAMESPACE, METADATA_NAMESPACE, STREAM_ENDED
from extproc.observability.model_metrics import End, Passed
from extproc.transport import Call, Services
from extproc.wire.access_log_pb2 import AccessLogCommon, HTTPAccessLogEntry, ResponseFlags
from extproc.wire.access_log_service_pb2 import StreamAccessLogsMessage, StreamAccessLogsResponse

SERVICE = "envoy.service.accesslog.v3.AccessLogService"

Count: TypeAlias = Callable[[Passed], None]

_FULL = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
"""Statuses by which a backend says that it is slow or full: no mistake of the client's."""


class Ends(Protocol):
    """Who is told (extproc.exchange.concurrency.Concurrency, or what knows several of them)."""

    def log_opened(self) -> None:
        """One more of Envoy's threads tells."""

    def log_closed(self) -> None:
        """One of them doesn't any more."""

    def ended(self, numbers: Iterable[int]) -> None:
        """The requests of these leases are over."""


def access_log(ends: Ends, count: Count) -> Services:
    """The gRPC service that Envoy sends its log to. `count` is told of each request for an answer."""
    return {f"/{SERVICE}/StreamAccessLogs": lambda call: _Log(ends, count, call)}


class _Log:
    """What one of Envoy's threads tells."""

    def __init__(self, ends: Ends, count: Count, call: Call) -> None:
        self._ends = ends
        self._count = count
        self._call = call
        ends.log_opened()

    def received(self, message: bytes) -> None:
        leases = []
        for entry in StreamAccessLogsMessage.FromString(message).http_logs.log_entry:
            metadata = entry.common_properties.metadata.filter_metadata
            if LEASE_NAMESPACE in metadata:
                leases.append(round(metadata[LEASE_NAMESPACE].fields[LEASE_KEY].number_value))
            if METADATA_NAMESPACE in metadata and (passed := passed_of(entry)) is not None:
                self._count(passed)
        if leases:
            self._ends.ended(leases)

    def half_closed(self) -> None:
        self._call.send(StreamAccessLogsResponse().SerializeToString())
        self._call.finish()

    def closed(self) -> None:
        self._ends.log_closed()


def passed_of(entry: HTTPAccessLogEntry) -> Passed | None:
    """What an entry says of an answer; None where it is about something else."""
    common = entry.common_properties
    told = common.metadata.filter_metadata[METADATA_NAMESPACE].fields
    if not (mode := _word(told, "mode")):
        return None
    status = entry.response.response_code.value
    return Passed(
        model=_word(told, "model"),
        mode=mode,
        format=_word(told, "format"),
        dialect=_word(told, "dialect"),
        operation=_word(told, "operation") or "chat",
        stream=_flag(told, "stream"),
        tools=_flag(told, "rewritten"),
        end=end_of(common.response_flags, status, failed="error" in told, has_end=_flag(told, STREAM_ENDED)),
        status=status,
        seconds=_seconds(common.duration),
        first_byte=_first_byte(common),
        request_bytes=entry.request.request_body_bytes,
        answer_bytes=entry.response.response_body_bytes,
    )


def end_of(flags: ResponseFlags, status: int, *, failed: bool, has_end: bool) -> End:
    """`failed`: the processor has told the client of an error, by a status or amid a stream. `has_end`: the last
    event of the stream is with Envoy, whose client may leave then.

    Whose connection broke comes first: where it did before the client had its first byte, there was room for a 502.
    """
    if (flags.downstream_connection_termination or flags.downstream_remote_reset) and not has_end:
        return "left_by_client"
    if flags.upstream_connection_termination or flags.upstream_remote_reset or flags.upstream_protocol_error:
        return "cut_by_backend"
    if flags.stream_idle_timeout or flags.upstream_request_timeout or flags.duration_timeout:
        return "timeout"
    if 400 <= status < 500 and status not in _FULL:
        return "refused"
    if failed or status >= 400:
        return "error"
    return "complete" if status else "left_by_client"


def _first_byte(common: AccessLogCommon) -> float | None:
    told = common.HasField("time_to_first_upstream_rx_byte")
    return _seconds(common.time_to_first_upstream_rx_byte) if told else None


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9


def _word(told: Mapping[str, Value], name: str) -> str:
    return told[name].string_value if name in told else ""


def _flag(told: Mapping[str, Value], name: str) -> bool:
    return name in told and told[name].bool_value

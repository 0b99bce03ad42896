"""Envoy's access log, as far as the processor needs it: which requests are over that went past it.

Envoy sends the entries of requests that have a lease (extproc.exchange.concurrency) among their metadata, several in a
message and soon after their end: no request costs a message of its own. Nothing of them is kept or logged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc

from extproc.exchange.concurrency import Concurrency
from extproc.names import LEASE_KEY, LEASE_NAMESPACE
from extproc.wire.access_log_service_pb2 import StreamAccessLogsMessage, StreamAccessLogsResponse

SERVICE = "envoy.service.accesslog.v3.AccessLogService"


def access_log_handler(concurrency: Concurrency) -> grpc.GenericRpcHandler:
    """The gRPC service that Envoy sends its log to."""

    async def receive(messages: AsyncIterator[StreamAccessLogsMessage], _: object) -> StreamAccessLogsResponse:
        concurrency.logs += 1
        try:
            async for message in messages:
                for entry in message.http_logs.log_entry:
                    fields = entry.common_properties.metadata.filter_metadata.get(LEASE_NAMESPACE)
                    if fields is not None:
                        concurrency.release(round(fields.fields[LEASE_KEY].number_value))
        finally:
            concurrency.logs -= 1
            concurrency.forget_passed()
        return StreamAccessLogsResponse()

    method = grpc.stream_unary_rpc_method_handler(
        receive,
        request_deserializer=StreamAccessLogsMessage.FromString,
        response_serializer=StreamAccessLogsResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(SERVICE, {"StreamAccessLogs": method})

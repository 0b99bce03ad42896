"""The reference over gRPC, to try the suite on: `python -m extproc.conformance.reference_server 127.0.0.1:9000`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc

from extproc.conformance.driver import Processor
from extproc.conformance.host.outcome import Closed
from extproc.conformance.reference import Reference
from extproc.wire import SERVICE, ProcessingRequest, ProcessingResponse

_THREADS = 128
"""Each open exchange has one."""
_OPTIONS = [
    ("grpc.max_receive_message_length", 300 << 20),
    ("grpc.max_send_message_length", 300 << 20),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
]
_SERVING = b"\x08\x01"


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, make: Callable[[], Processor]) -> None:
        self._make = make

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:  # type: ignore[type-arg]
        if details.method == f"/{SERVICE}/Process":
            return grpc.stream_stream_rpc_method_handler(
                self._process, ProcessingRequest.FromString, ProcessingResponse.SerializeToString
            )
        if details.method == "/grpc.health.v1.Health/Check":
            return grpc.unary_unary_rpc_method_handler(lambda _request, _context: _SERVING)
        return None

    def _process(
        self, messages: Iterator[ProcessingRequest], context: grpc.ServicerContext
    ) -> Iterator[ProcessingResponse]:
        processor = self._make()
        for message in messages:
            for reply in processor.receive(message):
                if isinstance(reply, Closed):
                    _end(context, reply)
                    return
                yield reply
        _end(context, processor.half_closed())


def _end(context: grpc.ServicerContext, closed: Closed) -> None:
    if closed.status != "OK":
        context.abort(grpc.StatusCode[closed.status], closed.details)


def serve(address: str, make: Callable[[], Processor] = Reference) -> tuple[grpc.Server, int]:
    """A started server, and its port. `make` makes a processor for each exchange."""
    server = grpc.server(ThreadPoolExecutor(_THREADS), options=_OPTIONS)
    server.add_generic_rpc_handlers((_Handler(make),))
    port = server.add_insecure_port(address)
    server.start()
    return server, port


if __name__ == "__main__":
    started, at = serve(sys.argv[1])
    print(f"listening at port {at}", flush=True)
    started.wait_for_termination()

"""The only gRPC code: carries Envoy's messages to an `Exchange` and its replies back.

A thin shell around the pure core. It promises that an exchange never ends early as if all were well: a bug in the
core aborts that one stream with INTERNAL, is logged once with the exchange's id, and touches no other. It must
never log what a request or an answer says.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from extproc.config import Config
from extproc.exchange import Exchange, ProtocolError
from extproc.telemetry import Telemetry
from extproc.wire import SERVICE, ProcessingRequest, ProcessingResponse

log = logging.getLogger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[ProcessingRequest, ProcessingResponse]"

_MESSAGE_OVERHEAD = 1024 * 1024  # headers and framing around the largest body


class Processor:
    """The gRPC service `ExternalProcessor`, its health service and reflection, on one address.

    Use `running` to have it served; `drain` to have it finish.
    """

    def __init__(self, config: Config, telemetry: Telemetry) -> None:
        self._config = config
        self._telemetry = telemetry
        telemetry.watch(lambda: self._running)
        self._health = health.aio.HealthServicer()
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def exchanges(self) -> int:
        """How many exchanges are under way."""
        return self._running

    @asynccontextmanager
    async def running(self, address: str, health_address: str | None = None) -> AsyncIterator[int]:
        """Serve on `address` (`host:port` or `unix:/path`) inside the block; yields the port, 1 for a socket.

        At `health_address` there is the health service and nothing else: for probes that come over the network
        while Envoy comes by a socket. Raises OSError when an address can't be had. Leaving the block ends what still
        runs: `drain` first.
        """
        limit = self._config.limits.max_body_bytes + _MESSAGE_OVERHEAD
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", limit),
                ("grpc.so_reuseport", 0),  # a second processor on the same port is a mistake, not a helper
            ]
        )
        process = grpc.stream_stream_rpc_method_handler(
            self._process,
            request_deserializer=ProcessingRequest.FromString,
            response_serializer=ProcessingResponse.SerializeToString,
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Process": process}),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        servers = [server]
        port = _bind(server, address)
        if health_address is not None:
            probed = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
            health_pb2_grpc.add_HealthServicer_to_server(self._health, probed)
            _bind(probed, health_address)
            servers.append(probed)
        for each in servers:
            await each.start()
        await self._set_health(serving=True)
        try:
            yield port
        finally:
            for each in servers:
                await each.stop(grace=None)

    async def drain(self, grace: float) -> bool:
        """Report not-serving, then wait until every exchange has ended, for at most `grace` seconds.

        New exchanges are still served meanwhile: whoever sends them may not have seen the health change yet.
        Returns whether all of them ended.
        """
        await self._set_health(serving=False)
        try:
            await asyncio.wait_for(self._idle.wait(), grace)
        except TimeoutError:
            return False
        return True

    async def _set_health(self, *, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in ("", SERVICE):
            await self._health.set(service, status)

    async def _process(self, _: object, context: Context) -> None:
        exchange = Exchange(self._config, self._telemetry)
        self._running += 1
        self._idle.clear()
        try:
            while isinstance(message := await context.read(), ProcessingRequest):  # else it is the end
                for reply in self._receive(exchange, message):
                    await context.write(reply)
        except _AbortError as abort:
            await context.abort(abort.status, abort.message)
        finally:
            exchange.close()
            self._running -= 1
            if not self._running:
                self._idle.set()

    def _receive(self, exchange: Exchange, message: ProcessingRequest) -> list[ProcessingResponse]:
        try:
            return exchange.receive(message)
        except ProtocolError as error:
            self._telemetry.aborted("protocol_error")
            log.error("protocol error: %s", error, extra={"exchange": exchange.id})
            raise _AbortError(grpc.StatusCode.FAILED_PRECONDITION, str(error)) from error
        except Exception as bug:
            self._telemetry.aborted("bug")
            # The text of an exception can quote a request; its type and its place can't.
            where = "".join(traceback.format_tb(bug.__traceback__))
            log.error("bug: %s\n%s", type(bug).__name__, where, extra={"exchange": exchange.id})
            raise _AbortError(grpc.StatusCode.INTERNAL, f"internal error in exchange {exchange.id}") from bug


def _bind(server: grpc.aio.Server, address: str) -> int:
    try:
        return server.add_insecure_port(address)
    except RuntimeError as error:
        raise OSError(f"can't listen on {address}: is it in use, or its directory missing?") from error


class _AbortError(Exception):
    def __init__(self, status: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

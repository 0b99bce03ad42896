"""gRPC's own library as the transport: slower, and what the lean one is measured by."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import grpc

from extproc.transport.call import Metadata, Method, Receiver, Services, Status
from extproc.transport.lean.server import accepts
from extproc.transport.serving import Endpoint
from extproc.transport.tls import TlsFiles
from extproc.transport.turns import Turns

log = logging.getLogger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"

_PATIENT = (
    # gRPC's own limits are for strangers on a network: from 1,000 calls on that wait for the loop it drops some at
    # random, as CANCELLED and without a word. Our one client is Envoy, which has bounds of its own.
    ("grpc.server.max_pending_requests", 100_000),
    ("grpc.server.max_pending_requests_hard_limit", 100_000),
    # A client that doesn't read its answer makes Envoy stop reading from the backend; what is on the way to us by then
    # comes back to wait in Envoy. A larger message still gets the window that it needs.
    ("grpc.http2.lookahead_bytes", 64 * 1024),
    ("grpc.http2.bdp_probe", 0),
    # Gateways keep their connections alive by pings, as often as they like.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),  # a second processor on the same port is a mistake, not a helper
)
_SETTLING = 0.1
"""Seconds: a call that is over, because the client has gone, a message was too large or the server stops, looks at
first like one whose client has nothing more to say. That it is cancelled, gRPC says a moment later."""
_CODES = {code.value[0]: code for code in grpc.StatusCode}


@asynccontextmanager
async def serving_grpcio(endpoint: Endpoint, turns: Turns) -> AsyncIterator[int]:
    """See `transport.serving`."""
    if endpoint.listening is not None:
        raise ValueError("gRPC binds its sockets itself")
    largest = endpoint.largest
    sizes = (("grpc.max_receive_message_length", largest), ("grpc.max_send_message_length", largest))
    server = grpc.aio.server(options=[*sizes, *_PATIENT])
    handlers = _Handlers(endpoint.services, turns)
    server.add_generic_rpc_handlers((handlers,))
    credentials = _credentials(TlsFiles(endpoint.tls)) if endpoint.tls is not None else None
    port = _bind(server, endpoint.address, credentials)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(grace=None)
        if handlers.running:  # they are cancelled, but haven't ended
            await asyncio.wait(handlers.running)


def _credentials(files: TlsFiles) -> grpc.ServerCredentials:
    def configuration() -> grpc.ServerCertificateConfiguration:
        certificate, key, client_ca = files.contents
        return grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca)

    def renewed() -> grpc.ServerCertificateConfiguration | None:  # called in threads of gRPC's
        return configuration() if files.renewed() else None

    return grpc.dynamic_ssl_server_credentials(
        configuration(),
        renewed,  # type: ignore[arg-type]  # its type leaves out the None that the documentation has
        require_client_authentication=files.contents[2] is not None,
    )


def _bind(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    if address.startswith("unix:") and accepts(address.removeprefix("unix:")):  # gRPC would take its place
        raise OSError(f"can't listen on {address}: somebody does already")
    try:
        if credentials is not None:
            return server.add_secure_port(address, credentials)
        return server.add_insecure_port(address)
    except RuntimeError as error:
        raise OSError(f"can't listen on {address}: is it in use, or its directory missing?") from error


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, services: Services, turns: Turns) -> None:
        self._services = services
        self._turns = turns
        self.running: set[asyncio.Task[Any]] = set()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        method = self._services.get(details.method)
        if method is None:
            return None
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._behaviour(method))
        return handler

    def _behaviour(self, method: Method) -> Callable[..., Any]:
        async def behaviour(_: object, context: Context) -> None:
            task = asyncio.current_task()
            assert task is not None
            self.running.add(task)
            task.add_done_callback(self.running.discard)
            await GrpcioCall(context, self._turns).run(method)

        return behaviour


class GrpcioCall:
    """One call. See `transport.Call`."""

    def __init__(self, context: Context, turns: Turns) -> None:
        self._context = context
        self._turns = turns
        self._receiver: Receiver | None = None
        self._outbox: deque[bytes] = deque()
        self._writing = asyncio.Lock()
        self._released = asyncio.Event()
        self._released.set()
        self._status: tuple[Status, str] | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._delivering = False

    @property
    def metadata(self) -> Metadata:
        return tuple(tuple(pair) for pair in self._context.invocation_metadata() or ())  # type: ignore[misc]

    @property
    def peer(self) -> str:
        return str(self._context.peer())

    def send(self, message: bytes) -> None:
        if self._status is None:
            self._outbox.append(message)
            if not self._delivering and self._flushing is None:
                self._flushing = asyncio.create_task(self._flush())
                self._flushing.add_done_callback(self._flushed)

    def finish(self, status: Status = Status.OK, message: str = "") -> None:
        if self._status is None:
            self._status = status, message
            if self._waiting is not None:
                self._waiting.cancel()
            self._end()

    def hold(self) -> None:
        self._released.clear()

    def release(self) -> None:
        self._released.set()

    async def run(self, method: Method) -> None:
        """From its first message to its end."""
        try:
            self._receiver = method(self)
            await self._listen()
            await self._flush()
            if self._status is not None and self._status[0] is not Status.OK:
                status, message = self._status
                await self._context.abort(_CODES[status], message)
        finally:
            self._end()
            if self._flushing is not None:
                self._flushing.cancel()

    async def _listen(self) -> None:
        ended = False
        while self._status is None and not ended:
            data = await self._unless_finished(self._context.read())
            if self._status is None and not isinstance(data, bytes):
                await self._unless_finished(asyncio.sleep(_SETTLING))
            if self._status is not None:
                return
            if not self._turns.free:
                await self._turns.turn()
            while self._status is None and not self._released.is_set():
                await self._unless_finished(self._released.wait())
            if self._status is None and self._receiver is not None:
                ended = not isinstance(data, bytes)
                self._deliver(self._receiver, None if ended else data)
            del data
            await self._flush()
        if self._status is None:
            await self._unless_finished(asyncio.get_running_loop().create_future())

    async def _unless_finished(self, awaited: Any) -> Any:
        """What comes of it; None if the service has ended the call meanwhile."""
        self._waiting = asyncio.ensure_future(awaited)
        try:
            return await self._waiting
        except asyncio.CancelledError:
            if self._status is None:  # the client has gone
                self._waiting.cancel()
                raise
            return None
        finally:
            self._waiting = None

    def _deliver(self, receiver: Receiver, data: bytes | None) -> None:
        self._delivering = True
        try:
            if data is None:
                receiver.half_closed()
            else:
                receiver.received(data)
        except Exception as bug:
            # The text of an exception can quote a request; its type and its place can't.
            where = "".join(traceback.format_tb(bug.__traceback__))
            log.error("bug: %s\n%s", type(bug).__name__, where)
            self.finish(Status.INTERNAL, "internal error")
        finally:
            self._delivering = False

    async def _flush(self) -> None:
        async with self._writing:
            while self._outbox:
                await self._context.write(self._outbox.popleft())

    def _flushed(self, task: asyncio.Task[None]) -> None:
        self._flushing = None
        if not task.cancelled():
            task.exception()  # a client that has gone takes nothing any more

    def _end(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.closed()

"""The only gRPC code: carries Envoy's messages to an `Exchange` and its replies back.

A thin shell around the pure core. It promises that an exchange never ends early as if all were well: a bug in the
core aborts that one stream with INTERNAL, is logged once with the exchange's id, and touches no other. It must
never log what a request or an answer says.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeAlias

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from extproc.backends.again import call_again
from extproc.config import Config, Limits
from extproc.exchange.context import ExchangeContext
from extproc.exchange.effects import Breathe, CallBackend, Effect, Prepare, ReadCompletion, Result
from extproc.exchange.host import ADVICE, Hosts
from extproc.exchange.machine import Exchange, Inputs
from extproc.exchange.phases import Phase
from extproc.exchange.protocol import ProtocolError
from extproc.exchange.replies import Replies
from extproc.names import INNER_LAYOUT, LAYOUT, LAYOUT_METADATA
from extproc.observability.telemetry import Telemetry
from extproc.server.access_log import access_log_handler
from extproc.server.idle_timeout import IdleWatch, Listening
from extproc.server.workers import Workers
from extproc.wire import SERVICE, ProcessingRequest, ProcessingResponse

log = logging.getLogger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"

CONFIG_HEALTH = "extproc.config"
"""The name under which the health service tells whether the files on disk are the ones in force."""

ENVOY_HEALTH = "extproc.envoy"
"""The name under which it tells whether Envoy has taken its part of the configuration that the processor began with."""

HOST_HEALTH = "extproc.host"
"""The name under which it tells whether Envoy follows the overrides by which answers are asked for."""

_BESIDE_BODY = 1024 * 1024
"""Bytes of a message beside a body: headers, metadata and framing."""
_PROBE = 64 * 1024
"""Bytes of a message to the health service."""

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
)

_LARGE = 1024 * 1024
"""Bytes of a message. To copy 30 MB takes 10 ms, and it is done six times on the way through gRPC and Protobuf: others
get their turn in between."""


class Processor:
    """The gRPC service `ExternalProcessor`, its health service and reflection, on one address.

    Use `running` to have it served; `drain` to have it finish.
    """

    def __init__(
        self, context: ExchangeContext, telemetry: Telemetry, record: Callable[[Exchange], Inputs] | None = None
    ) -> None:
        """`record`: what stands between the processor and an exchange that begins, if anything."""
        self.context = context
        """What exchanges that begin now go by; those that have begun keep what they have."""
        self.largest_body = max(context.config.limits.max_body_bytes, Limits().max_body_bytes)
        """Bytes of the largest body that is read from Envoy: gRPC drops what is larger without having it in memory. A
        server that runs can't change this: a configuration that allows more needs another one."""
        self._hosts = Hosts(time.monotonic)
        self._hosts_follow = True
        self._observed = False
        self._telemetry = telemetry
        self._record = record
        telemetry.watch(lambda: self.exchanges)
        self._health = health.aio.HealthServicer()
        self._running = set[Exchange]()
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False
        self._turns = asyncio.Lock()
        self.workers = Workers()

    @property
    def exchanges(self) -> int:
        """How many exchanges are under way that the processor still has a part in."""
        return len(self._running)

    def uses(self, config: Config) -> bool:
        """Whether an exchange is under way that goes by this very configuration."""
        return any(exchange.context.config is config for exchange in self._running)

    @asynccontextmanager
    async def running(
        self,
        address: str,
        health_address: str | None = None,
        *,
        healthy: bool = True,
        credentials: grpc.ServerCredentials | None = None,
    ) -> AsyncIterator[int]:
        """Serve on `address` (`host:port` or `unix:/path`) inside the block; yields the port, 1 for a socket.

        With `credentials` there is TLS at `address`, and at `health_address` there is none.

        At `health_address` there is the health service and nothing else: for probes that come over the network
        while Envoy comes by a socket. Unless `healthy`, exchanges are served, but health says so only after
        `show_health`. Raises OSError when an address can't be had. Leaving the block ends what still
        runs: `drain` first.
        """
        largest = self.largest_body + _BESIDE_BODY
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", largest),
                ("grpc.max_send_message_length", largest),
                ("grpc.so_reuseport", 0),  # a second processor on the same port is a mistake, not a helper
                *_PATIENT,
            ]
        )
        process: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._process)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Process": process}),))
        server.add_generic_rpc_handlers((access_log_handler(self.context.concurrency),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        servers = [server]
        port = _bind(server, address, credentials)
        if health_address is not None:
            probed = grpc.aio.server(options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", _PROBE)])
            health_pb2_grpc.add_HealthServicer_to_server(self._health, probed)
            _bind(probed, health_address)
            servers.append(probed)
        await self._set_health("", SERVICE, serving=healthy)
        await self._set_health(CONFIG_HEALTH, HOST_HEALTH, serving=True)
        await self._set_health(ENVOY_HEALTH, serving=healthy)
        self._listening = Listening()
        for each in servers:
            await each.start()
        try:
            yield port
        finally:
            for each in servers:
                await each.stop(grace=None)
            self._listening.end()
            self.workers.close()

    async def drain(self, grace: float) -> bool:
        """Report not-serving, then wait until every exchange has ended, for at most `grace` seconds.

        New exchanges are still served meanwhile: whoever sends them may not have seen the health change yet.
        Returns whether all of them ended.
        """
        self._draining = True
        await self._set_health("", SERVICE, ENVOY_HEALTH, serving=False)
        try:
            await asyncio.wait_for(self._idle.wait(), grace)
        except TimeoutError:
            return False
        return True

    async def show_health(self) -> None:
        """Tell that all is in place."""
        await self._set_health("", SERVICE, serving=True)

    async def show_envoy_health(self) -> None:
        """Tell that Envoy has taken what it was given."""
        await self._set_health(ENVOY_HEALTH, serving=not self._draining)

    async def show_config_health(self, *, valid: bool) -> None:
        """Tell whether the files on disk are in force, apart from the health of the service: that goes on."""
        await self._set_health(CONFIG_HEALTH, serving=valid)

    async def _set_health(self, *services: str, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in services:
            await self._health.set(service, status)

    async def _process(self, _: object, context: Context) -> None:
        metadata = context.invocation_metadata() or ()
        inner = (LAYOUT_METADATA, INNER_LAYOUT) in metadata
        ours = inner or (LAYOUT_METADATA, LAYOUT) in metadata
        host = None if ours else self._hosts.of(context.peer())
        exchange = Exchange(self.context, self._telemetry, host, inner=inner)
        inputs = exchange if self._record is None else self._record(exchange)
        replied = -math.inf
        self._running.add(exchange)
        self._idle.clear()
        loop = asyncio.get_running_loop()
        writing = asyncio.Lock()

        async def say(replies: Callable[[], Replies]) -> None:
            async with writing:  # gRPC takes one message at a time, and all that one input leads to belongs together
                async for reply in self._performed(exchange, inputs, replies):
                    data = reply.SerializeToString()
                    del reply
                    if len(data) > _LARGE:
                        await self._turn()
                    await context.write(data)
            nonlocal replied
            replied = loop.time()

        async def tell_silence() -> None:
            with suppress(grpc.aio.AbortError):
                try:
                    await say(watch.replies)
                except _AbortError as abort:
                    await context.abort(abort.status, abort.message)

        watch = IdleWatch(exchange, inputs, tell_silence, self._listening)
        try:
            while isinstance(data := await context.read(), bytes):  # else it is the end
                if len(data) > _LARGE:
                    await self._turn()
                message = ProcessingRequest.FromString(data)
                del data
                if message.HasField("request_body") or exchange.phase is Phase.RESPONSE_BODY:
                    await self._turn()
                # Who receives it is the last to have it: it may be megabytes, and its reply a long time coming.
                box = [message]
                del message
                await say(partial(_received, inputs, box))
                watch.heard()
                self._tell_if_observed(exchange)
                if exchange.phase is Phase.PASSED_BY:
                    break  # Envoy lets the rest pass then; a call kept open would take the response with it if it broke
        except _AbortError as abort:
            await context.abort(abort.status, abort.message)
        finally:
            watch.end()
            inputs.close(loop.time() - replied)
            self._running.discard(exchange)
            if not self._running:
                self._idle.set()
            if exchange.host is not None:
                await self._look_at_hosts(exchange)

    def _tell_if_observed(self, exchange: Exchange) -> None:
        if exchange.observed and not self._observed:
            self._observed = True
            log.error(
                "configure Envoy without observability_mode: it takes no notice of any reply, and answers go to "
                "clients as they are"
            )

    async def _look_at_hosts(self, exchange: Exchange) -> None:
        """Tell what has turned out about one by an exchange that is over."""
        if exchange.ignored_override:
            self._telemetry.override_ignored()
        if self._hosts_follow is self._hosts.any_ignores:
            self._hosts_follow = not self._hosts_follow
            self._telemetry.show_host(follows=self._hosts_follow)
            await self._set_health(HOST_HEALTH, serving=self._hosts_follow)
            if self._hosts_follow:
                log.info("Envoy follows mode_override now")
            else:
                log.error("%s. Until then, requests with tools are refused", ADVICE)

    async def _performed(
        self, exchange: Exchange, inputs: Inputs, begin: Callable[[], Replies]
    ) -> AsyncIterator[ProcessingResponse]:
        """What the exchange says, its effects performed."""
        try:
            replies = begin()
            while replies:
                reply = replies.pop(0)
                if isinstance(reply, ProcessingResponse):
                    yield reply
                else:
                    replies = inputs.resume(await self._perform(reply))
                    await asyncio.sleep(0)
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

    async def _perform(self, effect: Effect) -> Result:
        match effect:
            case Prepare() | ReadCompletion():
                return await self.workers.perform(effect)
            case Breathe():
                await self._turn()
                return None
            case CallBackend():
                return await call_again(effect)

    async def _turn(self) -> None:
        """Wait for one's turn to do what takes some milliseconds: one of them passes for each round of the event loop,
        so that whatever many ask for at once, what came of others meanwhile is done in between."""
        async with self._turns:
            await asyncio.sleep(0)


def _received(inputs: Inputs, box: list[ProcessingRequest]) -> Replies:
    return inputs.receive(box.pop())


def _bind(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
    if address.startswith("unix:") and _accepts(address.removeprefix("unix:")):  # gRPC would take its place
        raise OSError(f"can't listen on {address}: somebody does already")
    try:
        if credentials is not None:
            return server.add_secure_port(address, credentials)
        return server.add_insecure_port(address)
    except RuntimeError as error:
        raise OSError(f"can't listen on {address}: is it in use, or its directory missing?") from error


def _accepts(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as attempt:
        attempt.setblocking(False)  # one that is full accepts too, and would keep us waiting
        try:
            return attempt.connect_ex(path) in (0, errno.EAGAIN)
        except OSError:  # the path is too long for one
            return False


class _AbortError(Exception):
    def __init__(self, status: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

"""The suite's own gRPC client: a link for each call, and what a server can be asked beside `Process`.

Everything is bounded: the time of each answer, the size of a message, the answers that are kept. What a server says is
taken as bytes and told apart here, so that one that isn't a message is a finding and no exception.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import time
from typing import Any

import grpc
import grpc.aio

from extproc.conformance.driver import Link
from extproc.conformance.host.machine import Answer, Wait
from extproc.conformance.host.outcome import Closed
from extproc.conformance.pings import pings
from extproc.conformance.recipe import Limits
from extproc.wire import SERVICE, ProcessingRequest, ProcessingResponse

_PROCESS = f"/{SERVICE}/Process"
_HEALTH = "/grpc.health.v1.Health/Check"
_SERVING = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_MOST_KEPT = 10_000
_LARGEST = 300 << 20
_OPTIONS = [
    ("grpc.max_send_message_length", _LARGEST),
    ("grpc.max_receive_message_length", _LARGEST),
    ("grpc.enable_http_proxy", 0),
]


class UnreachableError(Exception):
    """Nobody answers at the target, or it isn't allowed to be asked."""


def is_local(target: str) -> bool:
    """Whether the target is a socket's path or on this machine's loopback interface."""
    if target.startswith("unix:"):
        return True
    host = target.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class GrpcLink:
    """One call of `Process`."""

    def __init__(self, call: grpc.aio.StreamStreamCall[Any, Any], limits: Limits) -> None:
        self._call, self._limits = call, limits
        self._answers: asyncio.Queue[ProcessingResponse | Closed] = asyncio.Queue(_MOST_KEPT)
        self._over: Closed | None = None
        self._reading = asyncio.create_task(self._read())

    async def send(self, message: ProcessingRequest | bytes) -> None:
        data = message if isinstance(message, bytes) else message.SerializeToString()
        # A server that doesn't read makes this wait: then its replies are what is missing.
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, asyncio.CancelledError, TimeoutError):
            async with asyncio.timeout(self._limits.reply):
                await asyncio.shield(asyncio.ensure_future(self._write(data)))

    async def _write(self, data: bytes) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, asyncio.CancelledError):
            await self._call.write(data)

    async def receive(self, wait: Wait) -> Answer:
        if self._over is not None:
            return self._over
        patience = self._limits.reply if wait is Wait.REPLY else self._limits.pause
        try:
            async with asyncio.timeout(patience):
                answer = await self._answers.get()
        except TimeoutError:
            return None
        if isinstance(answer, Closed):
            self._over = answer
        return answer

    async def half_close(self) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.done_writing()

    def cancel(self) -> None:
        self._call.cancel()
        self._reading.cancel()

    async def _read(self) -> None:
        details: str | None
        try:
            while (data := await self._call.read()) is not grpc.aio.EOF:
                await self._answers.put(ProcessingResponse.FromString(data))  # type: ignore[arg-type]
            code, details = await self._call.code(), await self._call.details()
        except grpc.aio.AioRpcError as error:
            code, details = error.code(), error.details()
        except asyncio.CancelledError:
            if not self._call.cancelled():
                raise
            code, details = grpc.StatusCode.CANCELLED, ""
        except Exception as error:  # protobuf's decoder: the reply is no message
            await self._answers.put(Closed("INTERNAL", f"a reply is no ProcessingResponse: {type(error).__name__}"))
            return
        await self._answers.put(Closed(code.name, (details or "")[:300]))


class GrpcServer:
    """A server under test. Raises UnreachableError on entering."""

    def __init__(self, target: str, limits: Limits, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        self._target, self._limits, self._metadata = target, limits, metadata
        self._links: list[GrpcLink] = []

    async def __aenter__(self) -> GrpcServer:
        self._channel = grpc.aio.insecure_channel(self._target, options=_OPTIONS)
        try:
            async with asyncio.timeout(10):
                await self._channel.channel_ready()
        except TimeoutError:
            await self._channel.close()
            raise UnreachableError(f"no gRPC server answers at {self._target}") from None
        self._process: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(_PROCESS)
        return self

    async def __aexit__(self, *_: object) -> None:
        for link in self._links:
            link.cancel()
        await self._channel.close()

    def open(self) -> Link:
        return self._opened()

    def open_compressed(self) -> Link:
        return self._opened(compression=grpc.Compression.Gzip)

    def open_with_deadline(self, seconds: float) -> Link:
        return self._opened(timeout=seconds)

    def _opened(self, **options: Any) -> Link:
        link = GrpcLink(self._process(metadata=self._metadata or None, **options), self._limits)
        self._links.append(link)
        return link

    def clock(self) -> float:
        return time.monotonic()

    async def health(self, service: str) -> str:
        """The messages are two fields, written and read by hand: a string there, an enum back."""
        name = service.encode()
        request = b"\n" + bytes((len(name),)) + name if name else b""
        check: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(_HEALTH)
        try:
            answer = await check(request, timeout=self._limits.reply)
        except grpc.aio.AioRpcError as error:
            return error.code().name
        return _SERVING.get(answer[1] if len(answer) == 2 and answer[0] == 8 else 0, "UNKNOWN")

    async def pings(self, number: int, seconds: float) -> str | None:
        return await pings(self._target, _PROCESS, number, seconds)

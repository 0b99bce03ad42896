"""The suite's own gRPC client: a link for each call, and what a server can be asked beside `Process`.

Everything is bounded: the time of each answer, the size of a message, the answers that are kept. It is gRPC's blocking
client, in threads: its asyncio one sometimes tells INTERNAL instead of the server's status when the server ends a call
that is still being written to.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from extproc.conformance.driver import Link, Unread
from extproc.conformance.host.machine import Answer, Wait
from extproc.conformance.host.outcome import Closed
from extproc.conformance.pings import pings
from extproc.conformance.recipe import Limits, MetadataContext
from extproc.wire import SERVICE, ProcessingRequest, ProcessingResponse

Call: TypeAlias = Any
StreamStreamMultiCallable: TypeAlias = Any
"""gRPC's own, which have no one type that says all that they do."""

_PROCESS = f"/{SERVICE}/Process"
_HEALTH = "/grpc.health.v1.Health/Check"
_SERVING = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_MOST_KEPT = 30_000
_CONNECT_SECONDS = 10
_STUCK_SECONDS, _LOOKS = 1.0, 20
"""A server that took nothing for so long, in so many looks, takes no more; one that said nothing says no more."""
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
    """One call of `Process`. `start` begins it, with what is sent."""

    def __init__(self, start: Callable[[Iterator[bytes]], Call], limits: Limits, context: MetadataContext = ()) -> None:
        self._limits, self._loop = limits, asyncio.get_running_loop()
        self._context = forwarded(context)
        self._answers: asyncio.Queue[ProcessingResponse | Closed] = asyncio.Queue()
        self._over: Closed | None = None
        self._sent: SimpleQueue[bytes | None] = SimpleQueue()
        self._call = start(iter(self._sent.get, None))
        threading.Thread(target=self._read, name="conformance call", daemon=True).start()

    async def send(self, message: ProcessingRequest | bytes) -> None:
        data = message if isinstance(message, bytes) else message.SerializeToString()
        self._sent.put(data + self._context if _is_message(data) else data)

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
        self._sent.put(None)

    def cancel(self) -> None:
        self._call.cancel()
        self._sent.put(None)

    def _read(self) -> None:
        """In a thread of the call's own, until its end."""
        try:
            for number, data in enumerate(self._call):
                if number == _MOST_KEPT:
                    self._call.cancel()
                self._tell(ProcessingResponse.FromString(data))
            end = Closed("OK")
        except grpc.RpcError:
            end = _end(self._call)
        except DecodeError:
            self._call.cancel()
            end = Closed("INTERNAL", "a reply is no ProcessingResponse")
        self._tell(end)
        self._sent.put(None)

    def _tell(self, answer: ProcessingResponse | Closed) -> None:
        with contextlib.suppress(RuntimeError):  # the run is over, and its loop closed
            self._loop.call_soon_threadsafe(self._answers.put_nowait, answer)


def _end(call: Call) -> Closed:
    """Of a call that is over."""
    return Closed(call.code().name, (call.details() or "")[:300])


def forwarded(context: MetadataContext) -> bytes:
    """What is appended to a message becomes part of it."""
    message = ProcessingRequest()
    for namespace, fields in context:
        message.metadata_context.filter_metadata[namespace].update(dict(fields))
    return message.SerializeToString()


def _is_message(data: bytes) -> bool:
    """Some cases send bytes, which may be none."""
    try:
        ProcessingRequest.FromString(data)
    except DecodeError:
        return False
    return True


class GrpcServer:
    """A server under test. Raises UnreachableError on entering."""

    def __init__(
        self, target: str, limits: Limits, metadata: tuple[tuple[str, str], ...] = (), context: MetadataContext = ()
    ) -> None:
        self._target, self._limits, self._metadata, self._context = target, limits, metadata, context
        self._links: list[GrpcLink] = []
        self._unread: list[Callable[[], None]] = []

    async def __aenter__(self) -> GrpcServer:
        self._channel = grpc.insecure_channel(self._target, options=_OPTIONS)
        ready = grpc.channel_ready_future(self._channel)
        try:
            await asyncio.to_thread(ready.result, _CONNECT_SECONDS)
        except grpc.FutureTimeoutError:
            ready.cancel()
            self._channel.close()
            raise UnreachableError(f"no gRPC server answers at {self._target}") from None
        self._process: StreamStreamMultiCallable = self._channel.stream_stream(_PROCESS)
        return self

    async def __aexit__(self, *_: object) -> None:
        for link in self._links:
            link.cancel()
        for cancel in self._unread:
            cancel()
        self._channel.close()

    def open(self) -> Link:
        return self._opened()

    def open_compressed(self) -> Link:
        return self._opened(compression=grpc.Compression.Gzip)

    def open_with_deadline(self, seconds: float) -> Link:
        return self._opened(timeout=seconds)

    def _opened(self, **options: Any) -> Link:
        def start(sent: Iterator[bytes]) -> Call:
            return self._process(sent, metadata=self._metadata or None, **options)

        link = GrpcLink(start, self._limits, self._context)
        self._links.append(link)
        return link

    async def unread(self, messages: Sequence[ProcessingRequest]) -> Unread:
        """Without a reader gRPC opens the window for replies no further. On a connection of its own: what is stuck
        there is in nobody's way."""
        taken = read = 0
        ended: Closed | None = None

        def sent() -> Iterator[bytes]:
            nonlocal taken
            for message in messages:
                yield message.SerializeToString() + context
                taken += 1  # it is asked for the next one when this one is on its way
            forever.wait()

        def drain() -> None:
            nonlocal read, ended
            try:
                for _ in call:
                    read += 1
                ended = Closed("OK")
            except grpc.RpcError:
                ended = _end(call)

        async def end() -> Closed | None:
            threading.Thread(target=drain, daemon=True).start()
            await self._until_stuck(lambda: read, lambda: ended is not None or read > _MOST_KEPT)
            return ended

        context, forever = forwarded(self._context), threading.Event()
        channel = grpc.insecure_channel(self._target, options=[*_OPTIONS, ("grpc.use_local_subchannel_pool", 1)])
        process: StreamStreamMultiCallable = channel.stream_stream(_PROCESS)
        call = process(sent(), metadata=self._metadata or None)

        def cancel() -> None:
            forever.set()
            call.cancel()
            channel.close()

        self._unread.append(cancel)
        await self._until_stuck(lambda: taken, lambda: taken == len(messages) or not call.is_active())
        return Unread(taken, end, cancel)

    async def _until_stuck(self, number: Callable[[], int], over: Callable[[], bool]) -> None:
        """Until it is over, or the number has been the same for a while."""
        before, unchanged = -1, 0
        while not over() and unchanged < _LOOKS:  # not seconds: the machine may have stood still meanwhile
            now = number()
            before, unchanged = now, unchanged + 1 if now == before else 0
            await asyncio.sleep(_STUCK_SECONDS / _LOOKS)

    async def rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def clock(self) -> float:
        return time.monotonic()

    async def health(self, service: str) -> str:
        """The messages are two fields, written and read by hand: a string there, an enum back."""
        name = service.encode()
        request = b"\n" + bytes((len(name),)) + name if name else b""
        check: Callable[..., bytes] = self._channel.unary_unary(_HEALTH)
        try:
            answer = await asyncio.to_thread(check, request, timeout=self._limits.reply)
        except grpc.RpcError as error:
            return str(error.code().name) if isinstance(error, grpc.Call) else "UNKNOWN"
        return _SERVING.get(answer[1] if len(answer) == 2 and answer[0] == 8 else 0, "UNKNOWN")

    async def pings(self, number: int, seconds: float) -> str | None:
        return await pings(self._target, _PROCESS, number, seconds)

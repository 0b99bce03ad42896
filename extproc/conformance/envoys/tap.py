"""The gRPC server between Envoy and the processor: it passes every message on, and remembers which.

So it is known what Envoy sent, what came back, and how the call ended, which the client's answer alone doesn't tell.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from extproc.conformance.client import forwarded
from extproc.conformance.host import messages
from extproc.conformance.host.outcome import Closed
from extproc.conformance.host.settings import BodyMode
from extproc.conformance.recipe import MetadataContext
from extproc.wire import SERVICE, ProcessingRequest, ProcessingResponse

_PROCESS = f"/{SERVICE}/Process"
_OPTIONS = [
    ("grpc.max_send_message_length", 300 << 20),
    ("grpc.max_receive_message_length", 300 << 20),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
]


@dataclass
class Record:
    """The calls of one exchange, as they pass. Read and written in the event loop only."""

    trace: list[str] = field(default_factory=list)
    shown: dict[str, int] = field(default_factory=lambda: {"request": 0, "response": 0})
    """How many bytes of each body Envoy has sent."""
    modes: dict[str, BodyMode] = field(default_factory=dict)
    """Body modes that a reply has asked for."""
    sent: list[tuple[str, int, bool]] = field(default_factory=list)
    """Envoy's messages, as in an `Outcome`."""
    kinds: list[str | None] = field(default_factory=list)
    """Those of the replies."""
    closed: Closed | None = None
    """How the processor ended the call, if it did."""
    left: bool = False
    """It did so with OK while Envoy's side was still open."""
    calls: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Tap:
    """Listening on entering, at a unix socket; `record` is that of the exchange being played. It adds the recipe's
    metadata to the call and to each message."""

    def __init__(
        self,
        path: Path,
        target: str,
        metadata: tuple[tuple[str, str], ...] = (),
        metadata_context: MetadataContext = (),
    ) -> None:
        self._path, self._target, self._metadata = path, target, metadata
        self._context = forwarded(metadata_context)
        self.record = Record()

    async def __aenter__(self) -> Tap:
        self._loop = asyncio.get_running_loop()
        options = [*_OPTIONS, ("grpc.enable_http_proxy", 0)]
        self._channel = grpc.insecure_channel(self._target, options=options)
        self._call: Any = self._channel.stream_stream(_PROCESS)
        self._server = grpc.server(ThreadPoolExecutor(64), options=_OPTIONS)
        self._server.add_generic_rpc_handlers((_Handler(self),))
        self._server.add_insecure_port(f"unix:{self._path}")
        self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.stop(None)
        self._channel.close()

    def pass_on(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """One call, in a thread of its own."""
        record = self.record
        open_ = [True]
        self._tell(record, _called)

        def noted() -> Iterator[bytes]:
            with contextlib.suppress(grpc.RpcError):  # Envoy breaks it off
                for data in requests:
                    self._tell(record, _sent, data)
                    yield data + self._context
                open_[0] = False

        call = self._call(noted(), metadata=self._metadata or None)
        context.add_callback(call.cancel)
        try:
            for data in call:
                self._tell(record, _replied, data)
                yield data
        except grpc.RpcError:
            if not context.is_active():
                return  # it was Envoy that broke it off
            end = Closed(call.code().name, (call.details() or "")[:300])
            self._tell(record, _ended, end, open_[0])
            context.abort(call.code(), call.details() or "")
        self._tell(record, _ended, Closed("OK"), open_[0])

    def _tell(self, record: Record, note: Any, *what: object) -> None:
        with contextlib.suppress(RuntimeError):  # the run is over, and its loop closed
            self._loop.call_soon_threadsafe(_noted, record, note, *what)


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, tap: Tap) -> None:
        self._tap = tap

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:  # type: ignore[type-arg]
        return grpc.stream_stream_rpc_method_handler(self._tap.pass_on) if details.method == _PROCESS else None


def _noted(record: Record, note: Any, *what: object) -> None:
    note(record, *what)
    record.changed.set()


def _called(record: Record) -> None:
    record.calls += 1


def _sent(record: Record, data: bytes) -> None:
    message = ProcessingRequest.FromString(data)
    kind = message.WhichOneof("request") or ""
    record.trace.append(f"> {messages.described(message)}")
    messages.note(record.sent, message)
    if kind.endswith("_body"):
        record.shown[kind.partition("_")[0]] += len(getattr(message, kind).body)


def _replied(record: Record, data: bytes) -> None:
    try:
        reply = ProcessingResponse.FromString(data)
    except DecodeError:
        record.kinds.append(None)
        return
    record.trace.append(f"< {messages.described(reply)}")
    record.kinds.append(reply.WhichOneof("response"))
    if reply.HasField("mode_override"):
        for way in ("request", "response"):
            mode = getattr(reply.mode_override, f"{way}_body_mode")
            with contextlib.suppress(ValueError):
                record.modes[way] = BodyMode(mode)


def _ended(record: Record, end: Closed, open_: bool) -> None:
    record.trace.append(f"< closed {end.status}")
    record.closed = end
    record.left = end.status == "OK" and open_

"""Envoy's side of one connection: HTTP/2 frames and gRPC messages as bytes, which are cut wherever it happens.

What is to be sent waits in a queue; `deliver` hands some bytes of it to the processor's protocol. What the processor
writes is read at once. There are no sockets: the transport is a list.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable

from hpack import Decoder

from extproc.conformance.host.outcome import Closed
from extproc.exchange.context import ExchangeContext
from extproc.transport import Status
from extproc.transport.lean.connection import ClientConnection
from extproc.wire import SERVICE, ProcessingRequest, ProcessingResponse
from tests.http2.wire import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    Frame,
    data,
    frame,
    frames_in,
    headers,
    number,
    rst_stream,
    settings,
    window_update,
)

_CALL = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", f"/{SERVICE}/Process"),
    (":authority", "extproc"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)
_WINDOW = 65_535


class _Transport(asyncio.Transport):
    """Takes what the processor writes."""

    def __init__(self, wrote: Callable[[bytes], None], ended: Callable[[], None], peer: tuple[str, int] | None) -> None:
        super().__init__({"peername": peer})
        self._wrote = wrote
        self._ended = ended
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.closed:
            self._wrote(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        """The processor ends the connection."""
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self._ended)

    abort = close

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Stream:
    """One call: what came of it, in order."""

    def __init__(self) -> None:
        self.answers: deque[ProcessingResponse | Closed] = deque()
        self.begun: tuple[ExchangeContext, float] | None = None
        """What was in force when the processor heard of it, and when that was."""
        self.over = False
        """The call has ended."""
        self._unread = bytearray()
        self.untaken = 0
        """Bytes for which the processor was given no new room."""

    @property
    def time_is_up(self) -> bool:
        """It has ended by its deadline, which nobody has seen yet."""
        last = self.answers[-1] if self.answers else None
        return isinstance(last, Closed) and last.status == "DEADLINE_EXCEEDED"

    def take(self, piece: bytes) -> None:
        self._unread += piece
        while len(self._unread) >= 5 and len(self._unread) >= (size := 5 + int.from_bytes(self._unread[1:5], "big")):
            self.answers.append(ProcessingResponse.FromString(bytes(self._unread[5:size])))
            del self._unread[:size]

    def end(self, status: str, words: str) -> None:
        if not self.over:
            self.over = True
            self.answers.append(Closed(status, words))


class EnvoyConnection:
    """With one processor's protocol at the other end."""

    def __init__(
        self,
        protocol: ClientConnection,
        rng: random.Random,
        in_force: Callable[[], ExchangeContext],
        peer: tuple[str, int] | None = None,
    ) -> None:
        """`in_force` tells by what calls go that begin now; `peer` is where the host calls from."""
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._rng = rng
        self._in_force = in_force
        self._decoder = Decoder()
        self._unread = b""
        self._queue: deque[tuple[bytes, Stream | None]] = deque()
        self._unsent = b""
        self.streams: dict[int, Stream] = {}
        self.last = 0
        self.going_away = False
        self._untaken = 0
        self._paused = False
        self.transport = _Transport(self._read, self._ended, peer)
        window = rng.choice((_WINDOW, _WINDOW, 1_000, 300))
        self._say(PREFACE + settings((INITIAL_WINDOW, window)))
        protocol.connection_made(self.transport)

    # What is said

    def open(self, metadata: tuple[tuple[str, str], ...], deadline: float | None) -> int:
        """Begin a call, which has so many seconds."""
        stream_id = self.last * 2 + 1
        self.last += 1
        self.streams[stream_id] = stream = Stream()
        fields = (*_CALL, *metadata)
        if deadline is not None:
            fields = (*fields, ("grpc-timeout", f"{deadline * 1000:.0f}m"))
        self._say(headers(stream_id, flags=END_HEADERS, fields=fields), stream)
        return stream_id

    def send(self, stream_id: int, message: ProcessingRequest) -> None:
        payload = message.SerializeToString()
        payload = b"\0" + len(payload).to_bytes(4, "big") + payload
        cut = self._rng.randrange(len(payload) + 1)
        for piece in (payload[:cut], payload[cut:]):
            for at in range(0, len(piece), 16_384):
                self._say(data(stream_id, piece[at : at + 16_384]))

    def half_close(self, stream_id: int) -> None:
        self._say(data(stream_id, b"", END_STREAM))

    def reset(self, stream_id: int) -> None:
        self.streams[stream_id].over = True
        self._say(rst_stream(stream_id))

    @property
    def open_streams(self) -> bool:
        return any(not stream.over for stream in self.streams.values())

    def forget(self, stream_id: int) -> None:
        """Nothing more is wanted of it."""
        if self.streams[stream_id].over:
            del self.streams[stream_id]

    def _say(self, said: bytes, begins: Stream | None = None) -> None:
        self._queue.append((said, begins))

    @property
    def idle(self) -> bool:
        """Everything is delivered, and the processor may say whatever it likes."""
        return self.transport.closed or not (self._queue or self._unsent or self._paused or self._untaken)

    def deliver(self, most: int | None = None) -> None:
        """Some bytes of what waits, or all of it."""
        while self._queue and (most is None or len(self._unsent) < most):
            said, begins = self._queue.popleft()
            if begins is not None:
                self._hand_over(None)  # what is in force when a call begins is told by its first byte
                begins.begun = self._in_force(), self._loop.time()
                self._unsent += said
                self._hand_over(None)
            else:
                self._unsent += said
        self._hand_over(most)

    def _hand_over(self, most: int | None) -> None:
        size = len(self._unsent) if most is None else most
        piece, self._unsent = self._unsent[:size], self._unsent[size:]
        if piece and not self.transport.closed:
            self._protocol.data_received(piece)

    def make_room(self) -> None:
        """Take what has come: the processor may say as much again."""
        if self._untaken:
            self._say(window_update(0, self._untaken))
            self._untaken = 0
        for stream_id, stream in self.streams.items():
            if stream.untaken:
                self._say(window_update(stream_id, stream.untaken))
                stream.untaken = 0

    def pause(self, *, paused: bool) -> None:
        """The socket takes nothing more, or does again."""
        if paused is not self._paused and not self.transport.closed:
            self._paused = paused
            (self._protocol.pause_writing if paused else self._protocol.resume_writing)()

    def lose(self) -> None:
        """The connection is gone."""
        if not self.transport.closed:
            self.transport.closed = True
            self._ended()

    def _ended(self) -> None:
        self._queue.clear()
        self._unsent = b""
        self._untaken = 0
        for stream in self.streams.values():
            stream.untaken = 0
            stream.end("UNAVAILABLE", "the connection has ended")
        self._protocol.connection_lost(None)

    # What is read

    def _read(self, said: bytes) -> None:
        self._unread += said
        at = 0
        while len(self._unread) >= at + 9:
            end = at + 9 + int.from_bytes(self._unread[at : at + 3], "big")
            if len(self._unread) < end:
                break
            (one,) = frames_in(self._unread[at:end])
            self._take(one)
            at = end
        self._unread = self._unread[at:]

    def _take(self, one: Frame) -> None:
        stream = self.streams.get(one.stream)
        match one.kind:
            case k if k == DATA and stream is not None:
                self._untaken += len(one.payload)
                stream.untaken += len(one.payload)
                stream.take(one.payload)
            case k if k == HEADERS:
                fields = dict(self._decoder.decode(one.payload, raw=True))
                if stream is not None and b"grpc-status" in fields:
                    status = Status(int(fields[b"grpc-status"]))
                    stream.end(status.name, fields.get(b"grpc-message", b"").decode())
            case k if k == RST_STREAM and stream is not None and one.code:
                stream.end("UNAVAILABLE", f"reset {one.code}")
            case k if k == SETTINGS and not one.flags & ACK:
                self._say(frame(SETTINGS, ACK))
            case k if k == PING and not one.flags & ACK:
                self._say(frame(PING, ACK, 0, one.payload))
            case k if k == GOAWAY:
                self.going_away = True
                assert not one.code, f"the processor ends the connection: {one.payload!r}"
                for stream_id, each in self.streams.items():
                    if stream_id > number(one.payload):
                        each.end("UNAVAILABLE", "it came too late")

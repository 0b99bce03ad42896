"""One client's connection on the event loop, and its calls.

What is read goes through the HTTP/2 machine at once; the calls' messages are delivered as `Turns` has it. What is said
meanwhile is written in one piece.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import deque
from contextlib import suppress
from typing import cast

from extproc.http2 import Connection, DataCame, ErrorCode, Limits, RequestBegun, StreamReset, TrailersCame
from extproc.transport.call import Metadata, Receiver, Services, Status
from extproc.transport.lean.fields import RESPONSE, Head, HeadError, alone, read_head, trailers
from extproc.transport.lean.messages import PREFIX_SIZE, MessageError, MessageReader, prefix
from extproc.transport.turns import Turns

log = logging.getLogger(__name__)

_UNSENT = 64 * 1024
"""Bytes that a client may leave untaken before it is listened to no more."""
_LARGE = 1024 * 1024
"""Bytes of a message that isn't copied to stand behind its prefix."""
_SILENT = 10.0
"""Seconds that a client has to begin."""
_LINGER = 5.0
"""Seconds that a connection has to write its last word, before it is cut."""
_END = None
"""What stands in a call's inbox for the client's end."""


class ClientConnection(asyncio.Protocol):
    """Made for each connection that is accepted."""

    def __init__(
        self,
        services: Services,
        largest: int,
        turns: Turns,
        connections: Connections,
        limits: Limits = Limits(),  # noqa: B008  # frozen
    ) -> None:
        """`connections`: where this one is found while it lasts."""
        self.turns = turns
        self.http2 = Connection(limits)
        self.peer = ""
        self.paused = False
        """The client takes nothing at the moment."""
        self.stalled = dict[LeanCall, None]()
        """Calls whose client leaves too much untaken."""
        self._services = services
        self._largest = largest
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, LeanCall] = {}
        self._transport: asyncio.Transport
        self._reading = False
        self._flush_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._last_timer: asyncio.TimerHandle | None = None

    # What asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer = _peer(transport.get_extra_info("peername"))
        self._connections.add(self)
        self._timer = self._loop.call_later(_SILENT, self._too_silent)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._reading = True
        clock = self.turns.clock
        try:
            for event in self.http2.receive(data, self._loop.time()):
                match event:
                    case DataCame(stream_id, piece, ended):
                        if (call := self._calls.get(stream_id)) is not None:
                            begun = clock()
                            call.came(piece, ended=ended)
                            self.turns.spent(clock() - begun)
                    case RequestBegun(stream_id, fields, ended):
                        self._begin(stream_id, fields, ended=ended)
                    case StreamReset(stream_id):
                        if (call := self._calls.get(stream_id)) is not None:
                            call.lost()
                    case TrailersCame(stream_id):
                        if (call := self._calls.get(stream_id)) is not None:
                            call.came(b"", ended=True)
        finally:
            self._reading = False
            self._flush()
        if self.http2.fault is not None:
            log.warning("a connection from %s is ended: %s", self.peer, self.http2.fault)

    def pause_writing(self) -> None:
        self.paused = True
        self._transport.pause_reading()  # what is said wants answers, which could only be kept

    def resume_writing(self) -> None:
        self.paused = False
        self._transport.resume_reading()
        self._flush()

    def eof_received(self) -> bool:
        self._linger()  # asyncio closes only when all is written, which may be never
        return False

    def connection_lost(self, _: Exception | None) -> None:
        self._connections.discard(self)
        for timer in (self._timer, self._last_timer):
            if timer is not None:
                timer.cancel()
        self.http2.close()
        for call in list(self._calls.values()):
            call.lost()

    @property
    def calls(self) -> int:
        """How many are open."""
        return len(self._calls)

    @property
    def unsent(self) -> int:
        """Bytes that the client hasn't taken."""
        return self.http2.all_unsent + self._transport.get_write_buffer_size()

    # What the server wants

    def shut_down(self) -> None:
        """Have the client open no more calls here."""
        self.http2.shut_down()
        self._flush()

    def close(self) -> None:
        """End the connection, with all calls."""
        for call in list(self._calls.values()):
            call.finish(Status.UNAVAILABLE, "the server is stopping")
        self.http2.close()
        self._flush()

    # Calls

    def _begin(self, stream_id: int, fields: list[tuple[bytes, bytes]], *, ended: bool) -> None:
        try:
            head = read_head(fields)
            method = self._services.get(head.path)
            if method is None:
                raise HeadError(alone(Status.UNIMPLEMENTED, "there is no such method here"))
        except HeadError as error:
            self.http2.respond(stream_id, error.block, end=True)
            return
        call = LeanCall(self, stream_id, head, self._largest)
        self._calls[stream_id] = call
        try:
            call.begin(method(call))
        except Exception as bug:
            _tell(bug)
            call.finish(Status.INTERNAL, "internal error")
            return
        if ended:
            call.came(b"", ended=True)

    def over(self, stream_id: int) -> None:
        """A call has ended."""
        self._calls.pop(stream_id, None)

    # What is written

    def write_soon(self) -> None:
        """Something was said."""
        if not (self._reading or self._flush_due):
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        http2 = self.http2
        while not self.paused and (data := http2.output()):
            self._transport.write(data)
        if http2.closed:
            if not (http2.has_output or self._transport.is_closing()):
                self._transport.close()
            self._linger()
        if self.stalled and not self.paused:
            for call in list(self.stalled):
                call.go_on()

    def _linger(self) -> None:
        if self._last_timer is None:
            self._last_timer = self._loop.call_later(_LINGER, self._transport.abort)

    def _too_silent(self) -> None:
        self._timer = None
        self._transport.abort()


class Connections:
    """Those of one server."""

    def __init__(self) -> None:
        self._all = set[ClientConnection]()
        self._none = asyncio.Event()
        self._none.set()

    def add(self, connection: ClientConnection) -> None:
        """It has come."""
        self._all.add(connection)
        self._none.clear()

    def discard(self, connection: ClientConnection) -> None:
        """It has gone."""
        self._all.discard(connection)
        if not self._all:
            self._none.set()

    def load(self) -> tuple[int, int, int]:
        """How many there are, with how many calls that are open, and how many bytes that clients haven't taken."""
        calls = sum(connection.calls for connection in self._all)
        return len(self._all), calls, sum(connection.unsent for connection in self._all)

    async def end(self, seconds: float) -> None:
        """Of all: they are asked to go, and have so long for it: a call may be on its way. Then they are cut."""
        for connection in list(self._all):
            connection.shut_down()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._none.wait(), seconds)
        for connection in list(self._all):
            connection.close()


class LeanCall:
    """One call. See `transport.Call`."""

    __slots__ = (
        "_begun",
        "_connection",
        "_deadline",
        "_due",
        "_held",
        "_id",
        "_inbox",
        "_over",
        "_reader",
        "_receiver",
        "metadata",
    )

    def __init__(self, connection: ClientConnection, stream_id: int, head: Head, largest: int) -> None:
        self.metadata: Metadata = head.metadata
        self._connection = connection
        self._id = stream_id
        self._reader = MessageReader(largest)
        self._receiver: Receiver | None = None
        self._inbox: deque[bytes | bytearray | None] = deque()
        self._held = self._due = self._begun = self._over = False
        self._deadline: asyncio.TimerHandle | None = None
        if head.timeout is not None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(
                head.timeout, self.finish, Status.DEADLINE_EXCEEDED, "the client's time is up"
            )

    @property
    def peer(self) -> str:
        return self._connection.peer

    # What comes

    def begin(self, receiver: Receiver) -> None:
        """With who is told of it."""
        self._receiver = receiver
        if self._over:  # it was ended before it could be told
            self._receiver = None
            receiver.closed()

    def came(self, data: bytes, *, ended: bool) -> None:
        """A part of what the client says."""
        if self._over:
            return
        http2 = self._connection.http2
        try:
            messages = self._reader.feed(data)
        except MessageError as error:
            self.finish(error.status, str(error))
            return
        if missing := self._reader.missing:
            http2.expect(self._id, missing)
        for message in messages:
            if self._inbox or self._due or not self._listens or not self._connection.turns.free:
                self._inbox.append(message)
            else:
                self._deliver(message)
        if ended:
            if self._reader.amid:
                self.finish(Status.INTERNAL, "the last message isn't whole")
            elif self._inbox or self._due or not self._listens:
                self._inbox.append(_END)
            else:
                self._deliver(_END)
        if self._inbox:
            self.go_on()

    @property
    def _listens(self) -> bool:
        connection = self._connection
        return not (self._held or connection.paused or connection.http2.unsent(self._id) > _UNSENT)

    def go_on(self) -> None:
        """Deliver what waits, in turn, if it may be."""
        if self._over or self._due or not self._inbox:
            self._connection.stalled.pop(self, None)
        elif self._listens:
            self._connection.stalled.pop(self, None)
            self._due = True
            self._connection.turns.later(self._deliver_next)
        elif not self._held:
            self._connection.stalled[self] = None

    def _deliver_next(self) -> None:
        self._due = False
        if self._inbox and self._listens and not self._over:
            self._deliver(self._inbox.popleft())
            self._connection.write_soon()
        self.go_on()

    def _deliver(self, message: bytes | bytearray | None) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        try:
            if message is _END:
                receiver.half_closed()
            else:
                assert message is not None  # it isn't the end
                size = len(message)
                receiver.received(cast(bytes, message))
                self._connection.http2.consumed(self._id, size + PREFIX_SIZE)
        except Exception as bug:
            _tell(bug)
            self.finish(Status.INTERNAL, "internal error")

    def lost(self) -> None:
        """The client has gone, or given up."""
        self._end()

    # What the service says

    def send(self, message: bytes) -> None:
        if self._over:
            return
        http2 = self._connection.http2
        if not self._begun:
            self._begun = True
            http2.respond(self._id, RESPONSE)
        size = len(message)
        if size < _LARGE:
            http2.send(self._id, prefix(size) + message)
        else:
            http2.send(self._id, prefix(size))
            http2.send(self._id, message)
        self._connection.write_soon()

    def finish(self, status: Status = Status.OK, message: str = "") -> None:
        if self._over:
            return
        http2 = self._connection.http2
        if self._begun:
            http2.end(self._id, trailers(status, message))
        else:
            http2.respond(self._id, alone(status, message), end=True)
        if status is Status.CANCELLED:
            http2.reset(self._id, ErrorCode.CANCEL)
        self._connection.write_soon()
        self._end()

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        self._held = False
        self.go_on()

    def _end(self) -> None:
        if self._over:
            return
        self._over = True
        self._inbox.clear()
        self._connection.stalled.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._connection.over(self._id)
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            try:
                receiver.closed()
            except Exception as bug:  # which is none of the others' on this connection
                _tell(bug)


def _tell(bug: Exception) -> None:
    # The text of an exception can quote a request; its type and its place can't.
    log.error("bug: %s\n%s", type(bug).__name__, "".join(traceback.format_tb(bug.__traceback__)))


def _peer(name: object) -> str:
    """As gRPC writes it."""
    match name:
        case (str(host), int(port), *_) if ":" in host:
            return f"ipv6:[{host}]:{port}"
        case (str(host), int(port)):
            return f"ipv4:{host}:{port}"
        case _:
            return "unix:"

"""What a server says, and when it may: answers, their queues, the windows of both (RFC 9113, sections 5.2 and 6.9).

What the peer has room for goes out at once; the rest waits in its stream, and streams wait for the connection's window
in turn. What goes out is kept until `output` takes it.
"""

from __future__ import annotations

from collections import OrderedDict

from extproc.http2 import frames
from extproc.http2.errors import ConnectionFault, ErrorCode
from extproc.http2.frames import END_HEADERS, END_STREAM, HEAD, HEAD_SIZE, LARGEST_WINDOW
from extproc.http2.header_fields import NO_TABLE
from extproc.http2.limits import Limits
from extproc.http2.stream import Stream

OUTPUT = 256 * 1024
"""Bytes that one call of `output` gives at most, but for a frame's size: what a socket takes at once."""
LARGEST_SENT = 65_536
"""Bytes of a DATA frame: a peer that takes larger ones still has its streams served in turn."""
_REMEMBERED = 1024
"""Streams that were reset by us, of which frames may still be on their way (RFC 9113, section 5.1, closed)."""


class Sender:
    """The half of a connection that speaks. It has the table of streams, which `Connection` opens. One class is made of
    the other because a call between them would be felt with every token."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._half_window = limits.stream_window // 2
        self._streams: dict[int, Stream] = {}
        self._reset: dict[int, int] = {}  # what data may still be on its way
        self._send_window = frames.DEFAULT_WINDOW
        self._initial_window = frames.DEFAULT_WINDOW
        self._frame_size = frames.SMALLEST_FRAME_SIZE
        self._table_note = NO_TABLE  # in front of the first header block
        self._waiting: OrderedDict[int, Stream] = OrderedDict()  # with data that their windows have room for
        self._out: list[bytes | memoryview] = []
        self._out_size = 0

    # What others want to know

    @property
    def streams(self) -> int:
        """How many are open."""
        return len(self._streams)

    @property
    def has_output(self) -> bool:
        """Whether `output` has something to give."""
        return bool(self._out) or (bool(self._waiting) and self._send_window > 0)

    def unsent(self, stream_id: int) -> int:
        """Bytes of a stream that wait for the peer's room, or to be taken by `output`."""
        stream = self._streams.get(stream_id)
        return stream.queued if stream is not None else 0

    @property
    def all_unsent(self) -> int:
        """The same of all streams, and what waits to be taken by `output`."""
        return self._out_size + sum(stream.queued for stream in self._streams.values())

    # What the server says

    def respond(self, stream_id: int, block: bytes, *, end: bool = False) -> None:
        """The answer's header section (`header_fields.written`), which may be all of it."""
        if (stream := self._streams.get(stream_id)) is None:
            return
        stream.spoken = True
        self._put_block(END_STREAM if end else 0, stream_id, block)
        if end:
            self._ended(stream)

    def send(self, stream_id: int, data: bytes) -> None:
        """A part of the answer's body, behind its header section."""
        if (stream := self._streams.get(stream_id)) is None:
            return
        size = len(data)
        if (
            size <= stream.send_window
            and size <= self._send_window
            and size <= self._frame_size
            and self._out_size + size <= OUTPUT
            and not self._waiting  # nobody overtakes
            and not stream.queue
        ):
            stream.send_window -= size
            self._send_window -= size
            self._out.append(HEAD.pack(size >> 8, size & 0xFF, frames.DATA, 0, stream_id) + data)
            self._out_size += HEAD_SIZE + size
            return
        if not size:
            return
        if not stream.queue and stream.send_window > 0:
            self._waiting[stream_id] = stream
        stream.queue.append(memoryview(data))
        stream.queued += size

    def end(self, stream_id: int, block: bytes) -> None:
        """The answer's trailers, behind all of its body."""
        if (stream := self._streams.get(stream_id)) is None:
            return
        if stream.queue:
            stream.trailers = block
        else:
            self._put_end(stream, block)

    def _put_end(self, stream: Stream, block: bytes) -> None:
        self._put_block(END_STREAM, stream.id, block)
        self._ended(stream)

    def _put_block(self, flags: int, stream_id: int, block: bytes) -> None:
        if self._table_note:
            block, self._table_note = self._table_note + block, b""
        kind, most = frames.HEADERS, self._frame_size
        while len(block) > most:
            self._put(frames.frame(kind, flags, stream_id, block[:most]))
            kind, flags, block = frames.CONTINUATION, 0, block[most:]
        self._put(frames.frame(kind, flags | END_HEADERS, stream_id, block))

    def _ended(self, stream: Stream) -> None:
        del self._streams[stream.id]
        if not stream.remote_ended:  # the answer is whole: what else the peer has to say, nobody needs
            self._put_reset(stream.id, ErrorCode.NO_ERROR, stream)

    def reset(self, stream_id: int, code: ErrorCode) -> None:
        """End the stream at once; what it has unsent is dropped."""
        if (stream := self._take_out(stream_id)) is not None:
            self._put_reset(stream_id, code, stream)

    def _take_out(self, stream_id: int) -> Stream | None:
        """What it has unsent goes with it."""
        self._waiting.pop(stream_id, None)
        return self._streams.pop(stream_id, None)

    def _put_reset(self, stream_id: int, code: ErrorCode, stream: Stream | None) -> None:
        self._put(frames.rst_stream(stream_id, code))
        usual = self._limits.stream_window
        self._reset[stream_id] = usual if stream is None else max(usual, stream.receive_window)
        if len(self._reset) > _REMEMBERED:
            del self._reset[next(iter(self._reset))]

    # Our windows

    def consumed(self, stream_id: int, size: int) -> None:
        """So many bytes of what came were dealt with: the peer may send as many more."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.remote_ended:
            return
        if stream.extra:
            spared = min(stream.extra, size)
            stream.extra -= spared
            size -= spared
        stream.consumed += size
        if stream.consumed >= self._half_window:
            self._grant(stream, stream.consumed)
            stream.consumed = 0

    def expect(self, stream_id: int, size: int) -> None:
        """So many bytes more have to come before any can be dealt with, however small the window is."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.remote_ended:
            return
        if (more := size - stream.receive_window) > 0:
            stream.extra += more
            self._grant(stream, more)

    def _grant(self, stream: Stream, size: int) -> None:
        stream.receive_window += size
        self._put(frames.window_update(stream.id, size))

    # The peer's windows

    def _set_initial_window(self, size: int) -> None:
        change, self._initial_window = size - self._initial_window, size
        for stream in self._streams.values():
            self._widen(stream, change)

    def _widen(self, stream: Stream, change: int) -> None:
        if stream.send_window + change > LARGEST_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE makes a window too large")
        was_stuck = stream.send_window <= 0
        stream.send_window += change
        if was_stuck and stream.send_window > 0 and stream.queue:
            self._waiting[stream.id] = stream

    # What goes out

    def output(self) -> bytes:
        """What is to be sent next, some OUTPUT bytes of it; empty when there is nothing, or no room."""
        waiting = self._waiting
        while waiting and self._send_window > 0 and self._out_size < OUTPUT:
            _, stream = waiting.popitem(last=False)  # each gets a frame in its turn
            if stream.send_window <= 0:  # by new SETTINGS
                continue
            piece = stream.next_piece(min(stream.send_window, self._send_window, self._frame_size))
            self._send_window -= len(piece)
            self._put(frames.head(frames.DATA, 0, stream.id, len(piece)))
            self._put(piece)
            if stream.queue:
                if stream.send_window > 0:
                    waiting[stream.id] = stream
            elif stream.trailers is not None:
                self._put_end(stream, stream.trailers)
        out = self._out
        data = out[0] if len(out) == 1 and isinstance(out[0], bytes) else b"".join(out)
        self._out, self._out_size = [], 0
        return data

    def _put(self, data: bytes | memoryview) -> None:
        self._out.append(data)
        self._out_size += len(data)

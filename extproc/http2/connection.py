"""One HTTP/2 connection from the server's side, without any I/O: bytes in, events out, and bytes to be sent (RFC 9113).

`receive` what comes, deal with the events, then send what `output` gives, until it gives nothing. What the server says
of its streams (`respond`, `send`, `end`, `reset`) is output too, as far as the peer has room for it; the rest follows
when it has. A peer that breaks a rule gets the error that the rule asks for: `receive` never raises. When `closed` is
set, nothing more is to be done than to send the last output and to close.

It is written for gRPC: no push, no priorities, no upgrade from HTTP/1.1.
"""

from __future__ import annotations

from collections.abc import Callable

from extproc.http2 import frames
from extproc.http2.errors import ConnectionFault, ErrorCode, StreamFault
from extproc.http2.events import DataCame, Event, Fields, RequestBegun, StreamReset, TrailersCame
from extproc.http2.frames import ACK, END_HEADERS, END_STREAM, HEAD, HEAD_SIZE, ID_MASK, LARGEST_WINDOW, PADDED
from extproc.http2.header_fields import HeaderBlock, HeaderReader, content_length, request_fault, trailers_fault
from extproc.http2.limits import Budget, Limits
from extproc.http2.sender import LARGEST_SENT, Sender
from extproc.http2.stream import Stream

_DRAIN = b"draining"
"""What the ping carries whose answer shows that the peer has seen a graceful end coming."""


class Connection(Sender):
    """Of one peer. Its methods want stream ids that an event has told, and do nothing for streams that are over."""

    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008  # frozen
        super().__init__(limits)
        self.closed = False
        """Nothing more is read."""
        self.fault: ConnectionFault | None = None
        """What the peer did that ended the connection."""
        self._rest = frames.PREFACE[:0]
        self._begun = self._settled = False  # the preface has come; the peer's settings have
        self._headers = HeaderReader(limits)
        self._block: HeaderBlock | None = None
        self._last = 0  # the highest stream that the peer has opened
        self._without_gap = 1  # from this one up to the last, the peer has opened all
        self._draining = self._drained = False  # the peer was told to open no streams; none are taken any more
        self._fruitless = Budget(limits.fruitless, limits.fruitless_per_second)
        self._unanswered = Budget(limits.unanswered_resets, limits.unanswered_resets_per_second)
        self._window_updates = Budget(limits.window_updates, limits.window_updates_per_second)
        self._receive_window = limits.connection_window
        self._owed, self._most_owed = 0, limits.connection_window // 4
        self._now = 0.0
        self._events: list[Event] = []
        self._put(
            frames.settings(
                {
                    frames.MAX_CONCURRENT_STREAMS: limits.concurrent_streams,
                    frames.INITIAL_WINDOW_SIZE: limits.stream_window,
                    frames.MAX_FRAME_SIZE: limits.frame_size,
                    frames.MAX_HEADER_LIST_SIZE: limits.header_list_size,
                }
            )
        )
        if (more := limits.connection_window - frames.DEFAULT_WINDOW) > 0:
            self._put(frames.window_update(0, more))

    # What comes

    def receive(self, data: bytes, now: float) -> list[Event]:
        """What the peer has sent, in any cut; `now` is the time in seconds, from any beginning."""
        if self.closed:
            return []
        self._now = now
        try:
            self._read(self._rest + data if self._rest else data)
        except ConnectionFault as fault:
            self._break_off(fault)
        events, self._events = self._events, []
        return events

    def _read(self, data: bytes) -> None:
        at, end = 0, len(data)
        if not self._begun:
            if not frames.PREFACE.startswith(data[: len(frames.PREFACE)]):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "this isn't HTTP/2: its preface is missing")
            if end < len(frames.PREFACE):
                self._rest = data
                return
            at, self._begun = len(frames.PREFACE), True
        largest = self._limits.frame_size
        while end - at >= HEAD_SIZE:
            upper, lower, kind, flags, stream_id = HEAD.unpack_from(data, at)
            length = upper << 8 | lower
            if length > largest:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a frame is larger than {largest} bytes")
            if end - at - HEAD_SIZE < length:
                break
            start, at = at + HEAD_SIZE, at + HEAD_SIZE + length
            try:
                if kind == frames.DATA and self._settled and self._block is None:
                    self._data(flags, stream_id & ID_MASK, data[start:at])
                else:
                    self._frame(kind, flags, stream_id & ID_MASK, data[start:at])
            except StreamFault as fault:
                self._fail(fault)
        self._rest = data[at:]

    def _frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if not self._settled:
            if kind != frames.SETTINGS or flags & ACK:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame isn't SETTINGS")
            self._settled = True
        if self._block is not None and (kind != frames.CONTINUATION or stream_id != self._block.stream_id):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block is interrupted by another frame")
        if (read := _FRAMES.get(kind)) is not None:
            read(self, flags, stream_id, payload)
        else:  # of an extension that we don't know
            self._is_fruitless()

    def _is_fruitless(self, cost: float = 1) -> None:
        if not self._fruitless.spend(self._now, cost):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that come to nothing")

    # Data

    def _data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        if size > self._receive_window:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection's window has room for")
        self._receive_window -= size
        self._owed += size
        if self._owed > self._most_owed:
            self._put(frames.window_update(0, self._owed))
            self._receive_window += self._owed
            self._owed = 0
        stream = self._streams.get(stream_id)
        if stream is None or stream.remote_ended:
            self._data_too_late(stream_id, size, ended=bool(flags & END_STREAM))
            return
        if size > stream.receive_window:
            raise StreamFault(stream_id, ErrorCode.FLOW_CONTROL_ERROR, "more data than a stream's window has room for")
        stream.receive_window -= size
        if flags & PADDED:
            payload = frames.without_padding(payload)
            self.consumed(stream_id, size - len(payload))
        ended = bool(flags & END_STREAM)
        if not (payload or ended):
            self._is_fruitless()
            return
        stream.arrived += len(payload)
        if stream.announced is not None and (
            stream.arrived > stream.announced or (ended and stream.arrived < stream.announced)
        ):
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "the body isn't as long as announced")
        self._events.append(DataCame(stream_id, payload, ended))
        if ended:
            stream.remote_ended = True

    def _data_too_late(self, stream_id: int, size: int, *, ended: bool) -> None:
        if not self._was_opened(stream_id):
            return
        if (room := self._reset.get(stream_id)) is None:
            raise StreamFault(stream_id, ErrorCode.STREAM_CLOSED, "data behind the end of its stream")
        if size and size > room:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more data than a stream's window had room for")
        if ended and room >= 0:
            self._reset[stream_id] = -1  # its end has met ours on the way: that comes once, and costs nothing
            return
        if not size:
            self._is_fruitless()
            return
        self._reset[stream_id] = room - size

    def _was_opened(self, stream_id: int) -> bool:
        """False for one that came too late to be. Raises ConnectionFault for one that the peer never opened."""
        if stream_id == 0 or not stream_id & 1 or (stream_id > self._last and not self._drained):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame is for a stream that was never opened")
        if stream_id > self._last:
            self._is_fruitless()
            return False
        return True

    # Header sections

    def _header_frame(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client opens streams of odd numbers")
        if flags & PADDED:
            payload = frames.without_padding(payload)
        if flags & frames.HAS_PRIORITY:
            if len(payload) < 5:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a HEADERS frame is too short for its priority")
            depends_on = frames.number(payload) & ID_MASK
            payload = payload[5:]
            if depends_on == stream_id:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")
        self._block = HeaderBlock(stream_id, self._limits, ended=bool(flags & END_STREAM))
        self._block_piece(flags, payload)

    def _continuation(self, flags: int, _: int, payload: bytes) -> None:
        if self._block is None:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a CONTINUATION frame continues nothing")
        self._block_piece(flags, payload)

    def _block_piece(self, flags: int, payload: bytes) -> None:
        block = self._block
        assert block is not None  # whoever calls has made sure
        block.add(payload)
        if flags & END_HEADERS:
            self._block = None
            fields = self._headers.read(b"".join(block.pieces))
            if (stream := self._streams.get(block.stream_id)) is not None:
                self._trailers(stream, fields, ended=block.ended)
            else:
                self._request(block.stream_id, fields, ended=block.ended)

    def _trailers(self, stream: Stream, fields: Fields, *, ended: bool) -> None:
        if stream.remote_ended:
            raise StreamFault(stream.id, ErrorCode.STREAM_CLOSED, "fields behind the end of their stream")
        if not ended:
            raise StreamFault(stream.id, ErrorCode.PROTOCOL_ERROR, "a second header section doesn't end its stream")
        if rule := trailers_fault(fields):
            raise StreamFault(stream.id, ErrorCode.PROTOCOL_ERROR, rule)
        if stream.announced is not None and stream.arrived < stream.announced:
            raise StreamFault(stream.id, ErrorCode.PROTOCOL_ERROR, "the body isn't as long as announced")
        self._events.append(TrailersCame(stream.id))
        stream.remote_ended = True

    def _request(self, stream_id: int, fields: Fields, *, ended: bool) -> None:
        if stream_id <= self._last:
            if stream_id in self._reset:
                self._is_fruitless()
                return
            if stream_id < self._without_gap:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a stream's number is lower than the last")
            raise ConnectionFault(ErrorCode.STREAM_CLOSED, "fields for a stream that is closed")
        if self._drained:  # the peer has been told
            self._is_fruitless()
            return
        if stream_id > self._last + 2:
            self._without_gap = stream_id
        self._last = stream_id
        if len(self._streams) >= self._limits.concurrent_streams:
            raise StreamFault(stream_id, ErrorCode.REFUSED_STREAM, "too many streams at a time")
        if rule := request_fault(fields):
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, rule)
        stream = Stream(stream_id, self._limits.stream_window, self._initial_window)
        try:
            stream.announced = content_length(fields)
        except ValueError:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "content-length is no length") from None
        if ended and stream.announced:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "the body isn't as long as announced")
        stream.remote_ended = ended
        self._streams[stream_id] = stream
        self._events.append(RequestBegun(stream_id, fields, ended))

    # The other frames

    def _priority(self, _: int, stream_id: int, payload: bytes) -> None:
        if stream_id == 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PRIORITY of no stream")
        if len(payload) != 5:
            code, rule = ErrorCode.FRAME_SIZE_ERROR, "a PRIORITY frame has 5 bytes"
        elif frames.number(payload) & ID_MASK == stream_id:
            code, rule = ErrorCode.PROTOCOL_ERROR, "a stream depends on itself"
        else:
            self._is_fruitless()
            return
        if stream_id in self._streams:
            raise StreamFault(stream_id, code, rule)
        raise ConnectionFault(code, rule)  # a stream that isn't open yet must not be reset

    def _rst_stream(self, _: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a RST_STREAM frame has 4 bytes")
        if (stream := self._take_out(stream_id)) is None:
            if self._was_opened(stream_id) and self._reset.pop(stream_id, None) is None:
                self._is_fruitless()  # where both sides end a stream at a time, that is no wonder
            return
        if not stream.spoken and not self._unanswered.spend(self._now):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many streams are opened and reset")
        self._events.append(StreamReset(stream_id, frames.number(payload)))

    def _settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "SETTINGS of a stream")
        if flags & ACK:
            if payload:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS has no payload")
            self._is_fruitless()
            return
        if len(payload) % 6:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a setting has 6 bytes")
        if len(payload) > 6 * self._limits.settings:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many settings at a time")
        self._is_fruitless()
        for name, value in frames.settings_in(payload):
            self._setting(name, value)
        self._put(frames.frame(frames.SETTINGS, ACK, 0))

    def _setting(self, name: int, value: int) -> None:
        match name:
            case frames.ENABLE_PUSH if value > 1:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is neither 0 nor 1")
            case frames.INITIAL_WINDOW_SIZE:
                if value > LARGEST_WINDOW:
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is too large")
                if value != self._initial_window:
                    self._is_fruitless(len(self._streams) / 100)  # each of which has to be told
                    self._set_initial_window(value)
            case frames.MAX_FRAME_SIZE:
                if not frames.SMALLEST_FRAME_SIZE <= value <= frames.LARGEST_FRAME_SIZE:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of its range")
                self._frame_size = min(value, LARGEST_SENT)
            case _:  # what we send uses no table, pushes nothing, and has short header sections
                pass

    def _push_promise(self, _: int, __: int, ___: bytes) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client promises nothing")

    def _ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PING of a stream")
        if len(payload) != 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a PING frame has 8 bytes")
        self._is_fruitless()
        if not flags & ACK:
            self._put(frames.frame(frames.PING, ACK, 0, payload))
        elif payload == _DRAIN and self._draining and not self._drained:
            self._drained = True
            self._put(frames.goaway(self._last, ErrorCode.NO_ERROR))

    def _goaway(self, _: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "GOAWAY of a stream")
        if len(payload) < 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a GOAWAY frame has 8 bytes")
        self._is_fruitless()  # the peer opens no streams any more, and closes when they are over

    def _window_update(self, _: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a WINDOW_UPDATE frame has 4 bytes")
        if not self._window_updates.spend(self._now):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many windows that grow a little")
        increment = frames.number(payload) & ID_MASK
        if stream_id == 0:
            if increment == 0:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a window is to grow by nothing")
            if self._send_window + increment > LARGEST_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window grows too large")
            self._send_window += increment
            return
        if (stream := self._streams.get(stream_id)) is None:
            self._was_opened(stream_id)
            return
        if increment == 0:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "a window is to grow by nothing")
        if stream.send_window + increment > LARGEST_WINDOW:
            raise StreamFault(stream_id, ErrorCode.FLOW_CONTROL_ERROR, "a stream's window grows too large")
        self._widen(stream, increment)

    # Ends

    def _fail(self, fault: StreamFault) -> None:
        self._is_fruitless()
        stream = self._take_out(fault.stream_id)
        if stream is not None:
            self._events.append(StreamReset(fault.stream_id, fault.code))
        self._put_reset(fault.stream_id, fault.code, stream)

    def _break_off(self, fault: ConnectionFault) -> None:
        self.fault, self.closed = fault, True
        self._rest, self._block = b"", None
        self._streams.clear()
        self._waiting.clear()
        self._put(frames.goaway(self._last, fault.code, str(fault).encode()))

    def shut_down(self) -> None:
        """Tell the peer to open no more streams. Those that are on their way are still served: the last of them is
        known when the peer has answered a ping. What is open goes on."""
        if not (self.closed or self._draining):
            self._draining = True
            self._put(frames.goaway(LARGEST_WINDOW, ErrorCode.NO_ERROR))
            self._put(frames.frame(frames.PING, 0, 0, _DRAIN))

    def close(self, code: ErrorCode = ErrorCode.NO_ERROR) -> None:
        """End the connection, with all streams that are open."""
        if not self.closed:
            self._put(frames.goaway(self._last, code))
            self._streams.clear()
            self._waiting.clear()
            self.closed = True


_FRAMES: dict[int, Callable[[Connection, int, int, bytes], None]] = {
    frames.DATA: Connection._data,
    frames.HEADERS: Connection._header_frame,
    frames.PRIORITY: Connection._priority,
    frames.RST_STREAM: Connection._rst_stream,
    frames.SETTINGS: Connection._settings,
    frames.PUSH_PROMISE: Connection._push_promise,
    frames.PING: Connection._ping,
    frames.GOAWAY: Connection._goaway,
    frames.WINDOW_UPDATE: Connection._window_update,
    frames.CONTINUATION: Connection._continuation,
}

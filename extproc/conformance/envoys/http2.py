"""HTTP/2 on both sides of Envoy, by the library h2: where trailers are, and messages without any data."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

from extproc.conformance.envoys.wire import CHUNK, Pace, Seen
from extproc.conformance.host.settings import Headers, HttpMessage

_WINDOW = 1 << 24


class Peer:
    """One connection with one stream, from either side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, client: bool) -> None:
        self._reader, self._writer = reader, writer
        config = H2Configuration(client_side=client, header_encoding=None, validate_outbound_headers=False)
        self._connection = H2Connection(config)
        self._moved = asyncio.Event()
        self.seen = Seen()
        self.over = False
        self.stream = 1

    async def begin(self, data: bytes = b"") -> None:
        self._connection.initiate_connection()
        self._connection.increment_flow_control_window(_WINDOW)
        await self._flush()
        if data:
            await self._take(data)

    async def read(self) -> bool:
        """Take what comes next. False at the connection's end."""
        data = await self._reader.read(CHUNK)
        if not data:
            self.over = True
            self._moved.set()
            return False
        await self._take(data)
        return True

    async def send(self, message: HttpMessage, way: str, pace: Pace, *, head_only: bool) -> None:
        """`head_only` keeps the rest back."""
        trailers = message.trailers
        ends = not message.pieces and trailers is None
        fields = [(name.encode(), value) for name, value in message.headers]
        self._connection.send_headers(self.stream, fields, end_stream=ends)
        await self._flush()
        if head_only or ends:
            return
        if message.body:
            await pace.headers_sent(way)
        size, last = 0, len(message.pieces) - 1
        for at, piece in enumerate(message.pieces):
            if at and at == last and trailers is None:
                await pace.before_the_end(way)
            await self._data(piece, end=at == last and trailers is None)
            size += len(piece)
            await pace.piece_sent(way, size)
        if trailers is not None:
            await pace.before_the_end(way)
            named = [(name.encode(), value) for name, value in trailers]
            self._connection.send_headers(self.stream, named, end_stream=True)
            await self._flush()

    async def _data(self, piece: bytes, *, end: bool) -> None:
        while True:
            room = min(
                self._connection.local_flow_control_window(self.stream), self._connection.max_outbound_frame_size
            )
            part, piece = piece[:room], piece[room:]
            if part or (end and not piece):
                self._connection.send_data(self.stream, part, end_stream=end and not piece)
                await self._flush()
            if not piece or self.over:
                return
            if not room:
                self._moved.clear()
                await self._moved.wait()

    async def _take(self, data: bytes) -> None:
        seen = self.seen
        try:
            events = self._connection.receive_data(data)
        except ProtocolError:
            self.over = True
            events = []
        for event in events:
            match event:
                case RequestReceived() | ResponseReceived():
                    seen.began = True
                    seen.headers = _read(event.headers)
                    self.stream = event.stream_id
                case DataReceived():
                    seen.body += event.data
                    self._connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case TrailersReceived():
                    seen.trailers = _read(event.headers)
                case StreamEnded():
                    seen.whole = True
                case StreamReset() | ConnectionTerminated():
                    self.over = not seen.whole
        self._moved.set()
        await self._flush()

    async def _flush(self) -> None:
        data = self._connection.data_to_send()
        if data:
            self._writer.write(data)
            await self._writer.drain()


def _read(fields: object) -> Headers:
    assert isinstance(fields, list)
    return tuple((bytes(name).decode("latin-1"), bytes(value)) for name, value in fields)


async def ask(path: Path, request: HttpMessage, pace: Pace, patience: float, *, head_only: bool) -> Seen:
    """What comes of a request to the socket; `head_only` keeps all but its headers back."""
    reader, writer = await asyncio.open_unix_connection(path)
    peer = Peer(reader, writer, client=True)

    async def send() -> None:
        with contextlib.suppress(OSError, ProtocolError):  # answered before the end: the answer says it
            await peer.send(request, "request", pace, head_only=head_only)

    await peer.begin()
    sending = asyncio.create_task(send())
    try:
        while not peer.seen.whole and not peer.over:
            try:
                async with asyncio.timeout(patience):
                    await peer.read()
            except TimeoutError:
                if sending.done():
                    peer.seen.silent = True
                    break
    except OSError:
        pass
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()
    return peer.seen


async def answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, begin: bytes, seen: Seen, told: HttpMessage, pace: Pace
) -> None:
    """Read one request, which began with those bytes, and answer it."""
    peer = Peer(reader, writer, client=False)
    peer.seen = seen
    await peer.begin(begin)
    while not seen.whole and not (seen.began and pace.settings.early_response):
        if peer.over or not await peer.read():
            return
    sending = asyncio.create_task(peer.send(told, "response", pace, head_only=False))
    try:
        while not peer.over and await peer.read():
            pass
    finally:
        sending.cancel()
        with contextlib.suppress(ProtocolError, OSError):
            await asyncio.gather(sending, return_exceptions=True)

"""HTTP/1.1 on both sides of Envoy, by the library h11."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import h11

from extproc.conformance.envoys.wire import CHUNK, Pace, Seen
from extproc.conformance.host.settings import HttpMessage

_LARGEST_HEAD = 200_000
_BODILESS = (b"204", b"304")


async def ask(path: Path, request: HttpMessage, pace: Pace, patience: float, *, head_only: bool) -> Seen:
    """What comes of a request to the socket; `head_only` keeps its body back."""
    reader, writer = await asyncio.open_unix_connection(path)
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LARGEST_HEAD)
    sending = asyncio.create_task(_sent_request(connection, writer, request, pace, head_only=head_only))
    seen = Seen()
    try:
        while not seen.whole:
            event = await _event(connection, reader, patience, sending)
            if event is None or isinstance(event, h11.ConnectionClosed):
                break
            _note(seen, event)
    except TimeoutError:
        seen.silent = True
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()
    return seen


async def answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, begin: bytes, seen: Seen, told: HttpMessage, pace: Pace
) -> None:
    """Read one request, which began with those bytes, and answer it."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_LARGEST_HEAD)
    connection.receive_data(begin)
    while not seen.whole and not (seen.began and pace.settings.early_response):
        event = await _event(connection, reader, None, None)
        if event is None or isinstance(event, h11.ConnectionClosed):
            return
        _note(seen, event)
    status = told.first(":status") or b"200"
    fields = [(name, value) for name, value in told.headers if name != ":status"]
    bodiless = status in _BODILESS or seen.method == b"HEAD"
    if not bodiless and told.first("content-length") is None:
        fields.append(("transfer-encoding", b"chunked") if told.pieces else ("content-length", b"0"))
    head = h11.Response(status_code=int(status), headers=_fields(fields))
    if not told.body:
        await _write(connection, writer, head, h11.EndOfMessage())  # as servers do: both arrive at once
        return
    await _write(connection, writer, head)
    await _sent_body(connection, writer, told, "response", pace)


async def _sent_request(
    connection: h11.Connection, writer: asyncio.StreamWriter, request: HttpMessage, pace: Pace, *, head_only: bool
) -> None:
    names = {":authority": "host"}
    fields = [(names.get(name, name), value) for name, value in request.headers if name in names or name[0] != ":"]
    if request.pieces and request.first("content-length") is None:
        fields.append(("transfer-encoding", b"chunked"))
    method, target = request.first(":method") or b"POST", request.first(":path") or b"/"
    with contextlib.suppress(OSError):  # answered and closed before the end: the answer says it
        await _write(connection, writer, h11.Request(method=method, target=target, headers=_fields(fields)))
        if not head_only:
            await _sent_body(connection, writer, request, "request", pace)


async def _sent_body(
    connection: h11.Connection, writer: asyncio.StreamWriter, message: HttpMessage, way: str, pace: Pace
) -> None:
    await pace.headers_sent(way)
    size = 0
    for at, piece in enumerate(message.pieces):
        if at and at == len(message.pieces) - 1:
            await pace.before_the_end(way)
        await _write(connection, writer, h11.Data(data=piece))
        size += len(piece)
        await pace.piece_sent(way, size)
    await _write(connection, writer, h11.EndOfMessage())


def _fields(fields: list[tuple[str, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value) for name, value in fields]


async def _write(connection: h11.Connection, writer: asyncio.StreamWriter, *events: h11.Event) -> None:
    data = b"".join(connection.send(event) or b"" for event in events)
    if data:
        writer.write(data)
        await writer.drain()


async def _event(
    connection: h11.Connection,
    reader: asyncio.StreamReader,
    patience: float | None,
    sending: asyncio.Task[None] | None,
) -> object:
    """The next event, or None where the peer is gone, says nonsense, or nothing for so long after all was sent."""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return None
        if event is not h11.NEED_DATA:
            return None if event is h11.PAUSED else event
        try:
            async with asyncio.timeout(patience):
                data = await reader.read(CHUNK)
        except TimeoutError:
            if sending is not None and not sending.done():
                continue
            raise
        except OSError:
            return None
        connection.receive_data(data)


def _note(seen: Seen, event: object) -> None:
    match event:
        case h11.Request():
            seen.began = True
            names = {b"host": b":authority"}
            pseudo = [(":method", bytes(event.method)), (":path", bytes(event.target))]
            fields = [(names.get(name, name).decode("latin-1"), value) for name, value in event.headers]
            seen.headers = (*pseudo, *fields)
        case h11.Response():
            seen.began = True
            fields = [(name.decode("latin-1"), value) for name, value in event.headers]
            seen.headers = ((":status", str(event.status_code).encode()), *fields)
        case h11.Data():
            seen.body += bytes(event.data)
        case h11.EndOfMessage():
            seen.whole = True
            trailers = tuple((name.decode("latin-1"), value) for name, value in event.headers)
            seen.trailers = trailers or None

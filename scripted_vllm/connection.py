"""One TCP connection that speaks HTTP/1.1 as uvicorn does: h11 over asyncio streams.

It reads requests, asks for an `Answer` to each, and performs the answer's steps; it decides nothing itself. While it
performs, it watches whether the client is still there, also in silence: that is when real vLLM aborts a generation.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import h11

from scripted_vllm.script import Answer, HangUp, Header, Send, Step, Wait, whole

_READ = 65536

_HEADER_NAME = re.compile(rb"(?m)^[A-Za-z-]+(?=: )")


@dataclass(frozen=True, slots=True)
class Received:
    """One complete HTTP request."""

    method: str
    path: str
    """With the query, if there is one."""
    headers: tuple[Header, ...]
    """Names in lower case, in the order in which they came."""
    body: bytes

    @property
    def route(self) -> str:
        """The path without its query."""
        return self.path.partition("?")[0]

    @property
    def json(self) -> Any:
        """The body, parsed. Raises ValueError if it isn't JSON."""
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name.lower()), None)


class _ClientGoneError(ConnectionError):
    """The client closed its side in the middle of an exchange."""


class _HungUpError(Exception):
    """The script said to close the connection."""


class Connection:
    """Serves one connection until either side ends it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def serve(self, answer: Callable[[Received], Answer], ended: Callable[[Received, bool], None]) -> None:
        """Answer requests one after the other; `ended` learns of each whether its client stayed to the end."""
        while (request := await self._next_request()) is not None:
            stayed = True
            try:
                await self._perform(_without_body_for_head(request, answer(request)))
            except _HungUpError:
                return
            except ConnectionError:
                stayed = False
                return
            finally:
                ended(request, stayed)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def close(self) -> None:
        """Close after what was written is out."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):  # The client was faster.
            await self._writer.wait_closed()

    def abort(self) -> None:
        """Close at once."""
        self._writer.transport.abort()

    async def _next_request(self) -> Received | None:
        """The next request, or None when the client is done or has sent what is no HTTP."""
        try:
            return await self._read_request()
        except h11.RemoteProtocolError:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                with contextlib.suppress(ConnectionError):
                    await self._perform(_NOT_HTTP)
            return None
        except ConnectionError:
            return None

    async def _read_request(self) -> Received | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    self._write(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
                self._http.receive_data(await self._reader.read(_READ))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return Received(
                    method=head.method.decode("latin-1"),
                    path=head.target.decode("latin-1"),
                    headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers),
                    body=bytes(body),
                )
            else:  # ConnectionClosed
                return None

    async def _perform(self, answer: Answer) -> None:
        await self._steps(answer.before)
        headers = [("date", formatdate(usegmt=True)), ("server", "uvicorn"), *answer.headers, ("vary", "Origin")]
        reason = HTTPStatus(answer.status).phrase.encode()
        self._write(h11.Response(status_code=answer.status, headers=headers, reason=reason))
        await self._steps(answer.steps)
        self._write(h11.EndOfMessage())
        await self._writer.drain()

    async def _steps(self, steps: Iterable[Step]) -> None:
        for step in steps:
            match step:
                case Send(data):
                    self._write(h11.Data(data=data))
                    await self._writer.drain()
                    await self._pass(0)
                case Wait(seconds):
                    await self._pass(seconds)
                case HangUp():
                    raise _HungUpError

    def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data and isinstance(event, h11.Response):
            # h11 writes the framing headers that it adds with capitals; uvicorn has every name in lower case.
            data = _HEADER_NAME.sub(lambda name: name[0].lower(), data)
        if data:
            self._writer.write(data)

    async def _pass(self, seconds: float) -> None:
        """Let time pass, for other connections too. Raises _ClientGoneError when the client closes meanwhile."""
        if not seconds:
            await asyncio.sleep(0)
            if self._reader.at_eof():
                raise _ClientGoneError
            return
        try:
            async with asyncio.timeout(seconds):
                while data := await self._reader.read(_READ):
                    self._http.receive_data(data)  # An early next request; it will get its turn.
        except TimeoutError:
            return
        raise _ClientGoneError


_NOT_HTTP = whole(
    b"Invalid HTTP request received.",
    status=HTTPStatus.BAD_REQUEST,
    content_type="text/plain; charset=utf-8",
    headers=[("connection", "close")],
)


def _without_body_for_head(request: Received, answer: Answer) -> Answer:
    return replace(answer, steps=()) if request.method == "HEAD" else answer

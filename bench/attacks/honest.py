"""The honest clients, as a process: `python -m bench.attacks.honest SETTINGS`, which are a JSON object.

All the time, back to back:

    tools     20 streams with tools, half of them on connections that are kept, half on new ones
    plain     5 streams without tools
    direct    4 streams straight from the backend, past the gateway: what this process, the backend and the machine do
              to a token's time by themselves
    whole     two requests with tools a second, each on a connection of its own

It tells on stdout, as a JSON object a line, what comes to pass: `[time, kind, outcome]` at the end of each request, and
`[time, kind, late]` for each token, in seconds beyond the pace; `[time, "first", seconds]` is how long an answer's head
took. Times are those of the monotonic clock, which all
processes of a machine share. SIGTERM ends it; then come the gaps that were still open.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import ssl
import sys
import time
from dataclasses import dataclass
from typing import Any

import orjson

from bench.attacks.backends import HONEST, MODEL, PACE
from bench.request import request
from tests.attacks import http1

STREAMS, PLAIN, DIRECT, WHOLE = 20, 5, 4, 2
_TOOLS, _TURNS = 10, 4
_PATIENCE = 10.0
"""Seconds without a byte after which a client gives up."""
_RETRY = 0.25
_WHOLE_EACH = 1.0
OK, CUT, SILENT, FAULT, NO_END = "ok", "cut", "silent", "error event", "no end"
BROKEN_STREAM = {CUT, SILENT, FAULT, NO_END}
"""Outcomes of streams that had begun. All others but OK are requests that failed: a status, or what came instead."""
FIRST = "first"
"""The kind of the times from a request to the head of its answer."""


@dataclass(frozen=True, slots=True)
class Settings:
    port: int
    backend: int
    keys: list[str]
    """Each has its share of the clients; empty where nobody asks for keys."""
    authority: str | None = None
    """PEM file; with it the gateway speaks TLS."""


class BrokenError(Exception):
    """What a client saw instead of an answer."""

    def __init__(self, outcome: str) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class Client:
    """One after the other: ask, read, tell."""

    def __init__(self, log: Log, kind: str, port: int, head: bytes, body: bytes, *, keep: bool, tls: Any) -> None:
        self._log = log
        self._kind = kind
        self._port = port
        self._request = head + body
        self._keep = keep
        self._tls = tls
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def go_on(self, delay: float, pause: float = 0.0) -> None:
        await asyncio.sleep(delay)
        while True:
            begun = time.monotonic()
            outcome = await self._once()
            self._log.ended(self._kind, outcome)
            if outcome != OK or not self._keep:
                self._drop()
            await asyncio.sleep(_RETRY if outcome != OK else max(0.0, begun + pause - time.monotonic()))

    async def _once(self) -> str:
        try:
            reader, writer = await self._connect()
            writer.write(self._request)
            await self._answer(reader)
        except BrokenError as broken:
            return broken.outcome
        except (OSError, EOFError, asyncio.IncompleteReadError):
            return "closed"
        return OK

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._connection is None:
            opening = asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls)
            try:
                self._connection = await asyncio.wait_for(opening, _PATIENCE)
            except TimeoutError:
                raise BrokenError("no connection") from None
            except OSError:
                raise BrokenError("refused") from None
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection[1].transport.abort()
        self._connection = None

    async def _answer(self, reader: asyncio.StreamReader) -> None:
        asked = time.monotonic()
        try:
            head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _PATIENCE)).lower()
        except TimeoutError:
            raise BrokenError("no answer") from None
        self._log.first(time.monotonic() - asked)
        if (status := http1.status(head.upper())) != "200":
            raise BrokenError(status)
        if b"transfer-encoding: chunked" not in head:
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            return
        try:
            await self._chunks(reader, done=b"text/event-stream" not in head)
        except (OSError, EOFError, asyncio.IncompleteReadError):
            raise BrokenError(CUT) from None

    async def _chunks(self, reader: asyncio.StreamReader, *, done: bool) -> None:
        """Read a chunked body; unless `done`, it has to have a stream's last event."""
        last: float | None = None
        open_gap = self._log.open_gaps
        try:
            while True:
                size = int(await asyncio.wait_for(reader.readuntil(b"\r\n"), _PATIENCE), 16)
                chunk = (await reader.readexactly(size + 2))[:-2]
                if not size:
                    break
                now = time.monotonic()
                if b'"error"' in chunk:
                    raise BrokenError(FAULT)
                done = done or b"[DONE]" in chunk
                if b"word" in chunk:
                    if last is not None:
                        self._log.token(now, self._kind, now - last - PACE)
                    last = now
                    open_gap[id(self)] = (self._kind, now)
                else:  # The end comes without a pace.
                    open_gap.pop(id(self), None)
        except TimeoutError:
            raise BrokenError(SILENT) from None
        finally:
            if not done and last is not None:
                now = time.monotonic()
                self._log.token(now, self._kind, now - last - PACE)
            open_gap.pop(id(self), None)
        if not done:
            raise BrokenError(NO_END)


class Log:
    """What came to pass, on stdout."""

    def __init__(self) -> None:
        self.open_gaps: dict[int, tuple[str, float]] = {}
        self._closed = False

    def ended(self, kind: str, outcome: str) -> None:
        self._write([time.monotonic(), kind, outcome])

    def first(self, seconds: float) -> None:
        """The head of an answer came so long after its request."""
        self._write([round(time.monotonic(), 4), FIRST, round(seconds, 5)])

    def token(self, now: float, kind: str, late: float) -> None:
        self._write([round(now, 4), kind, round(late, 5)])

    def close(self) -> None:
        """Tell of the gaps that are still open, so that a stream that stands still at the end counts."""
        now = time.monotonic()
        for kind, since in list(self.open_gaps.values()):
            if now - since > PACE:
                self.token(now, kind, now - since - PACE)
        self._closed = True

    def _write(self, event: list[Any]) -> None:
        if self._closed:
            return  # What is cut off now is our own doing.
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()  # Who waits for the first ones reads along.


def bodies() -> dict[str, bytes]:
    """For each kind of client."""
    made = orjson.loads(request(_TOOLS, _TURNS))
    asks = {"role": "user", "content": HONEST}
    said = [*made["messages"], asks]
    without = {"model": "coder", "stream": True, "messages": [asks]}
    return {
        "tools": orjson.dumps({**made, "messages": said}),
        "plain": orjson.dumps(without),
        "direct": orjson.dumps({**without, "model": MODEL}),
        "whole": orjson.dumps({**made, "messages": said, "stream": False}),
    }


async def main(settings: Settings) -> None:
    tls = ssl.create_default_context(cafile=settings.authority) if settings.authority else None
    log, body = Log(), bodies()
    clients: list[tuple[str, Any]] = []
    counts = {"tools": STREAMS, "plain": PLAIN, "direct": DIRECT, "whole": WHOLE}
    for kind, count in counts.items():
        for number in range(count):
            key = settings.keys[number % len(settings.keys)] if settings.keys and kind != "direct" else None
            head = http1.head(length=len(body[kind]), key=key)
            port = settings.backend if kind == "direct" else settings.port
            keep = kind not in ("whole", "direct") and number % 2 == 0
            client = Client(log, kind, port, head, body[kind], keep=keep, tls=None if kind == "direct" else tls)
            pause = _WHOLE_EACH if kind == "whole" else 0.0
            clients.append((kind, client.go_on(delay=number * 0.1, pause=pause)))
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    tasks = [asyncio.create_task(work) for _, work in clients]
    await stopping.wait()
    log.close()
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main(Settings(**json.loads(sys.argv[1]))))

"""Streams: a client that reads many at once, counts their tokens, and tells how long each was under way.

It is no part of what is measured: the pace is the backend's, and processor time is read process by process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from bench.gateways.paced import PER_SECOND, STAMP, STAMPS, now

_PATIENCE = 15.0
_ENDING = 3.0


@dataclass(frozen=True, slots=True)
class Heard:
    """Of all streams together, in the seconds in which it was listened."""

    tokens: int
    delays: Sequence[float]
    """Milliseconds that each token was under way, in order of size."""

    def percentile(self, percent: float) -> float:
        """Milliseconds."""
        return self.delays[min(len(self.delays) - 1, int(len(self.delays) * percent / 100))]


def request(body: bytes) -> bytes:
    """A request for a chat completion, head and all."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
    return head + b"content-length: %d\r\n\r\n%b" % (len(body), body)


class Ear:
    """What all streams of a load have in common."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0
        self.listening = False
        self._delays: list[int] = []
        self._changed = asyncio.Event()

    def has_begun(self) -> None:
        """One more stream."""
        self.begun += 1
        self._changed.set()

    def has_ended(self) -> None:
        self.ended += 1
        self._changed.set()

    async def until(self, condition: Callable[[], object], seconds: float) -> None:
        """Wait until streams have begun or ended, no longer than that."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()

    def hear(self, data: bytes) -> None:
        if self.listening:
            moment = now()
            self._delays += [(moment - int(stamp)) % STAMPS for stamp in STAMP.findall(data)]

    def heard(self) -> Heard:
        delays = sorted(self._delays)
        return Heard(len(delays), [delay * 1000 / PER_SECOND for delay in delays])


class _Stream(asyncio.Protocol):
    def __init__(self, payload: bytes, ear: Ear) -> None:
        self._payload = payload
        self._ear = ear
        self._begun = self._ended = False
        self.said = b""
        """Its beginning."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(request(self._payload))

    def data_received(self, data: bytes) -> None:
        if not self._begun:
            self.said += data
            if b"~" in data:
                self._begun = True
                self._ear.has_begun()
        if data.endswith(b"0\r\n\r\n"):
            self._ended = True
            self._ear.has_ended()
        self._ear.hear(data)

    def connection_lost(self, _: Exception | None) -> None:
        if not self._ended:
            self._ear.has_ended()


@asynccontextmanager
async def running(port: int, bodies: Sequence[bytes], backend: int) -> AsyncIterator[Ear]:
    """So many streams, all of which have begun; they end with the block, at the backend too.

    Raises RuntimeError if one doesn't begin, or ends before.
    """
    loop, ear = asyncio.get_running_loop(), Ear()
    async with AsyncExitStack() as stack:
        made: list[_Stream] = []
        for body in bodies:
            transport, stream = await loop.create_connection(partial(_Stream, body, ear), "127.0.0.1", port)
            stack.callback(transport.abort)
            made.append(stream)
        try:
            await ear.until(lambda: ear.begun == len(made) or ear.ended, _PATIENCE)
            if ear.ended or ear.begun < len(made):
                silent = next((stream.said for stream in made if stream.said and b"~" not in stream.said), b"nothing")
                raise RuntimeError(f"{ear.begun} of {len(made)} streams have begun; one said {silent[:300]!r}")
            yield ear
            if ear.ended:
                raise RuntimeError(f"{ear.ended} of {len(made)} streams ended")
        finally:
            await end_all(backend)
            await ear.until(lambda: ear.ended == len(made), _ENDING)


async def end_all(backend: int) -> None:
    """A client that leaves doesn't end a stream behind every proxy, so the backend ends it."""
    await tell(backend, "/end")


async def tell(backend: int, path: str) -> None:
    """Tell the backend, past all gateways."""
    reader, writer = await asyncio.open_connection("127.0.0.1", backend)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def listened(ear: Ear, seconds: float, snapshot: Callable[[], None]) -> Heard:
    """Listen for so long; `snapshot` is called at the beginning and at the end of it."""
    snapshot()
    ear.listening = True
    await asyncio.sleep(seconds)
    ear.listening = False
    snapshot()
    return ear.heard()

"""A connection that is kept, and what a benchmark asks by it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson


class Connection:
    """One request after the other; all answers are streams."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def pieces(self, body: bytes) -> AsyncIterator[bytes]:
        """Ask, and give each piece of the answer as it comes."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-length: {len(body)}\r\n"
        writer.write(head.encode() + b"content-type: application/json\r\n\r\n" + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"the gateway refuses: {answer.decode()}{(await reader.read(2000)).decode()}")
        while size := int(await reader.readuntil(b"\r\n"), 16):
            yield (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)

    async def text(self, body: bytes) -> str:
        """What a whole answer says."""
        answer = b"".join([piece async for piece in self.pieces(body)])
        events = [line[6:] for line in answer.split(b"\n") if line.startswith(b"data: {")]
        choices = [choice for event in events for choice in orjson.loads(event).get("choices", ())]
        return "".join(choice["delta"].get("content") or "" for choice in choices)

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            with contextlib.suppress(OSError):
                await self._streams[1].wait_closed()


def asks(model: str, said: str, **fields: Any) -> bytes:
    """A request for a stream, by what its user says."""
    return orjson.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": said}], **fields})

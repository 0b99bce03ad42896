"""The backends: `python -m bench.attacks.backends vllm` is one process, `... raw` another. Prints ports as JSON.

    vllm    the scripted vLLM, for honest clients: paced streams
    quick   a whole answer at once, for floods: a backend must not be what a flood wears out
    fast    a stream as fast as the reader takes it, 256 MB long
    bomb    a stream of 100 MB, compressed with gzip to some 100 kB

All but the first are as small as they can be; only what they send is real. They have a process of their own, so that
what attackers ask for doesn't hold up the backend of the honest clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import zlib
from collections.abc import AsyncIterator, Callable
from functools import cache

from scripted_vllm import Reply, ScriptedVLLM
from scripted_vllm.checks import ChatRequest

PACE = 0.1
"""Seconds between two tokens of an honest stream."""
TOKENS = 60
HONEST = "Go on, in your own time."
"""The last message of honest requests for a stream."""
STALLING = "Take your time."
"""The last message of those who hold a stream of the honest clients' backend open: a token every ten seconds."""
MODEL = "honest"
FAST_BYTES = 256 * 1024 * 1024
BOMB_BYTES = 100 * 1024 * 1024
_EVENT = 16 * 1024
_CALL = '\n<tool_call>\n{"name": "tool_1", "arguments": {"text_0": "done", "mode": "write"}}\n</tool_call>'
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")

Behaviour = Callable[[bytes], AsyncIterator[bytes]]
"""Makes the pieces of an answer, its head included, out of a request's body."""


def speak(request: ChatRequest) -> Reply:
    """A stream at the pace of a model for those who ask like honest clients; everybody else gets a call at once.

    The call's text comes in one piece, because the gateway may hold it until it is whole: a gap between two tokens is
    then nobody's but the gateway's, or the machine's.
    """
    if request.stream and STALLING in str(request.messages[-1].get("content")):
        return Reply(pieces=[" word"] * 30, pace=10.0)
    if not request.stream or HONEST not in str(request.messages[-1].get("content")):
        return Reply(_CALL)
    words = [f" word{number}" for number in range(TOKENS)]
    return Reply(pieces=[*words, _CALL] if _offers_tools(request) else words, pace=PACE)


def _offers_tools(request: ChatRequest) -> bool:
    return bool(request.tools) or any("tool_1" in str(message.get("content")) for message in request.messages[:1])


def event(content: str) -> bytes:
    """One chunk of a stream, as vLLM writes it."""
    choice = {"index": 0, "delta": {"content": content}, "logprobs": None, "finish_reason": None}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _head(content_type: str, *more: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"content-type: {content_type}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


_STREAM = _head("text/event-stream; charset=utf-8", "connection: close")


async def quick(_: bytes) -> AsyncIterator[bytes]:
    message = {"role": "assistant", "content": "Hello!"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    completion = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    body = json.dumps({**completion, "choices": [choice], "usage": usage}).encode()
    yield _head("application/json", f"content-length: {len(body)}") + body


async def fast(_: bytes) -> AsyncIterator[bytes]:
    yield _STREAM
    piece = event(" word" * (_EVENT // 5))
    for _number in range(FAST_BYTES // len(piece)):
        yield piece
    yield b"data: [DONE]\n\n"


@cache
def _bomb() -> bytes:
    packer = zlib.compressobj(6, wbits=31)
    piece = event("a" * (1 << 20))
    packed = [packer.compress(piece) for _ in range(BOMB_BYTES // len(piece))]
    packed.append(packer.compress(b"data: [DONE]\n\n") + packer.flush())
    return b"".join(packed)


async def bomb(_: bytes) -> AsyncIterator[bytes]:
    yield _STREAM[:-2] + b"content-encoding: gzip\r\n\r\n"
    yield _bomb()


class Raw:
    """A server of one behaviour; `GET` is answered with a list of models."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1])) if length else b""
                if head.startswith(b"GET"):
                    listed = json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode()
                    writer.write(_head("application/json", f"content-length: {len(listed)}") + listed)
                    await writer.drain()
                    continue
                closes = True
                async for piece in self._behaviour(body):
                    closes = closes and b"content-length" not in piece
                    writer.write(piece)
                    await writer.drain()
                if closes:
                    break
        writer.close()


async def main(which: str) -> None:
    async with contextlib.AsyncExitStack() as running:
        ports = {}
        if which == "vllm":
            vllm = await running.enter_async_context(ScriptedVLLM(MODEL, 10**9, speak=speak))
            ports[which] = vllm.port
        else:
            _bomb()  # Made beforehand: it takes a second.
            for name, behaviour in {"quick": quick, "fast": fast, "bomb": bomb}.items():
                server = await asyncio.start_server(Raw(behaviour).serve, "127.0.0.1", 0, backlog=1024)
                ports[name] = server.sockets[0].getsockname()[1]
        print(json.dumps(ports), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

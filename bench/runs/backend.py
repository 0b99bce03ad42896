"""The played model, as a process: `python -m bench.runs.backend` prints its port.

It is as small as it can be, for it shares the machine with what is measured. The last message tells what it says:

    "Call NAME {...}"  a call of this tool
    "Say N words"      so many words, one every 20 ms
    "at=NANOSECONDS"   how many nanoseconds ago that was when the request had come in, whole
    anything else      the same: results of tools come back to whoever asked
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import time
from collections.abc import Iterator

PACE = 0.02
"""Seconds between two words."""
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_CALL = re.compile(r"^Call (\w+) (.*)$")
_SAY = re.compile(r"^Say (\d+) words$")
_AT = re.compile(r"at=(\d{20})")
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_MODELS = json.dumps({"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 100_000}]}).encode()
_USAGE = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}


def _event(**fields: object) -> bytes:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", **fields}
    return _chunk(b"data: " + json.dumps(chunk).encode() + b"\n\n")


def _said(reason: str | None = None, **delta: str) -> bytes:
    return _event(choices=[{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}])


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_FIRST, _LAST = _said(role="assistant", content=""), _said("stop")
_END = _event(choices=[], usage=_USAGE) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
_WORD = _said(content=" word")


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, EOFError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1])) if length else b""
            came = time.monotonic_ns()
            if head.startswith(b"GET"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
                writer.write(b"content-length: %d\r\n\r\n%b" % (len(_MODELS), _MODELS))
                continue
            said = _last(body)
            if found := _SAY.match(said):
                await _words(writer, int(found[1]))
            else:
                writer.write(_HEAD + _FIRST + b"".join(_answer(said, came)) + _LAST + _END)
    writer.close()


def _last(body: bytes) -> str:
    content = json.loads(body)["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _answer(said: str, came: int) -> Iterator[bytes]:
    if found := _CALL.match(said):
        call = json.dumps({"name": found[1], "arguments": json.loads(found[2])})
        yield _said(content=f"<tool_call>\n{call}\n</tool_call>")
    elif found := _AT.search(said):
        yield _said(content=str(came - int(found[1])))
    else:
        yield _said(content=said)


async def _words(writer: asyncio.StreamWriter, number: int) -> None:
    """By the clock, so that one that is late doesn't delay those behind it."""
    loop = asyncio.get_running_loop()
    writer.write(_HEAD + _FIRST)
    began = loop.time()
    for word in range(number):
        await asyncio.sleep(began + word * PACE - loop.time())
        writer.write(_WORD)
        await writer.drain()
    writer.write(_LAST + _END)


async def main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

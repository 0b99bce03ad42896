"""The backend, a program of its own with nothing but the standard library, and uvloop where there is one.

It answers `POST` of anything. Whole answers come at once and are made beforehand. A stream (`"stream":true` in the
body) has a token every 1/45 s, or what somebody has asked for with /pace/N, until its client leaves or somebody asks
for /end, which ends all streams: there are proxies that read on when their clients are gone. A second of text and a
second of a call come by turns. Half of each token is the time at which it left, as `~` and six digits (0.1 ms of the
system's monotonic clock), so that a client can tell how long it was under way. All streams of a group share one
token's bytes, so that a token costs little more than a write.

There are two ports, for two kinds of model, and they are printed as one line of JSON: `native` has calls in
`tool_calls`, as vLLM's own parser would make them, `marked` has them in the text, in hermes' markup.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from functools import partial
from typing import Any, cast

PACE = 45
"""Tokens a second."""
GROUPS = 8
"""Of streams, whose tokens leave at different times."""
STAMP = re.compile(rb"~(\d{6})")
STAMPS = 1_000_000
PER_SECOND = 10_000
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_PACE = re.compile(rb"GET /pace/([\d.]+) ")
_STREAM = re.compile(rb'"stream": ?true')
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
_OPENING = '<tool_call>\n{"name": "tool_1", "arguments": {"mode": "write", "text_0": "'
_CLOSING = '"}}\n</tool_call>\n'
NEW_LINE = "\\n"
"""As it stands in the JSON of a call's arguments."""
_CODE = "    line = line.strip()\n" * 20
_SAID = "The file has to be written first. " * 10


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def now() -> int:
    """The stamp of this moment."""
    return int(time.monotonic() * PER_SECOND) % STAMPS


def event(delta: dict[str, Any], ended: str | None = None) -> bytes:
    """One event of a stream, as vLLM writes it, as a chunk of HTTP."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": ended, "token_ids": None}
    chunk = {"id": "chatcmpl-8a1bb3ef96544aac", "object": "chat.completion.chunk", "created": 1, "model": "coder"}
    data = b"data: " + _json(chunk | {"choices": [choice]}) + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


_DONE = b"data: [DONE]\n\n"
_STREAM_END = event({}, "length") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(_DONE), _DONE)


def whole(*, native: bool) -> bytes:
    """A whole answer with a call, head and all."""
    arguments = {"mode": "write", "text_0": _CODE}
    if native:
        function = {"name": "tool_1", "arguments": json.dumps(arguments)}
        calls = [{"id": "chatcmpl-tool-1", "type": "function", "function": function}]
        message: dict[str, Any] = {"role": "assistant", "content": _SAID, "tool_calls": calls}
    else:
        call = json.dumps({"name": "tool_1", "arguments": arguments})
        message = {"role": "assistant", "content": f"{_SAID}\n<tool_call>\n{call}\n</tool_call>", "tool_calls": []}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if native else "stop"}
    usage = {"prompt_tokens": 10000, "total_tokens": 10200, "completion_tokens": 200, "prompt_tokens_details": None}
    made = {"id": "chatcmpl-8a1bb3ef96544aac", "object": "chat.completion", "created": 1, "model": "coder"}
    body = _json(made | {"choices": [choice], "usage": usage})
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def token(native: bool, at: int, stamp: int) -> bytes:
    """The stream's token number `at`: first the role, then a second of text and a second of a call, and so on."""
    if at == 0:
        return event({"role": "assistant", "content": ""})
    second, within = divmod(at - 1, PACE)
    text = f"{NEW_LINE if second % 2 and within % 8 == 7 else ''} ~{stamp:06}"
    if second % 2 == 0:
        return event({"content": text})
    if not native:
        opening, closing = _OPENING if within == 0 else "", _CLOSING if within == PACE - 1 else ""
        return event({"content": f"{opening}{text}{closing}"})
    number = second // 2
    opening, closing = '{"mode": "write", "text_0": "' if within == 0 else "", '"}' if within == PACE - 1 else ""
    function = {"arguments": f"{opening}{text}{closing}"}
    if within:
        return event({"tool_calls": [{"index": number, "function": function}]})
    begun = {"index": number, "id": f"chatcmpl-tool-{number}", "type": "function"}
    return event({"tool_calls": [begun | {"function": {"name": "tool_1", **function}}]})


class Streams:
    """All streams that run, in groups that take turns."""

    def __init__(self) -> None:
        self._groups: list[dict[Connection, int]] = [{} for _ in range(GROUPS)]
        self.pace = float(PACE)

    def add(self, connection: Connection) -> None:
        """To the smallest group."""
        min(self._groups, key=len)[connection] = 0

    def remove(self, connection: Connection) -> None:
        for group in self._groups:
            group.pop(connection, None)

    def end(self) -> None:
        """All that run now end as if the length had been reached."""
        for group in self._groups:
            for connection in group:
                connection.write(_STREAM_END)
            group.clear()

    async def run(self) -> None:
        due = time.monotonic()
        while True:
            for group in self._groups:
                due += 1 / self.pace / GROUPS
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                stamp, made = now(), dict[tuple[bool, int], bytes]()
                for connection, at in group.items():
                    key = connection.native, at
                    if key not in made:
                        made[key] = token(*key, stamp)
                    connection.write(made[key])
                    group[connection] = at + 1


class Connection(asyncio.Protocol):
    """HTTP as far as it is needed: a head, a body of a stated length or in chunks, an answer, and again."""

    def __init__(self, native: bool, streams: Streams) -> None:
        self.native = native
        self._streams = streams
        self._answer = whole(native=native)
        self._received = bytearray()
        self._needed = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.write = cast(asyncio.Transport, transport).write  # uvloop's are none

    def connection_lost(self, _: Exception | None) -> None:
        self._streams.remove(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._needed:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            length = _LENGTH.search(self._received, 0, end + 2)
            if length is None and b"chunked" in self._received[:end].lower():
                if not self._received.endswith(b"\r\n0\r\n\r\n"):
                    return
                self._needed = len(self._received)
            else:
                self._needed = end + 4 + (int(length[1]) if length else 0)
        if len(self._received) < self._needed:
            return
        if self._received.startswith(b"GET /end "):
            self._streams.end()
        elif pace := _PACE.match(self._received):
            self._streams.pace = float(pace[1])
        if _STREAM.search(self._received):
            self.write(_STREAM_HEAD)
            self._streams.add(self)
        else:
            self.write(self._answer)
        self._received.clear()
        self._needed = 0


async def serve() -> None:
    loop, streams = asyncio.get_running_loop(), Streams()
    ports = {}
    for name in ("native", "marked"):
        made = partial(Connection, name == "native", streams)
        server = await loop.create_server(made, "127.0.0.1", 0, backlog=512)
        ports[name] = server.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    await streams.run()


def main() -> None:
    with contextlib.suppress(ImportError):
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(serve())


if __name__ == "__main__":
    main()

"""What a client sees on the wire of a scripted vLLM: raw answers, their HTTP chunks, and the events in them."""

from __future__ import annotations

import json
import socket
from typing import Any

from scripted_vllm import ScriptedVLLM

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hello"}]}
STREAM = {**HELLO, "stream": True}
TEXT = "Grüße aus Zürich: 18 °C, ☀️ and a light breeze."


def events(body: bytes) -> list[Any]:
    """The JSON of a stream's events; the whole must be well-formed SSE that ends with [DONE]."""
    *data, done, end = body.split(b"\n\n")
    assert (done, end) == (b"data: [DONE]", b"")
    return [json.loads(event.removeprefix(b"data: ")) for event in data]


def pieces(body: bytes) -> list[str]:
    deltas = (choice["delta"] for event in events(body) for choice in event["choices"])
    return [delta["content"] for delta in deltas if delta["content"]]


def exchange(vllm: ScriptedVLLM, sent: bytes) -> bytes:
    """All bytes that come back on one connection until the server closes it."""
    with socket.create_connection(("127.0.0.1", vllm.port), timeout=20) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def post(data: object, *headers: str) -> bytes:
    body = json.dumps(data).encode()
    lines = [f"POST {CHAT} HTTP/1.1", "Host: vllm", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def http_chunks(answer: bytes, *, whole: bool = True) -> list[bytes]:
    """The chunks of a chunked body, which must have its end exactly if it is `whole`."""
    _, _, rest = answer.partition(b"\r\n\r\n")
    found = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        found.append(rest[:length])
        assert rest[length : length + 2] == b"\r\n"
        rest = rest[length + 2 :]
    assert (found[-1] == b"") is whole
    return found[:-1] if whole else found

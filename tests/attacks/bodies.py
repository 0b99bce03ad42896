"""JSON that costs its reader more than its sender: chat completions all, and legal JSON unless it says otherwise."""

from __future__ import annotations

import json
from typing import Any


def chat(model: str, content: str = "Hello!", *, tools: bool = True, **fields: Any) -> bytes:
    """The plainest of requests."""
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": content}]}
    if tools:
        parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
        body["tools"] = [{"type": "function", "function": {"name": "get_weather", "parameters": parameters}}]
    return json.dumps(body | fields).encode()


def around(model: str, filling: bytes, size: int, *, before: bytes = b"[", after: bytes = b"]") -> bytes:
    """A request of `size` bytes, or a little less, with `filling` over and over in an array that nobody asked for."""
    start, end = chat(model)[:-1] + b', "extra": ' + before, after + b"}"
    times = max(1, (size - len(start) - len(end)) // (len(filling) + 1))
    return start + b",".join([filling] * times) + end


def nested(model: str, size: int, depth: int = 190) -> bytes:
    """Arrays as deep as the gateway allows, one after the other."""
    return around(model, b"[" * (depth - 2) + b"]" * (depth - 2), size)


def tiny_values(model: str, size: int) -> bytes:
    """Empty objects: three bytes each for the sender, 64 for a reader in Python."""
    return around(model, b"{}", size)


def unique_keys(model: str, size: int) -> bytes:
    """One object with as many keys as fit, all different: none of them can be shared."""
    start, end = chat(model)[:-1] + b', "extra": {', b"}}"
    made = bytearray(start)
    number = 0
    while len(made) < size - len(end) - 16:
        made += b'"%x":0,' % number
        number += 1
    return bytes(made[:-1]) + end


def huge_string(model: str, size: int) -> bytes:
    """One message of escapes, which grow when they are written again."""
    filled = chat(model, "@")
    return filled.replace(b"@", b"\\u00e9" * ((size - len(filled)) // 6), 1)


def unfinished(model: str, size: int) -> bytes:
    """The first `size` bytes of a request that is longer."""
    return chat(model, "a" * size)[:size]

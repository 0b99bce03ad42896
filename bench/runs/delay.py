"""How soon the model is asked again: from the end of a tool to the next request at the backend.

Beside it, one after the other, a client's own request of the same content: by the gateway, and straight to the backend.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from bench.runs.characters import clock
from bench.runs.client import Connection, asks
from bench.runs.gateway import Gateway

NEXT, PLAIN, DIRECT = "tool's end to backend", "client to backend", "past the gateway"
WAYS = (NEXT, PLAIN, DIRECT)
_WARM = 20


async def delays(gateway: Gateway, runs: int) -> Mapping[str, list[float]]:
    """Milliseconds of each way, by turns."""
    inside, outside, past = (Connection(port) for port in (gateway.port, gateway.port, gateway.backend))
    ways: Mapping[str, tuple[Connection, Callable[[], bytes]]] = {
        NEXT: (inside, lambda: asks("character/clock", "Call now {}")),
        PLAIN: (outside, _second_round),
        DIRECT: (past, _second_round),
    }
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(_WARM + runs):
        for way, (connection, body) in ways.items():
            taken[way].append(int(await connection.text(body())) / 1e6)
    for connection in (inside, outside, past):
        await connection.close()
    return {way: each[_WARM:] for way, each in taken.items()}


def _second_round() -> bytes:
    """As the runner asks it, with the time of now as the tool's."""
    call = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Call now {}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": f"at={time.monotonic_ns():020d}"},
    ]
    return orjson.dumps({"model": "coder", "stream": True, "messages": messages, "tools": clock.TOOLS})

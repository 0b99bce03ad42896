"""Clients that ask for much and don't read it: the backend has to wait for them, instead of the gateway's memory."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from scripted_vllm import Reply, Usage
from tests.gateway import Gateway, wait_until
from tests.hardening.gateways import attacked_gateway, memory_of, port_of
from tests.pods.clients import CHAT, MODEL, TOOLS

pytestmark = pytest.mark.long

READERS = 5
MOST = 1024 * 1024
"""Bytes that one of them may cost each process."""
SPARE = 4 * 1024 * 1024
"""Bytes that a process may take from the system besides: it does so in pieces of this size, whatever it needs."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with attacked_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


def stalled(gateway: Gateway, *, tools: bool) -> socket.socket:
    """A request for a stream of which nothing is read."""
    fields = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "Count."}]}
    body = json.dumps(fields | ({"tools": TOOLS} if tools else {}))
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port_of(gateway)))
    connection.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return connection


@pytest.mark.parametrize("tools", [True, False], ids=["with tools", "past the processor"])
def test_they_cost_less_than_a_megabyte_each(gateway: Gateway, tools: bool) -> None:
    piece = "word " * 4000
    # 12 MB: more than what the system's own buffers hold, between the three.
    gateway.backend.play(*[Reply(piece * 600, pieces=len(piece), usage=Usage(10, 10))] * (READERS + 1))
    with ExitStack() as connections:

        def one_more(number: int) -> None:
            connections.enter_context(closing(stalled(gateway, tools=tools)))
            # Each pauses its backend once, and for good.
            wait_until(lambda: gateway.stat("upstream_flow_control_paused_reading_total") >= before + number, 60)

        before = gateway.stat("upstream_flow_control_paused_reading_total")
        one_more(1)
        processes = [memory_of(each) for each in gateway.processes]
        for number in range(2, READERS + 2):
            one_more(number)
        costs = [memory_of(each) - was for each, was in zip(gateway.processes, processes, strict=True)]
        assert gateway.stat("http.openai.downstream_cx_tx_bytes_buffered") < (READERS + 1) * MOST
        assert [cost < READERS * MOST + SPARE for cost in costs] == [True, True], costs

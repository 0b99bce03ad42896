"""Requests that are never finished: what they hold is bounded, and others notice nothing of it."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import httpx
import pytest

from extproc.envoy.overload import HEAP_BYTES
from extproc.exchange.concurrency import UPLOAD_BYTES
from extproc.names import SMALL_BODY
from tests.attacks.h2_frames import Heads, chat_fields, opening, streams
from tests.gateway import Gateway, wait_until
from tests.hardening.gateways import ALICE, BOB, attacked_gateway, port_of
from tests.pods.clients import CHAT, MODEL

pytestmark = pytest.mark.long

EACH = 32 * 1024 * 1024
"""What one request may have at most."""
SHARE = UPLOAD_BYTES // 2 // EACH
UPLOADS = 2 * SHARE


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with attacked_gateway(tmp_path_factory.mktemp("gateway"), keys=True) as running:
        yield running


def upload(port: int, key: str, size: int) -> socket.socket:
    """The head of an upload of so many bytes."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: {size}\r\n\r\n"
    connection.sendall(head.encode())
    return connection


def test_a_client_has_its_share_of_uploads_and_leaves_room_for_another(gateway: Gateway) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x" * 2 * SMALL_BODY}]}
    before = gateway.stat("server.memory_allocated")
    with ExitStack() as uploads:
        stalled = [uploads.enter_context(closing(upload(port_of(gateway), ALICE, EACH))) for _ in range(UPLOADS)]
        wait_until(lambda: len(select.select(stalled, [], [], 0)[0]) >= UPLOADS - SHARE)
        refused = []
        for connection in stalled:
            connection.setblocking(False)
            try:
                refused.append(connection.recv(65536))
            except BlockingIOError:
                connection.setblocking(True)
                connection.sendall(b" " * (EACH - 1))  # let in: it sends all but the last byte
        assert len(refused) == UPLOADS - SHARE
        for answer in refused:
            head, _, text = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 429")
            assert b"retry-after: 1" in head
            assert "large requests are on their way" in json.loads(text)["error"]["message"]
        served = httpx.post(f"{gateway.url}{CHAT}", json=body, headers={"authorization": f"Bearer {BOB}"}, timeout=30)
        assert served.status_code == 200
        assert gateway.stat("server.memory_allocated") - before < HEAP_BYTES
    wait_until(lambda: gateway.stat("http.openai.downstream_rq_active") == 0)
    served = httpx.post(f"{gateway.url}{CHAT}", json=body, headers={"authorization": f"Bearer {ALICE}"}, timeout=30)
    assert served.status_code == 200  # what is over counts no more


def test_small_requests_without_their_bodies_never_reach_the_processor(gateway: Gateway) -> None:
    asked = gateway.stat("http.openai.ext_proc.streams_started")
    with socket.create_connection(("127.0.0.1", port_of(gateway)), timeout=20) as connection:
        connection.sendall(opening() + Heads(chat_fields(ALICE, length=1000)).burst(streams(100)))
        wait_until(lambda: gateway.stat("http.openai.downstream_rq_active") >= 100)
        assert gateway.stat("http.openai.ext_proc.streams_started") == asked
    wait_until(lambda: gateway.stat("http.openai.downstream_rq_active") == 0)

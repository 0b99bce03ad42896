"""Requests that no client of a chat completion sends: each gets a plain answer, and nobody takes it for a bug."""

from __future__ import annotations

import json
import socket
from itertools import takewhile
from typing import IO

import pytest

from tests.gateway import Gateway, wait_until
from tests.pods.clients import CHAT

pytestmark = pytest.mark.long

BODY = b'{"model": "coder", "messages": [{"role": "user", "content": "Hello!"}]}'


def exchange(gateway: Gateway, head: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
    """Send this as it stands, and read the answer: status, header fields in lower case, body."""
    if "Connection:" not in head:
        head += "Connection: close\n"
    with socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2])), timeout=10) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode() + b"\r\n" + body)
        with connection.makefile("rb") as received:
            first, fields = read_head(received)
            if first.startswith("HTTP/1.1 100"):
                first, fields = read_head(received)
            # Envoy closes a second after it has answered what may go on.
            rest = received.read(int(fields["content-length"]) if "content-length" in fields else -1)
    return int(first.split()[1]), fields, rest


def read_head(received: IO[bytes]) -> tuple[str, dict[str, str]]:
    first, *lines = [line.rstrip("\r\n") for line in takewhile(str.strip, map(bytes.decode, received))]
    return first, {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


def bugs(gateway: Gateway) -> float:
    return sum(
        gateway.metric(f'extproc_aborted_exchanges_total{{reason="{reason}"}}') for reason in ("bug", "protocol_error")
    )


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        (f"GET {CHAT} HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: websocket\n", 403, "upgrade_refused"),
        (f"POST {CHAT} HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: websocket\n", 403, "upgrade_refused"),
        ("CONNECT example.org:443 HTTP/1.1\nHost: example.org:443\n", 404, "unknown_path"),
        ("TRACE /v1/embeddings HTTP/1.1\nHost: x\n", 405, "method_not_allowed"),
        ("DELETE /v1/embeddings HTTP/1.1\nHost: x\n", 405, "method_not_allowed"),
        ("BREW /v1/embeddings HTTP/1.1\nHost: x\n", 400, "bad_request"),
        (f"TRACE {CHAT} HTTP/1.1\nHost: x\n", 405, "method_not_allowed"),
        (f"BREW {CHAT} HTTP/1.1\nHost: x\n", 400, "bad_request"),
    ],
)
def test_it_is_refused_in_words(gateway: Gateway, head: str, status: int, code: str) -> None:
    before = bugs(gateway)
    got, fields, body = exchange(gateway, head, BODY if "Content-Length" in head else b"")
    assert (got, fields.get("content-type")) == (status, "application/json")
    assert json.loads(body)["error"]["code"] == code
    wait_until(lambda: gateway.metric("extproc_running_exchanges") == 0)
    assert bugs(gateway) == before
    assert gateway.backend.requests == []


def test_a_call_of_grpc_is_told_that_there_is_no_such_method(gateway: Gateway) -> None:
    head = f"POST {CHAT} HTTP/1.1\nHost: x\nContent-Type: application/grpc\nContent-Length: {len(BODY)}\n"
    _, fields, _ = exchange(gateway, head, BODY)
    assert (fields["content-type"], fields["grpc-status"]) == ("application/grpc", "12")
    assert gateway.backend.requests == []


def test_a_client_that_asks_first_whether_it_may_send_its_body_may(gateway: Gateway) -> None:
    fields = f"Expect: 100-continue\nContent-Type: application/json\nContent-Length: {len(BODY)}\n"
    head = f"POST {CHAT} HTTP/1.1\nHost: x\n{fields}"
    status, _, body = exchange(gateway, head, BODY)
    assert status == 200
    assert json.loads(body)["choices"]


def test_nothing_that_a_client_sends_makes_a_line_of_the_log_long(gateway: Gateway) -> None:
    fields = {"x-request-id": "i" * 20_000, "traceparent": "t" * 10_000}
    gateway.http.get("/" + "p" * 20_000, headers=fields)
    entry = gateway.access_log("i" * 128)
    assert len(json.dumps(entry)) < 2000

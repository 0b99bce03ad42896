"""The clients that mean harm send what they say: bytes of the size and shape that the attacks are named for."""

from __future__ import annotations

import json

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset

from extproc.contract.json_body import decode
from tests.attacks import bodies, http1
from tests.attacks.h2_frames import HEADERS, Frames, Heads, chat_fields, opening, settings_ack, streams


def test_2000_heads_are_28_kilobytes() -> None:
    burst = Heads(chat_fields()).burst(streams(2000))
    assert len(burst) < 29_000
    kinds = [kind for kind, _, _, _ in Frames().feed(burst)]
    assert kinds == [HEADERS] * 2000


def test_a_server_reads_the_frames_as_they_are_meant() -> None:
    server = H2Connection(H2Configuration(client_side=False))
    server.initiate_connection()
    heads = Heads(chat_fields(key="k", length=2))
    sent = opening() + settings_ack() + heads.burst(streams(2), body=b"{}") + heads.burst(streams(1, 5), reset=True)
    events = server.receive_data(sent)
    asked = [dict(event.headers) for event in events if isinstance(event, RequestReceived)]
    meant = {name.encode(): value.encode() for name, value in chat_fields(key="k", length=2)}
    assert asked == [meant] * 3
    assert [event.data for event in events if isinstance(event, DataReceived)] == [b"{}", b"{}"]
    assert [event.stream_id for event in events if isinstance(event, StreamEnded)] == [1, 3]
    assert [event.stream_id for event in events if isinstance(event, StreamReset)] == [5]


@pytest.mark.parametrize("cut", [1, 7, 100])
def test_frames_are_found_in_any_cut(cut: int) -> None:
    burst = Heads(chat_fields()).burst(streams(3), reset=True)
    frames, found = Frames(), []
    for at in range(0, len(burst), cut):
        found += [(kind, stream) for kind, _, stream, _ in frames.feed(burst[at : at + cut])]
    assert found == [(kind, stream) for stream in streams(3) for kind in (0x1, 0x3)]


@pytest.mark.parametrize("make", [bodies.nested, bodies.tiny_values, bodies.unique_keys, bodies.huge_string])
def test_bodies_are_legal_json_of_the_size_that_was_asked_for(make: object) -> None:
    assert callable(make)
    body = make("coder", 20_000)
    assert 19_000 < len(body) <= 20_000
    assert json.loads(body)["model"] == "coder"


def test_nesting_is_as_deep_as_the_contract_allows() -> None:
    assert decode(bodies.nested("coder", 2_000))["extra"]


def test_an_unfinished_body_has_exactly_the_bytes_that_were_asked_for() -> None:
    assert len(bodies.unfinished("coder", 1000)) == 1000


def test_heads_of_http_1() -> None:
    assert http1.head(key="k", length=2, x_slow="1") == (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\n"
        b"content-length: 2\r\nauthorization: Bearer k\r\nx-slow: 1\r\n\r\n"
    )
    assert http1.status(b"HTTP/1.1 503 Service Unavailable\r\n") == "503"
    assert http1.status(b"") == "closed"

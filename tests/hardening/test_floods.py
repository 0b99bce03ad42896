"""Many small requests, begun and taken back: what they cost nobody else."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.attacks.h2_frames import Heads, chat_fields, opening, streams
from tests.gateway import Gateway
from tests.hardening.gateways import attacked_gateway, port_of
from tests.pods.clients import Load, Verdict

pytestmark = pytest.mark.long

STREAMS = 20


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with attacked_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


def test_requests_that_are_begun_and_dropped_cut_no_stream(gateway: Gateway) -> None:
    load = Load()
    with load.from_clients(STREAMS, lambda: gateway.url):
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port_of(gateway)), timeout=20) as connection:
                connection.sendall(opening() + Heads(chat_fields()).burst(streams(2000)))
    assert load.verdicts() == {Verdict.WHOLE: len(load.answers)}
    assert gateway.stat("cluster._processor.http2.outbound_control_flood") == 0

"""Replicas that Envoy can't tell from each other are told of, where that can be known."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

from extproc.backends.replicas import hidden_replicas, looked_up
from extproc.config import Address, parse

SETTINGS = """
models: [{name: coder, backend: qwen, tools: prompt}]
backends: [{name: qwen, address: %s, affinity: %s}]
"""
DNS = {
    "cluster-ip": frozenset({"10.96.0.7"}),
    "other-cluster-ip": frozenset({"10.96.0.8"}),
    "alias-of-it": frozenset({"10.96.0.7"}),
    "headless": frozenset({"10.0.0.11", "10.0.0.12"}),
    "not-there": frozenset[str](),
}


def complaints(address: str, *, affinity: bool = False) -> list[str]:
    async def lookup(address: Address) -> frozenset[str]:
        return DNS[address.host]

    return asyncio.run(hidden_replicas(parse(SETTINGS % (address, str(affinity).lower())), lookup))


def test_affinity_towards_one_address_is_told_of() -> None:
    (complaint,) = complaints("cluster-ip:8000", affinity=True)
    assert "the backend 'qwen': affinity is on, but cluster-ip:8000 resolves to 10.96.0.7 alone" in complaint
    assert "headless Service" in complaint


def test_several_names_of_one_server_are_told_of() -> None:
    (complaint,) = complaints("[cluster-ip:8000, alias-of-it:8000]")
    assert "2 replicas are named, but cluster-ip:8000, alias-of-it:8000 resolves to 10.96.0.7 alone" in complaint
    (complaint,) = complaints("[cluster-ip:8000, alias-of-it:8000, other-cluster-ip:8000]")
    assert "3 replicas are named" in complaint
    assert "to only 2 servers" in complaint


def test_what_is_well_or_can_not_be_known_is_no_reason_to_complain() -> None:
    assert complaints("headless:8000", affinity=True) == []
    assert complaints("cluster-ip:8000") == []  # one server, and nothing that wants more
    assert complaints("[cluster-ip:8000, alias-of-it:8001]", affinity=True) == []  # two servers of one machine
    assert complaints("[cluster-ip:8000, not-there:8000]", affinity=True) == []


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answering = threading.Event()

    def slow(*_: object, **__: object) -> None:
        answering.wait(20)
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    begun = time.monotonic()
    assert asyncio.run(looked_up(Address("slow", 80), patience=0.05)) == frozenset()
    assert time.monotonic() - begun < 10
    answering.set()


def test_a_name_stands_for_what_envoy_finds() -> None:
    assert asyncio.run(looked_up(Address("localhost", 80))) == {"127.0.0.1"}
    assert asyncio.run(looked_up(Address("10.0.0.1", 80))) == {"10.0.0.1"}
    assert asyncio.run(looked_up(Address("a" * 64, 80))) == frozenset()

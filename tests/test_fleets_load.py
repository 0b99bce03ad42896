"""What is asked instead of a backend that fails or is full, while many clients stream, and who notices."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from tests.fleet_load import Server, Streaming, speak, trials
from tests.gateway import MODEL, configured_gateway, wait_until

TIMES = 2
"""How often the backend goes and comes back."""
CLIENTS = 6
"""Of the alias whose backend that is."""


def settings(*backends: tuple[str, Server], most: int = 1000) -> str:
    """A model for each, of its name; `coder` is the first, which may be asked `most` at a time, or else the second."""
    names = [name for name, _ in backends]
    models = [{"name": name, "backend": name, "upstream_model": MODEL, "tools": "prompt"} for name in names]
    there = [
        {"name": name, "address": f"127.0.0.1:{server.port}", "health_check": False, "max_requests": 1000}
        for name, server in backends
    ]
    there[0]["max_requests"] = most
    alias = {"split": [{"model": names[0]}], "fallback": [names[1]]}
    return yaml.safe_dump({"models": models, "aliases": {"coder": alias}, "backends": there})


@pytest.mark.long
def test_a_backend_that_goes_breaks_its_own_streams_alone_and_few_requests_fail(tmp_path: Path) -> None:
    servers = [Server(speak) for _ in range(3)]
    big = servers[0]
    away = list[tuple[float, float, float]]()
    try:
        named = zip(("big", "small", "other"), servers, strict=True)
        with configured_gateway(tmp_path, settings(*named), live=True) as gateway:
            streaming = Streaming(gateway.url)
            with streaming.clients(*["coder"] * CLIENTS, "small", "small", "other", "other"):
                for _ in range(TIMES):
                    streaming.wait_for("big", 20)
                    goes = time.monotonic()
                    big.stop()
                    gone = time.monotonic()
                    streaming.wait_for("small", 40)
                    big.start()
                    back = time.monotonic()
                    away.append((goes, gone, back))
                streaming.wait_for("big", 20)
    finally:
        for server in servers:
            server.stop()
    assert streaming.ended("wrong") == []
    assert {each.outcome for each in streaming.streams if each.name != "coder"} == {"whole"}
    broken, refused = streaming.ended("broken"), streaming.ended("refused")
    for each in broken:
        assert each.model == "big"
        assert any(each.began < gone and goes < each.ended for goes, gone, _ in away)
    for goes, gone, back in away:
        assert sum(each.began < gone and goes < each.ended < back for each in broken) <= CLIENTS
        failed = [each for each in refused if goes < each.ended and each.began < back]
        # An answer whose head was on its way when the connection broke: of each client one at most. Only for these does
        # Envoy sometimes not ask the processor any more, which would have named the model.
        cut_off = [each for each in failed if each.code == "backend_disconnected"]
        assert all(each.began < gone for each in cut_off)
        assert len({each.text.partition(".")[0] for each in cut_off}) == len(cut_off)
        # Who asks before the first failure is known, and those that try whether it is back.
        unreachable = [each for each in failed if each.code == "backend_unreachable"]
        assert {each.model for each in unreachable} == {"big"}
        known = min(each.ended for each in unreachable)
        assert sum(each.began <= known for each in unreachable) <= CLIENTS
        assert sum(each.began > known for each in unreachable) <= trials(back - goes)
        assert len(failed) == len(cut_off) + len(unreachable)
    assert all(any(goes < each.ended and each.began < back for goes, _, back in away) for each in refused)
    for each in streaming.ended("whole"):
        assert each.fallback == ("big failing" if (each.name, each.model) == ("coder", "small") else None)


@pytest.mark.long
def test_a_full_backend_is_passed_by_without_an_error_however_many_ask(tmp_path: Path) -> None:
    most, servers = 4, [Server(speak) for _ in range(2)]
    seen = list[int]()
    try:
        named = zip(("big", "small"), servers, strict=True)
        with configured_gateway(tmp_path, settings(*named, most=most), live=True) as gateway:
            streaming = Streaming(gateway.url)

            def enough() -> bool:
                seen.append(gateway.stat("cluster.big.upstream_rq_active"))
                whole = streaming.whole()
                return min(whole["big"], whole["small"]) >= 60

            with streaming.clients(*["coder"] * 3 * most):
                wait_until(enough, 120)
            assert gateway.stat("cluster.big.upstream_rq_pending_overflow") == 0
    finally:
        for server in servers:
            server.stop()
    assert {each.outcome for each in streaming.streams} == {"whole"}
    assert {(each.model, each.fallback) for each in streaming.streams} == {("big", None), ("small", "big full")}
    assert max(seen) == most

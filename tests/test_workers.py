"""How many processes a processor is, where they listen, and what they count of the same clients."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.config import ConfigError, parse
from extproc.exchange.concurrency import Concurrency
from extproc.names import worker_address
from extproc.processes.process import PRELOADED
from extproc.processes.shared import CountsOf, SharedCounts
from extproc.server.cores import worker_count

SETTINGS = """\
models: [{name: coder, backend: gpu, tools: prompt}]
backends: [{name: gpu, address: "127.0.0.1:1"}]
"""
KEYS = st.integers(1, 6)


@pytest.fixture
def counts() -> SharedCounts:
    return small()


def small() -> SharedCounts:
    """A table in which keys get into each other's way."""
    return SharedCounts(3, slots=8)


@given(st.lists(st.tuples(st.integers(0, 2), KEYS, st.integers(0, 5)), max_size=60))
def test_each_sees_what_the_others_show(steps: list[tuple[int, int, int]]) -> None:
    counts = small()
    shown: dict[tuple[int, int], int] = {}
    for part, key, amount in steps:
        counts.show(part, key, amount)
        shown[part, key] = amount
        for reader in range(3):
            others = sum(value for (of, what), value in shown.items() if of != reader and what == key)
            assert counts.elsewhere(reader, key) == others


def test_the_room_of_what_is_over_is_used_again(counts: SharedCounts) -> None:
    for key in range(1, 100):
        counts.show(0, key, 7)
        assert counts.elsewhere(1, key) == 7
        counts.show(0, key, 0)
        assert counts.elsewhere(1, key) == 0


def test_what_finds_no_room_is_not_shared_and_harms_nobody(counts: SharedCounts) -> None:
    for key in range(1, 20):
        counts.show(0, key, key)
    assert [counts.elsewhere(1, key) for key in range(1, 20)] == [*range(1, 9), *[0] * 11]


def test_of_one_that_has_died_nothing_is_left(counts: SharedCounts) -> None:
    counts.show(0, 1, 5)
    counts.show(1, 1, 6)
    counts.clear(0)
    assert counts.elsewhere(2, 1) == 6


def test_the_share_of_a_client_is_one_for_all_processes() -> None:
    counts = SharedCounts(2)
    one, other = (Concurrency(elsewhere=CountsOf(counts, part)) for part in range(2))
    assert one.take("alice", "gpu", 4, alone=False) is not None
    lease = other.take("alice", "gpu", 4, alone=False)
    assert lease is not None
    # Two of four are taken, so two are left, which is what she has.
    assert one.take("alice", "gpu", 4, alone=False) is None
    assert one.used("alice", "gpu") == 2
    assert one.take("bob", "gpu", 4, alone=False) is not None
    other.release(lease.number)
    assert one.take("alice", "gpu", 4, alone=False) is not None


@pytest.mark.parametrize(
    ("address", "second"),
    [
        ("unix:/run/extproc.sock", "unix:/run/extproc.1.sock"),
        ("/run/extproc.sock", "/run/extproc.1.sock"),
        ("/run/ext.proc/socket", "/run/ext.proc/socket.1"),
        ("/run/.socket", "/run/.socket.1"),
        ("127.0.0.1:9000", "127.0.0.1:9001"),
        ("[::1]:9000", "[::1]:9001"),
    ],
)
def test_each_worker_has_an_address_of_its_own(address: str, second: str) -> None:
    assert worker_address(address, 0) == address
    assert worker_address(address, 1) == second


def test_auto_is_a_worker_for_each_core_that_the_process_may_have() -> None:
    command = [sys.executable, "-c", "from extproc.server.cores import worker_count; print(worker_count('auto'))"]
    core = min(os.sched_getaffinity(0))
    narrowed = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); os.execv(sys.argv[2], sys.argv[2:])"
    done = subprocess.run(
        [sys.executable, "-c", narrowed, str(core), *command], check=True, capture_output=True, text=True
    )
    assert done.stdout == "1\n"
    assert worker_count("auto") == len(os.sched_getaffinity(0))
    assert worker_count(3) == 3


@pytest.mark.parametrize("workers", ["0", "129", "many", "2.5", "true", "[2]", "'2'"])
def test_workers_are_a_number_or_auto(workers: str) -> None:
    with pytest.raises(ConfigError, match=r"3: workers: expected a number from 1 to 128, or auto"):
        parse(f"{SETTINGS}workers: {workers}\n")


@pytest.mark.parametrize("workers", ["2", "auto"])
def test_several_need_the_transport_that_can_share_its_sockets(workers: str) -> None:
    with pytest.raises(ConfigError, match="workers: more than one needs `transport: lean`"):
        parse(f"{SETTINGS}workers: {workers}\ntransport: grpcio\n")
    assert parse(f"{SETTINGS}workers: 1\ntransport: grpcio\n").workers == 1


def test_what_workers_are_forked_from_has_no_thread_and_nothing_of_grpcs() -> None:
    looked = "import sys, threading; print('grpc' in sys.modules, threading.active_count())"
    modules = ", ".join(PRELOADED)
    done = subprocess.run(
        [sys.executable, "-c", f"import {modules}; {looked}"], check=True, capture_output=True, text=True
    )
    assert done.stdout == "False 1\n"

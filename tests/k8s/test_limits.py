"""The limits that are shipped fit together: what each process can be made to hold fits the memory that it may have."""

from __future__ import annotations

from pathlib import Path

from extproc.config import parse
from extproc.envoy.overload import HEAP_BYTES
from extproc.exchange.concurrency import UPLOAD_BYTES
from extproc.names import SMALL_BODY
from extproc.runner.characters.pool import MOST, WARM
from extproc.server.workers.child import memory_limit
from extproc.server.workers.pool import MOST_LONG, MOST_QUICK
from tests.k8s.rendered import BASE, K8S, Object, Pod, one, rendered, settings

CHARACTERS = K8S / "overlays/characters"
MIB = 1024 * 1024
ENVOY_WITHOUT_HEAP = 96 * MIB
"""Its program, threads and sockets; 70 MB are all that it has when it does nothing."""
PER_REFRESH = 128 * MIB
"""What can arrive between two looks at the heap (100 ms), at 10 Gbit/s."""
PROCESSOR_IDLE, WORKER_IDLE = 110 * MIB, 50 * MIB
COPIES = 3
"""Of a body, in the processor: as it came, as it is sent to a worker, and as it comes back."""


RUNNER_IDLE, CHARACTER_PROCESS = 115 * MIB, 15 * MIB
RUNS = 256 * MIB
"""What a runner has at least for its runs."""


def container(name: str, folder: Path = BASE) -> Object:
    return Pod(one(rendered(folder), "Deployment", "extproc")).containers[name]


def memory_of(name: str, folder: Path = BASE) -> int:
    return size(container(name, folder)["resources"]["limits"]["memory"])


def size(text: str) -> int:
    return int(text[:-2]) * {"Mi": MIB, "Gi": 1024 * MIB}[text[-2:]]


def largest_body() -> int:
    return parse(settings(rendered(BASE))).limits.max_body_bytes


def test_one_client_can_not_fill_envoys_heap() -> None:
    per_minute = parse(settings(rendered(BASE))).limits.requests_per_minute
    assert per_minute is not None
    # Small requests are held for a minute at most, large ones as the processor lets them in.
    assert UPLOAD_BYTES + per_minute * SMALL_BODY <= 0.95 * HEAP_BYTES  # from there on, requests are refused


def test_envoy_lets_go_of_streams_before_its_container_is_full() -> None:
    assert memory_of("envoy") >= HEAP_BYTES + PER_REFRESH + ENVOY_WITHOUT_HEAP


def test_the_processor_and_its_workers_have_room_for_all_that_they_may_hold() -> None:
    held = COPIES * (MOST_QUICK + MOST_LONG)
    workers = 2 * WORKER_IDLE + memory_limit(largest_body())
    assert PROCESSOR_IDLE + held + workers <= memory_of("processor")


def test_a_runner_has_room_for_a_character_at_its_worst_and_asks_for_what_it_always_has() -> None:
    config = parse(settings(rendered(CHARACTERS)))
    assert RUNNER_IDLE + MOST * config.runs.character_memory + RUNS <= memory_of("runner", CHARACTERS)
    asked = container("runner", CHARACTERS)["resources"]["requests"]["memory"]
    assert size(asked) >= RUNNER_IDLE + WARM * CHARACTER_PROCESS


def test_a_body_that_envoy_buffers_is_one_that_the_processor_takes() -> None:
    assert largest_body() <= MOST_LONG

"""One gateway for all tests that talk to it; each test gets it with a fresh backend script."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.gateway import MODEL, AskedVLLM, Gateway, running_gateway

# What drives a browser is installed by `make test-browser` alone, and Helm's engine by `make test-chart`.
collect_ignore = [
    name
    for name, needs in {"browser": "playwright", "chart/test_helm.py": "helm_python"}.items()
    if not find_spec(needs)
]

# A busy machine is no reason to fail, and neither is luck. `make test-search` sets HYPOTHESIS_SEARCH, to search on with
# so many examples for each property that names no number.
SEARCH = int(os.environ.get("HYPOTHESIS_SEARCH") or 0)
settings.register_profile(
    "extproc",
    deadline=None,
    max_examples=SEARCH or 60,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not SEARCH,
    print_blob=True,
)
settings.load_profile("extproc")
if not SEARCH:
    # Without a seed of its own, Hypothesis still draws on constants from the modules that a worker happens to have
    # loaded: other examples from run to run. No setting turns that off (6.170).
    providers._get_local_constants = lambda: providers._local_constants

# A shell that runs this in the background has it, and so all that it starts, ignore Ctrl-C, which some tests are about.
signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = (
    "test_up.py",
    "test_reload.py",
    "test_cli.py",
    "test_processes.py",
    "documented/test_commands.py",
    "test_memory.py",
    "test_server.py",
    "test_simulation.py",
    "test_memory_dialects.py",
    "test_format_properties.py",
    "test_heavy_work.py",
    "test_characters_pod.py",
    "test_runs.py",
    "test_tool_servers.py",
    "test_character_workers.py",
    "test_front_door.py",
    "test_pods.py",
    "openapi/test_requests.py",
    "test_published_requests.py",
    "test_stalled_readers.py",
    "test_broken_json.py",
    "test_call_syntax.py",
    "test_format_docs.py",
    "test_invalid_call_properties.py",
    "test_dialects.py",
    "test_scenarios.py",
    "test_recording.py",
    "test_trouble.py",
    "test_toolcalls.py",
    "test_format_samples.py",
    "test_watch.py",
    "test_layouts.py",
    "test_text_grammar.py",
    "test_request_fuzz.py",
    "test_escaping.py",
    "test_envoy_bootstrap.py",
    "test_wire.py",
    "test_malformed_requests.py",
    "test_publishing.py",
    "test_foreign_gateways.py",
)
"""The files that take longest, in this order."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is there before the first test stays to the end: 700,000 objects, over which a full collection takes half a
    second, in every test that asks for one and five times at the end."""
    gc.disable()
    try:
        collected = yield
        gc.collect()
        gc.freeze()
    finally:
        gc.enable()
    return collected


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files, so that none of them is left alone at the end."""

    def place(item: pytest.Item) -> int:
        path = item.path.as_posix()
        return next((place for place, name in enumerate(LONGEST) if path.endswith(f"/{name}")), len(LONGEST))

    items.sort(key=place)


@pytest.fixture(scope="session")
def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    backend = AskedVLLM(model=MODEL)
    with backend.running(), running_gateway(tmp_path_factory.mktemp("gateway"), backend) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared_gateway: Gateway) -> Gateway:
    shared_gateway.backend.forget()
    return shared_gateway

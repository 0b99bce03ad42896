"""One gateway for all tests that talk to it; each test gets it with a fresh backend script."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.gateway import MODEL, AskedVLLM, Gateway, running_gateway

# A busy machine is no reason to fail, and neither is luck. To search on, set HYPOTHESIS_SEARCH=1.
settings.register_profile("extproc", deadline=None, derandomize=not os.environ.get("HYPOTHESIS_SEARCH"))
settings.load_profile("extproc")

# A shell that runs this in the background has it, and so all that it starts, ignore Ctrl-C, which some tests are about.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    backend = AskedVLLM(model=MODEL)
    with backend.running(), running_gateway(tmp_path_factory.mktemp("gateway"), backend) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared_gateway: Gateway) -> Gateway:
    shared_gateway.backend.forget()
    return shared_gateway

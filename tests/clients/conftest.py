"""A gateway for all clients, others for TLS, for tools of their own and for trouble, and a fresh home for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.actor import Actor
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage, running_stage
from tests.clients.trouble import impatient_gateway
from tests.gateway import Gateway

_STAGES = ("stage", "tls_stage", "served_stage")


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with running_stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture(scope="session")
def tls_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with running_stage(tmp_path_factory.mktemp("tls-stage"), tls=True) as stage:
        yield stage


@pytest.fixture(scope="session")
def served_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with running_stage(tmp_path_factory.mktemp("served-stage"), served=True) as stage:
        yield stage


@pytest.fixture(scope="module")
def actor() -> Iterator[Actor]:
    with Actor().running() as actor:
        yield actor


@pytest.fixture(scope="module")
def gateway(actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with impatient_gateway(actor, tmp_path_factory.mktemp("trouble")) as gateway:
        yield gateway


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path)
    yield sandbox
    sandbox.close()


@pytest.fixture(autouse=True)
def answers_are_right(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a client makes of its answers, and whatever its test looks at."""
    stages = [request.getfixturevalue(name) for name in _STAGES if name in request.fixturenames]
    yield
    for stage in stages:
        stage.check_answers()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which clients were not run: a skipped test is easily overlooked."""
    here = str(Path(__file__).parent)
    skipped = [report.longrepr for report in terminalreporter.getreports("skipped")]
    # Where a test was skipped, and why.
    reasons = {why for where, _, why in skipped if where.startswith(here)}
    for reason in sorted(reasons):
        terminalreporter.write_line(f"not run: {reason.removeprefix('Skipped: ')}")

"""One cluster for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.definitions import definitions
from tests.cluster.kubectl import Kubectl
from tests.cluster.node import FOLDER, Node
from tests.cluster.programs import programs
from tests.cluster.setup import built_images
from tests.gateway import wait_until


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    made = Node(programs(), Path(os.environ[FOLDER]))
    try:
        made.start(built_images())
        print(f"Kubernetes {'.'.join(map(str, made.programs.version))} is ready")
        yield made
        made.require_running()
    finally:
        made.stop()


@pytest.fixture(scope="session")
def kubectl(node: Node) -> Kubectl:
    """With the kinds of all controllers that the overlays are for."""
    made = Kubectl(node)
    found = definitions()
    made.apply(found)
    for each in found:
        made("wait", "--for=condition=Established", f"crd/{each['metadata']['name']}", "--timeout=60s")
    # A namespace's pods are refused until its own account is there.
    wait_until(lambda: made.run("get", "serviceaccount", "default").returncode == 0, 60)
    return made

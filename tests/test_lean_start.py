"""A start of the processor imports what serves requests, and nothing that few ever need: who waits for it to come back
after a crash waits for each module."""

from __future__ import annotations

import subprocess
import sys

import pytest

NOT_NEEDED = """
    extproc.probe extproc.recording.feed extproc.recording.recorder extproc.recording.replay extproc.recording.tap
    extproc.runner extproc.supervisor.run extproc.prompts.text_grammar extproc.envoy.bootstrap extproc.watch
    betterproto2 envoy_data_plane grpc h11 httpx httpx2 mcp prometheus_client scripted_vllm shtab starlette tiktoken
    uvicorn ctypes http.server multiprocessing xml
""".split()

SERVED = """
import sys
from extproc.cli import main
main(["serve", "--config", "/nowhere", "--listen", "unix:/nowhere"])
assert "extproc.control.process" in sys.modules
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def modules() -> set[str]:
    """What a start has imported when it comes to its configuration, which isn't there."""
    return set(subprocess.run([sys.executable, "-c", SERVED], capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize("name", NOT_NEEDED)
def test_what_few_need_is_not_imported(name: str, modules: set[str]) -> None:
    assert "extproc.control.process" in modules
    assert name not in modules

"""What a test starts for a real vLLM ends with the test, however that ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.real_vllm.server import ended_with_us

_STARTS_A_GROUP = """
import signal, subprocess
from tests.real_vllm.server import ended_with_us
shell = subprocess.Popen(["/bin/sh", "-c", "sleep 600 & wait"], start_new_session=True)
with ended_with_us(shell.pid):
    print(shell.pid, flush=True)
    signal.pause()
"""


def test_a_group_ends_when_who_started_it_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _STARTS_A_GROUP], stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        group = int(starter.stdout.readline())
        try:
            os.killpg(group, 0)  # It is there.
            starter.kill()
            # All of them hold the other end of this.
            assert select.select([starter.stdout], [], [], 10)[0]
            assert starter.stdout.read() == b""
        finally:
            starter.kill()
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


@pytest.mark.parametrize("fails", [False, True])
def test_otherwise_it_is_left_alone(fails: bool) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        try:
            with ended_with_us(process.pid):
                assert not fails, "the test's own"
        except AssertionError:
            assert fails
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
        process.kill()

"""A client finds an empty home and nothing of ours, and nothing of it is left when its run is over."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.clients.installed import Installed
from tests.clients.sandbox import Finished, Sandbox

PYTHON = Installed(sys.executable, folder=Path(sys.prefix), path=os.defpath)


def run(sandbox: Sandbox, script: str, seconds: float = 30.0) -> Finished:
    return sandbox.run(PYTHON, "-c", script, seconds=seconds)


def test_its_environment_and_where_it_is(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "ours")
    done = run(sandbox, "import os, sys; print(os.getcwd(), sorted(os.environ), repr(sys.stdin.read()))")
    assert done.status == 0
    assert done.stdout == f"{sandbox.workspace} ['HOME', 'LANG', 'PATH', 'TMPDIR'] ''\n"
    assert (sandbox.workspace / "notes.txt").read_text() == "one two\n"


def test_its_outputs_and_its_status(sandbox: Sandbox) -> None:
    done = run(sandbox, "import sys; print('{\"a\": 1}\\nnoise\\n{broken'); sys.exit('oh')")
    assert (done.status, done.json_lines(), done.stderr) == (1, [{"a": 1}], "oh\n")


def test_it_is_killed_when_its_time_is_up(sandbox: Sandbox) -> None:
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); time.sleep(60)"
    )
    done = run(sandbox, script, seconds=5)
    assert (done.status, done.stdout) == (None, "here\n")


def test_it_is_killed_when_it_is_enough(tmp_path: Path) -> None:
    begun = tmp_path / "workspace/begun"
    done = run(Sandbox(tmp_path, begun.exists), "import time; open('begun', 'w'); time.sleep(60)")
    assert done.status is None
    assert done.seconds < 30


def test_a_flood_is_read_to_its_end_but_not_kept(sandbox: Sandbox) -> None:
    done = run(sandbox, "for _ in range(100): print('x' * 100_000)")
    assert (done.status, len(done.stdout)) == (0, 4_000_000)


def test_no_daemon_is_left(sandbox: Sandbox) -> None:
    """Not even one that has a session of its own and holds the outputs open."""
    daemon = "[sys.executable, '-c', 'import time; time.sleep(60)']"
    done = run(
        sandbox, f"import subprocess, sys; print(subprocess.Popen({daemon}, start_new_session=True).pid)", seconds=20
    )
    assert (done.status, done.stderr) == (0, "")
    assert not _runs(int(done.stdout))


def _runs(process: int) -> bool:
    """Whether it exists and is more than an entry that nobody has asked for yet."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes() != b""
    except OSError:
        return False

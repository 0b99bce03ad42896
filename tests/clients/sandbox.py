"""Where a client runs: a home and a workspace of its own, an empty environment, and an end that always comes.

A client is run as its users run it, and nothing of it may outlive a test: some leave daemons behind, some ask for ever,
and some end only when they are killed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from extproc import tether
from tests.clients.installed import Installed
from tests.real_vllm.server import has_ended

SECONDS = 180.0
"""Several times what the slowest client takes on a machine that does nothing else."""
_KEPT_BYTES = 4_000_000
"""Of each output."""
_READ_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of a run."""

    status: int | None
    """None: it was killed, its time was up, or what it had done was enough."""
    stdout: str
    stderr: str
    seconds: float

    def json_lines(self) -> list[dict[str, Any]]:
        """The lines of its output that are JSON objects."""
        found = []
        for line in self.stdout.splitlines():
            if line.startswith("{"):
                with suppress(ValueError):
                    found.append(json.loads(line))
        return found


class Sandbox:
    """An empty home, and a workspace that is a git repository with one file, below `folder`.

    Once `enough` holds, whatever runs in it is killed.
    """

    def __init__(self, folder: Path, enough: Callable[[], bool] = lambda: False) -> None:
        self._enough = enough
        self.home, self.workspace, self._temporary = folder / "home", folder / "workspace", folder / "tmp"
        for directory in (self.home, self.workspace, self._temporary):
            directory.mkdir()
        if git := shutil.which("git"):
            subprocess.run([git, "init", "--quiet", self.workspace], check=True, env=self._environment(os.defpath, {}))
        (self.workspace / "notes.txt").write_text("one two\n")

    def run(
        self,
        installed: Installed,
        *arguments: str,
        env: Mapping[str, str] = MappingProxyType({}),
        seconds: float = SECONDS,
        cwd: Path | None = None,
    ) -> Finished:
        """Run it in the workspace until it ends, for so many seconds at most. Nothing of it is left then."""
        # Tethered: it also ends when the tests are killed. A session of its own makes a process group of all it starts.
        tethered = [sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), installed.command]
        began = time.monotonic()
        process = subprocess.Popen(
            [*tethered, *arguments],
            env=self._environment(installed.path, env),
            cwd=cwd or self.workspace,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        outputs = [_Output(process.stdout), _Output(process.stderr)]
        try:
            in_time = _ends_within(process, seconds, self._enough)
            took = time.monotonic() - began
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
            self.close()  # What left the group may hold the outputs open.
        stdout, stderr = (output.whole() for output in outputs)
        return Finished(status if in_time else None, stdout, stderr, took)

    def close(self) -> None:
        """Kill whoever still lives in this home, whatever session and parent it has given itself."""
        mark = f"HOME={self.home}".encode()
        while theirs := [process for process in Path("/proc").glob("[0-9]*") if mark in _environment_of(process)]:
            for process in theirs:
                with suppress(ProcessLookupError):
                    os.kill(int(process.name), signal.SIGKILL)
            time.sleep(0.01)

    def _environment(self, path: str, more: Mapping[str, str]) -> dict[str, str]:
        return {"PATH": path, "HOME": str(self.home), "TMPDIR": str(self._temporary), "LANG": "C.UTF-8", **more}


class _Output:
    """Reads an output to its end, and keeps its beginning."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, name="client-output")
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while piece := os.read(self._pipe.fileno(), _READ_BYTES):
                self._kept += piece[: _KEPT_BYTES - len(self._kept)]

    def whole(self) -> str:
        self._thread.join()
        return self._kept.decode(errors="replace")


def _ends_within(process: subprocess.Popen[bytes], seconds: float, enough: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not has_ended(process):
        if time.monotonic() > deadline or enough():
            return False
        time.sleep(0.02)
    return True


def _environment_of(process: Path) -> list[bytes]:
    """Its variables; none if it has ended, or is another user's."""
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []

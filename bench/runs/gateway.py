"""The gateway of these benchmarks: `extproc up` with characters, in front of the played model."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

from bench.attacks.victim import child, line
from tests.gateway import EXTPROC, free_port, wait_until

_CHARACTERS = Path(__file__).parent / "characters"


@dataclass(frozen=True, slots=True)
class Gateway:
    port: int
    backend: int
    """The port of the played model itself."""
    runner: int
    """The process that has the characters' workers."""

    def workers(self) -> list[int]:
        """Those that run, by their command lines; one that a worker forks would have the same."""
        return [
            pid
            for pid, words in _commands()
            if str(self.runner) in words and any(word.endswith("characters/sandbox.py") for word in words)
        ]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Gateway]:
    """Start all of it, with its log in `folder`, and stop it at the end."""
    with contextlib.ExitStack() as stack:
        played = stack.enter_context(child([sys.executable, "-m", "bench.runs.backend"], stdout=PIPE))
        backend = int(line(played, ""))
        settings = folder / "extproc.yaml"
        settings.write_text(f"""
models: [{{name: coder, backend: played, upstream_model: m, tools: prompt}}]
backends: [{{name: played, address: "127.0.0.1:{backend}", health_check: false}}]
characters: {_CHARACTERS}
""")
        port = free_port()
        command = [*EXTPROC, "up", "--config", str(settings), "--listen", f"127.0.0.1:{port}", "--grace", "1"]
        with (folder / "stderr").open("wb") as stderr:
            up = stack.enter_context(child([*command, "--quiet"], stdout=PIPE, stderr=stderr, cwd=folder))
        try:
            line(up, "Ctrl-C stops")
        except EOFError:
            raise SystemExit(f"the gateway doesn't start:\n{(folder / 'stderr').read_text()[-2000:]}") from None
        runner = next(pid for pid, words in _commands() if "runner" in words and str(settings) in words)
        yield Gateway(port, backend, runner)


@contextlib.contextmanager
def nothing_left(gateway: Gateway) -> Iterator[None]:
    """Raises AssertionError unless all workers end soon after the block."""
    yield
    wait_until(lambda: not gateway.workers(), 5)


def _commands() -> Iterator[tuple[int, list[str]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                yield int(entry.name), os.fsdecode((entry / "cmdline").read_bytes()).split("\0")

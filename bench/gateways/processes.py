"""Processor time and memory of a process and all its descendants, read from /proc: Linux only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


class Tree:
    """A process that was started here, with whatever it has started since."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def pids(self) -> list[int]:
        found = [self.pid]
        for pid in found:  # grows while it is gone through
            for task in _tasks(pid):
                found += map(int, _text(task / "children").split())
        return found

    def seconds(self) -> dict[int, float]:
        """Processor time of each process so far, its own and that of children that have ended."""
        return {pid: _seconds(pid) for pid in self.pids()}

    def kilobytes(self) -> int:
        """Resident memory of all; pages that two of them share count twice."""
        return sum(map(_kilobytes, self.pids()))


def used(before: Mapping[int, float], after: Mapping[int, float]) -> dict[int, float]:
    """Seconds that each process took in between; one that began meanwhile took all it has."""
    return {pid: seconds - before.get(pid, 0.0) for pid, seconds in after.items()}


@contextmanager
def child(
    command: Sequence[object],
    stdout: int = subprocess.DEVNULL,
    stderr: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run it inside the block; what it says on stderr goes to a file or nowhere."""
    with (stderr or Path(os.devnull)).open("ab") as said:
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=stdout, stderr=said, env=env
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _seconds(pid: int) -> float:
    """The scheduler's count of the threads, in nanoseconds, and the ticks of children that were waited for."""
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    if not fields:
        return 0.0
    threads = [_text(task / "schedstat").split() for task in _tasks(pid)]
    ended = (int(fields[13]) + int(fields[14])) / _TICKS
    if all(threads):
        return sum(int(thread[0]) for thread in threads) / 1e9 + ended
    return (int(fields[11]) + int(fields[12])) / _TICKS + ended  # a kernel without schedstat


def _kilobytes(pid: int) -> int:
    lines = _text(Path(f"/proc/{pid}/status")).splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)


def _tasks(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    """Nothing, if the process has ended meanwhile."""
    try:
        return path.read_text()
    except OSError:
        return ""

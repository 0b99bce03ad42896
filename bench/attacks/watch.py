"""The memory of Envoy and of the processor, read from outside, and the limit of a pod's containers put on it.

A container that goes beyond its limit is killed by the kernel (SIGKILL to its largest process). There may be no cgroup
to be had here, and RLIMIT_AS counts what was never touched; so the memory is read fifty times a second, and the
kernel's part is played: beyond the limit of deploy/k8s/base/deployment.yaml the largest process of the container is
killed. What counts is memory without files behind it, as it does there; a container is a process and all its
descendants. Buffers of sockets, which a cgroup counts as well, are left out.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

_EACH = 0.02
_DEPLOYMENT = Path(__file__).parents[2] / "deploy/k8s/base/deployment.yaml"
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
ENVOY, PROCESSOR = "envoy", "processor"


def shipped_limits() -> dict[str, int]:
    """Bytes for each container, as the Deployment has them."""
    spec = yaml.safe_load(_DEPLOYMENT.read_text())["spec"]["template"]["spec"]
    limits = {
        container["name"]: container["resources"]["limits"]["memory"]
        for container in spec["initContainers"] + spec["containers"]
    }
    return {name: int(limits[name][:-2]) * _UNITS[limits[name][-2:]] for name in (ENVOY, PROCESSOR)}


@dataclass(frozen=True, slots=True)
class Death:
    at: float
    """Monotonic seconds."""
    how: str
    """`limit`, `itself`, or `stopped`: by the gateway, which gave up when another one had died."""
    pid: int


@dataclass(slots=True)
class Seen:
    """Of one container."""

    limit: int
    peak_rss: int = 0
    """All its memory, files included, in bytes."""
    peak_anonymous: int = 0
    """What counts against the limit."""
    deaths: list[Death] = field(default_factory=list)
    pid: int = 0


class Watch:
    """Watches the descendants of one process, from a thread, until it is closed."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self.seen = {name: Seen(limit) for name, limit in shipped_limits().items()}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def forget_peaks(self) -> None:
        """Begin anew, after the start: validating a configuration takes memory, too."""
        for seen in self.seen.values():
            seen.peak_rss = seen.peak_anonymous = 0

    def _run(self) -> None:
        while not self._stop.wait(_EACH):
            found = {name_of(pid): pid for pid in descendants(self._parent)}
            for name, seen in self.seen.items():
                self._look(seen, found.get(name, 0))

    def _look(self, seen: Seen, pid: int) -> None:
        if seen.pid and pid != seen.pid and not _runs(seen.pid):
            if not seen.deaths or seen.deaths[-1].pid != seen.pid:
                how = "itself" if seen is self.seen[ENVOY] or not self._gave_up() else "stopped"
                seen.deaths.append(Death(time.monotonic(), how, seen.pid))
            seen.pid = 0
        if not pid:
            return
        seen.pid = pid
        sizes = {one: _memory(one) for one in (pid, *descendants(pid))}
        anonymous = sum(size[1] for size in sizes.values())
        seen.peak_rss = max(seen.peak_rss, sum(size[0] for size in sizes.values()))
        seen.peak_anonymous = max(seen.peak_anonymous, anonymous)
        if anonymous > seen.limit:
            largest = max(sizes, key=lambda one: sizes[one][1])
            with contextlib.suppress(ProcessLookupError):
                os.kill(largest, signal.SIGKILL)
            seen.deaths.append(Death(time.monotonic(), "limit", largest))

    def _gave_up(self) -> bool:
        """Whether Envoy has died and nobody has started it again, so that the gateway may have ended the processor."""
        return bool(self.seen[ENVOY].deaths) and not self.seen[ENVOY].pid


def descendants(pid: int) -> Iterator[int]:
    """The running processes below this one."""
    try:
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in map(int, below):
        yield child
        yield from descendants(child)


def name_of(pid: int) -> str:
    """Which container this process would be the first of; empty for any other."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return ""
    if "validate" not in command and Path(command[0]).name == ENVOY:
        return ENVOY
    return PROCESSOR if command[1:4] == ["-m", "extproc", "serve"] else ""


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _memory(pid: int) -> tuple[int, int]:
    """Resident, and of that without a file behind it; bytes."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = {
        key: int(value.split()[0]) << 10 for key, _, value in (line.partition(":") for line in lines) if "kB" in value
    }
    return sizes.get("VmRSS", 0), sizes.get("RssAnon", 0) + sizes.get("RssShmem", 0)

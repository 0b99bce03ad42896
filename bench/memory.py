"""What the processor's start takes, and its memory: `python -m bench.memory [--megabytes 1,10,30] [--runs 5] [--json]`.

The real gateway (`extproc up`) in front of a played model. Reported:

- how long the modules take to be imported that `extproc serve` has when it comes to its configuration;
- how long after a SIGKILL of the processor a plain request is answered again, by the same `extproc up`;
- resident memory of the processor, when nothing was asked of it yet;
- for bodies of each size, with tools in prompt mode, how far memory grows above what it was before, over the body's
  size: of the processor by itself (VmHWM, which writing 5 to /proc/PID/clear_refs sets back), and of the processor
  with its workers and what they fork.

Pages that processes share count once in the latter (PSS), or in each of them (RSS): both are read some hundred times a
second, so that a peak of a few milliseconds may be missed. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.attacks.victim import child, line
from bench.attacks.watch import PROCESSOR, descendants, name_of
from bench.gateways.processes import Tree
from bench.request import tool
from tests.gateway import EXTPROC, free_port

_MB = 1024 * 1024
_TEXT = 128 * 1024
_EACH = 0.002
_TOOLS = 25
_MODULES = """
from extproc.cli import main
main(["serve", "--config", "/nowhere", "--listen", "unix:/nowhere"])
"""
_PLAIN = b'{"model": "plain", "stream": true, "messages": [{"role": "user", "content": "Say 1 words"}]}'


@dataclass(frozen=True, slots=True)
class Peak:
    """How far a request of this size took the memory, each as a multiple of the size."""

    megabytes: float
    processor: float
    tree: float
    tree_shared_twice: float


@dataclass(frozen=True, slots=True)
class Report:
    import_seconds: float
    restart_seconds: float
    idle_megabytes: float
    peaks: list[Peak]


class Memory:
    """The largest that a process and its descendants have had together, from one call of `begin` to the next."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory")
        self.shared_once = self.shared_twice = 0

    def __enter__(self) -> Memory:
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_EACH):
            once, twice = tree(self._pid)
            self.shared_once, self.shared_twice = max(self.shared_once, once), max(self.shared_twice, twice)


def tree(pid: int) -> tuple[int, int]:
    """Bytes of a process and its descendants; what they share once, or in each of them."""
    once = twice = 0
    for one in Tree(pid).pids():
        sizes = _sizes(Path(f"/proc/{one}/smaps_rollup"))
        once += sizes.get("Pss", 0)
        twice += sizes.get("Rss", 0)
    return once, twice


def _sizes(file: Path) -> dict[str, int]:
    try:
        lines = file.read_text().splitlines()
    except OSError:  # it has ended
        return {}
    parts = (line.split() for line in lines if line.endswith(" kB"))
    return {part[0].removesuffix(":"): int(part[1]) * 1024 for part in parts}


def of_process(pid: int, name: str) -> int:
    """Bytes, by a name in /proc/PID/status."""
    return _sizes(Path(f"/proc/{pid}/status"))[name]


def body(size: int) -> bytes:
    """A request of about that size: tools, and texts of 128 kB as an agent that reads files sends them."""
    words = "the value of this field decides where the file goes;\n"
    text = (words * (_TEXT // len(words)))[: min(_TEXT, size // 2)]
    turn = [{"role": "user", "content": text}, {"role": "assistant", "content": "Read."}]
    messages = [message for _ in range(size // len(text)) for message in turn]
    messages.append({"role": "user", "content": "Say 1 words"})
    tools = [tool(number) for number in range(_TOOLS)]
    return json.dumps({"model": "coder", "stream": True, "messages": messages, "tools": tools}).encode()


@dataclass(frozen=True, slots=True)
class Gateway:
    port: int
    up: int

    @property
    def processor(self) -> int:
        """Its process id; 0 while there is none."""
        return next((pid for pid in descendants(self.up) if name_of(pid) == PROCESSOR), 0)

    def ask(self, content: bytes) -> int:
        """The status of the answer, when all of it is there."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/chat/completions", content, {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            return answer.status


@contextlib.contextmanager
def running() -> Iterator[Gateway]:
    """Start it, and stop it at the end."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        played = stack.enter_context(child([sys.executable, "-m", "bench.runs.backend"], stdout=subprocess.PIPE))
        backend = int(line(played, ""))
        settings = folder / "extproc.yaml"
        settings.write_text(f"""
models:
  - {{name: coder, backend: played, upstream_model: m, tools: prompt}}
  - {{name: plain, backend: played, upstream_model: m, tools: native}}
backends: [{{name: played, address: "127.0.0.1:{backend}", health_check: false}}]
""")
        port = free_port()
        command = [*EXTPROC, "up", "--config", str(settings), "--listen", f"127.0.0.1:{port}", "--grace", "1"]
        with (folder / "stderr").open("wb") as stderr:
            up = stack.enter_context(child([*command, "--quiet"], stdout=subprocess.PIPE, stderr=stderr, cwd=folder))
        try:
            line(up, "Ctrl-C stops")
        except EOFError:
            raise SystemExit(f"the gateway doesn't start:\n{(folder / 'stderr').read_text()[-2000:]}") from None
        yield Gateway(port, up.pid)


def import_seconds(runs: int) -> float:
    """The fastest of so many."""
    return min(_timed([sys.executable, "-c", _MODULES]) for _ in range(runs + 1))  # the first one may compile


def _timed(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=False, capture_output=True)
    return time.perf_counter() - begun


def restart_seconds(gateway: Gateway) -> float:
    """From a SIGKILL to the whole answer of a plain request, which is sent again until there is one."""
    killed = gateway.processor
    begun = time.perf_counter()
    os.kill(killed, signal.SIGKILL)
    while gateway.ask(_PLAIN) != http.client.OK:
        time.sleep(0.005)
    return time.perf_counter() - begun


def peak(gateway: Gateway, content: bytes) -> Peak:
    """Of one request, beside nothing else."""
    pid, size = gateway.processor, len(content)
    once, twice = tree(pid)
    idle = of_process(pid, "VmRSS")
    with Memory(pid) as memory:
        status = gateway.ask(content)
    if status != http.client.OK:
        raise SystemExit(f"a request of {size} bytes is answered with {status}")
    return Peak(
        round(size / _MB, 1),
        (of_process(pid, "VmHWM") - idle) / size,
        (memory.shared_once - once) / size,
        (memory.shared_twice - twice) / size,
    )


def measured(megabytes: list[int], runs: int) -> Report:
    """All of it: of the start the fastest import and the median restart, of each size the worst run."""
    seconds = import_seconds(runs)
    idle, restarts = zip(*(_started() for _ in range(runs)), strict=True)
    with running() as gateway:
        gateway.ask(body(2 * _MB))  # which starts the worker
        peaks = []
        for size in megabytes:
            content = body(size * _MB)
            peaks.append(max((peak(gateway, content) for _ in range(runs)), key=lambda found: found.tree))
    return Report(seconds, statistics.median(restarts), statistics.median(idle) / 1e6, peaks)


def _started() -> tuple[int, float]:
    """Of a gateway of its own, because `up` waits before it starts a processor that dies again and again."""
    with running() as gateway:
        return of_process(gateway.processor, "VmRSS"), restart_seconds(gateway)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description="Start and memory of the processor.")
    parser.add_argument("--megabytes", default="1,10,30", help="sizes of bodies")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = measured([int(size) for size in options.megabytes.split(",")], options.runs)
    if options.json:
        found: dict[str, Any] = asdict(report)
        print(json.dumps(found, indent=1))
        return
    print(f"imports                       {report.import_seconds:6.2f} s")
    print(f"answers again after a SIGKILL {report.restart_seconds:6.2f} s")
    print(f"processor, idle               {report.idle_megabytes:6.1f} MB")
    print("body, MB   processor   with workers   shared pages counted in each   (times the body's size)")
    for found_peak in report.peaks:
        print(
            f"{found_peak.megabytes:8.1f} {found_peak.processor:11.2f} {found_peak.tree:14.2f} "
            f"{found_peak.tree_shared_twice:30.2f}"
        )


if __name__ == "__main__":
    main()

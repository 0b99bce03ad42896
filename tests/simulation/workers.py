"""Workers without processes: the real `WorkerProcess` speaks with a child that is a function, and may die of anything.

What the child does is the real one's: it takes the frames apart, keeps the settings from one job to the next, performs
the effect and puts the result into a frame.
"""

from __future__ import annotations

import io
import random
import re
import signal
import subprocess
from enum import Enum
from typing import Any, BinaryIO, cast

from extproc.server.workers import Workers
from extproc.server.workers.child import _performed
from extproc.server.workers.frames import exactly, load, receive_head, send
from extproc.server.workers.process import WorkerProcess
from tests.simulation.virtual_time import VirtualThread


class Job(Enum):
    """What becomes of one."""

    DONE = "done"
    KILLED = "killed"
    """Memory was short."""
    OVERRAN = "overran"
    """It took too much processor time."""
    SILENT = "silent"
    """No sign of the worker for too long; it has to be killed."""
    DEAF = "deaf"
    """The worker is gone before it has the job."""


_JOBS = (Job.DONE,) * 11 + tuple(Job)[1:]


class Trouble:
    """What happened to whose job, as far as it does harm."""

    def __init__(self) -> None:
        self.lost = set[bytes]()
        """Markers of exchanges whose jobs came to nothing."""
        self.slow = False
        """Some job has taken so long that others may have waited too long."""


class _Child:
    """The process and its end of the socket, as `WorkerProcess` sees them."""

    pid = 1

    def __init__(self, rng: random.Random, trouble: Trouble, *, well: bool) -> None:
        self._rng = rng
        self._trouble = trouble
        self._well = well
        self._config: Any = None
        self._heard = bytearray()
        self._says = io.BytesIO()
        self.fate: int | None = None

    # As a process

    def poll(self) -> int | None:
        if self.fate is None and not self._well and self._rng.random() < 0.05:
            self.fate = -signal.SIGKILL  # between two jobs
        return self.fate

    def wait(self, timeout: float | None = None) -> int:
        if self.fate is None:
            if timeout is not None:
                raise subprocess.TimeoutExpired("worker", timeout)
            self.fate = -signal.SIGKILL
        return self.fate

    def kill(self) -> None:
        self.fate = -signal.SIGKILL

    # As a socket

    def sendall(self, data: bytes) -> None:
        if self.fate is not None:
            raise BrokenPipeError
        self._heard += data

    def read(self, size: int) -> bytes:
        if self._heard:
            self._work()
        if self.fate is not None:
            return b""
        return self._says.read(size)

    def close(self) -> None:
        """The other side does."""
        if self.fate is None:
            self.fate = 0

    def _work(self) -> None:
        stream = io.BytesIO(bytes(self._heard))
        self._heard.clear()
        job = Job.DONE if self._well else self._rng.choice(_JOBS)
        settings, effect, size = receive_head(cast(BinaryIO, stream))
        body = exactly(cast(BinaryIO, stream), size)
        if job is not Job.DONE:
            self._trouble.lost |= set(_MARKER.findall(_uncoded(body)))
        match job:
            case Job.SILENT:
                raise TimeoutError
            case Job.KILLED | Job.DEAF:
                self.fate = -signal.SIGKILL
            case Job.OVERRAN:
                self.fate = -signal.SIGPROF
        if self.fate is not None:
            return
        if settings:
            self._config = load(settings, {})
        said = _Said()
        send(cast(Any, said), _performed(effect, [body], self._config))
        self._says = io.BytesIO(bytes(said.data))


class _Said:
    def __init__(self) -> None:
        self.data = bytearray()

    def sendall(self, data: bytes) -> None:
        self.data += data


_MARKER = re.compile(rb"mark\d{4}mark")


def _uncoded(body: bytes) -> bytes:
    import gzip

    try:
        return gzip.decompress(body)
    except (OSError, EOFError):
        return body


class SimulatedWorker(WorkerProcess):
    """A real one, but for the process."""

    def __init__(self, rng: random.Random, trouble: Trouble, *, well: bool) -> None:
        super().__init__()
        self._rng = rng
        self._trouble = trouble
        self._well = well

    def _start(self) -> None:
        child: Any = _Child(self._rng, self._trouble, well=self._well)
        self._process = self._connection = self._stream = child


def simulated_workers(rng: random.Random, trouble: Trouble, *, well: bool = False) -> Workers:
    """`well`: none of them dies, nor takes long."""

    def seconds() -> float:
        took = 0.001 if well else rng.choice((0.0, 0.001, 0.02, 0.02, 0.5, 4.0, 20.0, 70.0))
        trouble.slow |= took >= 20.0
        return took

    def process() -> WorkerProcess:
        return SimulatedWorker(rng, trouble, well=well)

    return Workers(process, lambda _: VirtualThread(seconds))

"""A worker as its processor sees it: a process that is started when it is needed, and anew when it has died.

Everything here blocks, and is called in a thread; none of it keeps other threads waiting for longer than a moment,
because a socket's own work doesn't hold Python's lock. A worker holds nothing of its processor: it is a new program
with one end of a socket, and ends when the other end is closed, as it is when the processor ends in whatever way.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from typing import BinaryIO

from extproc.config import Config
from extproc.contract.errors import ApiError
from extproc.exchange.effects import Heavy, Prepare
from extproc.server.workers.frames import BODY, CONFIG, FAILED, dump, load, receive, send
from extproc.turn.answer import Rewritten
from extproc.turn.upstream import UpstreamRequest

PATIENCE = 50.0
"""Seconds without a sign of a worker; it limits its own processor time to less."""
_COMMAND = (sys.executable, "-m", "extproc.server.workers.child")
_TO_DIE = 10.0
"""Seconds for a process to end by itself, whose connection has: how tells why. A busy machine takes its time."""


class WorkerDiedError(Exception):
    """The worker is gone, and its job with it."""

    def __init__(self, fate: int, *, silent: bool = False) -> None:
        told = f"a worker gave no sign for {PATIENCE:g} seconds" if silent else f"a worker has ended with status {fate}"
        super().__init__(told)
        self.overran = fate == -signal.SIGPROF
        """It used up its processor time."""


class WorkerBugError(Exception):
    """What it had to do has a bug; the text has its type and its place, and nothing of a request."""


class WorkerProcess:
    """One process, for one job at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._stream: BinaryIO | None = None
        self._config: Config | None = None  # which it has

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return self._process.pid if self._process is not None else None

    def perform(self, box: list[Heavy]) -> UpstreamRequest | Rewritten | ApiError:
        """What comes of the effect in the box, which has nobody else: its body is gone here as soon as the worker has
        it. Raises WorkerDiedError, WorkerBugError."""
        effect = box.pop()
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._start()
        assert self._connection is not None
        assert self._stream is not None
        settings = b""
        if isinstance(effect, Prepare) and effect.config is not self._config:
            settings, self._config = dump(effect.config, {}), effect.config
        frame = [(settings, dump(effect, {BODY: effect.body, CONFIG: self._config}), effect.body)]
        del effect
        try:
            send(self._connection, frame.pop())
            kind, value, body = receive(self._stream)
        except (OSError, EOFError) as error:
            raise WorkerDiedError(self.end(), silent=isinstance(error, TimeoutError)) from None
        if kind == FAILED:
            raise WorkerBugError(value.decode())
        result: UpstreamRequest | Rewritten | ApiError = load(value, {BODY: body})
        return result

    def end(self) -> int:
        """Its exit status; 0 when there was none. It is started again when there is something to do."""
        process, self._process, self._config = self._process, None, None
        if self._stream is not None:
            self._stream.close()
        if self._connection is not None:
            self._connection.close()
        self._stream = self._connection = None
        if process is None:
            return 0
        try:
            return process.wait(_TO_DIE)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def kill(self) -> None:
        """End it from another thread, whatever it does: `perform` raises WorkerDiedError then."""
        if self._process is not None:
            self._process.kill()

    def _start(self) -> None:
        ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                _COMMAND, stdin=its.fileno(), stdout=subprocess.DEVNULL
            )
        ours.settimeout(PATIENCE)
        self._connection, self._stream = ours, ours.makefile("rb")

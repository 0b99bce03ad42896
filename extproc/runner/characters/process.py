"""A process of ours, and what it prints, as an event loop sees them. Nothing here blocks."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from contextlib import suppress

log = logging.getLogger(__name__)

_POLL = 0.05
"""Seconds between looks at a process where the kernel doesn't tell of its end."""
_PIPE = 64 * 1024
_PAUSE = 0.005
"""Seconds between looks at what is only counted."""
_READS = 32
"""Chunks that are read at once when a call has ended: a pipe holds 16 at most."""


class Process:
    """A process that was started, until it has ended and is reaped."""

    def __init__(self, started: subprocess.Popen[bytes]) -> None:
        self._popen = started
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        """Its exit status, or the signal that killed it as a negative number."""
        try:
            self._descriptor = os.pidfd_open(started.pid)
        except (AttributeError, OSError):
            self._descriptor = -1
            self._poll()
        else:
            self._loop.add_reader(self._descriptor, self._reap)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended. It is reaped here only, so its number is nobody else's."""
        with suppress(ProcessLookupError):
            self._popen.send_signal(number)

    def _reap(self) -> None:
        status = self._popen.poll()
        if status is None:
            return
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
        if not self.ended.done():
            self.ended.set_result(status)

    def _poll(self) -> None:
        self._reap()
        if not self.ended.done():
            self._loop.call_later(_POLL, self._poll)


class Lines:
    """What a worker prints, as lines for the log: so much for each call, and of the rest how much it was."""

    MOST, MOST_BYTES, LONGEST = 50, 16 * 1024, 500

    def __init__(self) -> None:
        self._partial = b""
        self._begin()

    def _begin(self) -> None:
        self._lines, self._bytes = self.MOST, self.MOST_BYTES
        self._left_out = self._bytes_left_out = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more of this call is logged."""
        return not self._lines or self._bytes <= 0

    def take(self, data: bytes) -> list[str]:
        """The lines that are whole now."""
        if self.is_full:
            self._count(data)
            return []
        room = data[: self._bytes]
        self._bytes -= len(room)
        *whole, self._partial = (self._partial + room).split(b"\n")
        taken, rest = whole[: self._lines], whole[self._lines :]
        self._lines -= len(taken)
        if rest or len(room) < len(data):
            self._count(b"".join(line + b"\n" for line in rest) + self._partial + data[len(room) :])
            self._partial = b""
        return [_shown(line) for line in taken]

    def end(self) -> list[str]:
        """What is left when a call has ended."""
        lines = [_shown(self._partial)] if self._partial else []
        if self._bytes_left_out:
            lines.append(f"... and {self._left_out} more lines ({self._bytes_left_out} bytes)")
        self._partial = b""
        self._begin()
        return lines

    def _count(self, data: bytes) -> None:
        self._left_out += data.count(b"\n")
        self._bytes_left_out += len(data)


def _shown(line: bytes) -> str:
    text = line[: Lines.LONGEST].decode(errors="replace")
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


class Output:
    """The pipe that a worker prints to, read until it is closed."""

    def __init__(self, descriptor: int, who: str) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._who = who
        self._lines = Lines()
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._loop.add_reader(descriptor, self._read)

    def end_call(self) -> None:
        """Log what there is of a call that has ended. The next may print as much again."""
        for _ in range(_READS):
            if not self._read():
                break
        self._log(self._lines.end())

    def close(self) -> None:
        """Log the rest, and read no more."""
        self.end_call()
        if self._descriptor >= 0:
            if self._pause is not None:
                self._pause.cancel()
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> bool:
        """Whether there was something."""
        if self._descriptor < 0:
            return False
        try:
            data = os.read(self._descriptor, _PIPE)
        except BlockingIOError:
            return False
        if not data:  # closed by the worker; its end is told elsewhere
            self._loop.remove_reader(self._descriptor)
            return False
        self._log(self._lines.take(data))
        if self._lines.is_full and self._pause is None:
            # Each line of a million would wake us. Once the pipe is full, it is the worker that waits.
            self._loop.remove_reader(self._descriptor)
            self._pause = self._loop.call_later(_PAUSE, self._resume)
        return True

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._descriptor, self._read)

    def _log(self, lines: list[str]) -> None:
        for line in lines:
            log.info("%s: %s", self._who, line)

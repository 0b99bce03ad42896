"""A child process of the supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from typing import Self

from extproc import tether


class Child:
    """One running process. Its stderr is ours.

    It has a session of its own, so that Ctrl-C reaches only the supervisor, and is tethered to us: it ends when we do.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self.ended = asyncio.create_task(process.wait())
        """Done when the process has ended."""

    @classmethod
    async def start(cls, *command: str, stdout: int | None = None) -> Self:
        """`command` begins with the path of a program; `stdout` is ours unless it is PIPE or DEVNULL."""
        tethered = (sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), *command)
        return cls(
            await asyncio.create_subprocess_exec(*tethered, stdin=DEVNULL, stdout=stdout, start_new_session=True)
        )

    @classmethod
    async def start_python(cls, module: str, *arguments: str, stdout: int | None = None) -> Self:
        """A module of ours as a program."""
        return await cls.start(sys.executable, "-m", module, *arguments, stdout=stdout)

    async def first_line(self) -> str:
        """The first line on its stdout, which was started as PIPE; empty when it ended without one."""
        if self._process.stdout is None:
            raise ValueError("its stdout is no pipe")
        return (await self._process.stdout.readline()).decode(errors="replace").strip()

    @property
    def fate(self) -> str:
        """How it ended, in words."""
        status = self._process.returncode
        if status is None:
            return "still running"
        return f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"

    async def stop(self, patience: float) -> None:
        """Ask it to end; after `patience` seconds kill it."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        await asyncio.wait((self.ended,), timeout=patience)
        await self.kill()

    async def kill(self) -> None:
        """End it now, if it hasn't already."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self.ended


__all__ = ["DEVNULL", "PIPE", "Child"]

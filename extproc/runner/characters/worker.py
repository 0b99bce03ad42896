"""A worker as the runner sees it: a process that has loaded one character, and is asked for one call at a time.

Between its calls a worker is stopped: what a character has left running costs nothing, prints nothing and answers
nothing. Whatever takes too long or breaks the protocol is killed, which works for a stopped process too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from extproc.runner.characters.channel import Channel
from extproc.runner.characters.process import Output, Process
from extproc.runner.characters.program import LONGEST_TEXT, MOST_REPORT, OUT_OF_MEMORY

log = logging.getLogger(__name__)

Json: TypeAlias = dict[str, Any]

START = 20.0
"""Seconds for a process to be there, whose machine may be busy."""
LOAD = 5.0
"""Seconds for a file to be imported, and to say what it defines."""
_TO_DIE = 0.5
"""Seconds for a process to end whose connection has: how tells why."""
_HERE = Path(__file__).parent
_PROGRAMS = tuple(str(_HERE / name) for name in ("sandbox.py", "program.py"))
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "2"}
"""All that a worker gets of one. An arena of malloc's is 64 MB of addresses, which are limited, for each thread."""
_MOST_ANSWER = 12 * LONGEST_TEXT + 1024
"""Bytes: a character outside of the basic plane is twelve as JSON."""


@dataclass(frozen=True, slots=True)
class Source:
    """A character's file, as it was read: what is loaded later is the same."""

    name: str
    file: Path
    content: bytes = b""
    fault: str = ""
    """Why it couldn't be read."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call."""

    kind: Literal["text", "not_text", "error", "memory", "timeout", "crashed"]
    text: str = ""


class LoadError(Exception):
    """A worker couldn't load its character; the text says why."""

    def __init__(self, reason: str, *, is_passing: bool = False) -> None:
        super().__init__(reason)
        self.is_passing = is_passing
        """It is the machine's fault, not the file's."""


class Worker:
    """One process, for one call at a time."""

    def __init__(self, process: Process, output: Output, channel: Channel) -> None:
        self._process, self._output, self._channel = process, output, channel
        self.report: bytes = b""
        """What its character defines, as JSON that nobody has looked at yet."""
        self.missing = ""
        """What its sandbox lacks."""
        self.calls = 0
        self.ended = process.ended
        self._is_killed = False
        process.ended.add_done_callback(self._clean_up)

    @classmethod
    async def start(cls, source: Source, memory: int) -> Worker:
        """Raises LoadError."""
        try:
            ours, its = socket.socketpair()
        except OSError as error:
            raise LoadError(f"no process could be started: {error}", is_passing=True) from None
        ours.setblocking(False)
        try:
            worker = cls._spawned(source.name, memory, its)
        except OSError as error:
            ours.close()
            raise LoadError(f"no process could be started: {error}", is_passing=True) from None
        finally:
            its.close()
        try:
            await worker._load(source, ours)
        except BaseException:
            worker.kill()
            await asyncio.wait((worker.ended,))
            ours.close()  # in case that it wasn't connected yet
            raise
        return worker

    @classmethod
    def _spawned(cls, name: str, memory: int, its: socket.socket) -> Worker:
        readable, writable = os.pipe()
        try:
            process = Process(_spawn(memory, its.fileno(), writable))
        except OSError:
            os.close(readable)
            raise
        finally:
            os.close(writable)
        return cls(process, Output(readable, f"character {name}"), Channel())

    async def _load(self, source: Source, connection: socket.socket) -> None:
        expected = self._channel.expect(MOST_REPORT)
        await asyncio.get_running_loop().create_connection(lambda: self._channel, sock=connection)
        hello = await _within(START, expected)
        if hello is None:
            raise LoadError(f"its process didn't start: {await self._fate()}", is_passing=True)
        with suppress(ValueError, AttributeError):
            self.missing = str(json.loads(hello).get("missing", ""))
        self._channel.send(json.dumps({"name": source.name, "file": str(source.file)}).encode())
        self._channel.send(source.content)
        report = await _within(LOAD, self._channel.expect(MOST_REPORT))
        if report is None and not self._channel.is_broken:
            raise LoadError(f"takes longer than {LOAD:g} s to be imported")
        if report is None:
            raise LoadError(f"ends its process when it is imported: {await self._fate()}")
        self.report = report
        self._rest()

    async def call(self, tool: str, arguments: Json, seconds: float) -> Answer:
        """Kills itself if it is cancelled, or `is_usable` no more for another reason."""
        number = secrets.token_hex(8)
        self.calls += 1
        try:
            self._process.signal(signal.SIGCONT)
            self._channel.send(json.dumps({"id": number, "tool": tool, "input": arguments}).encode())
            frame = await _within(seconds, self._channel.expect(_MOST_ANSWER))
            if frame is None and not self._channel.is_broken:
                self.kill()
                return Answer("timeout")
            answer = _answer(frame, number)
            if answer is None:
                return Answer("memory" if await self._status() == OUT_OF_MEMORY else "crashed")
            if answer.kind == "memory":
                self.kill()
            else:
                self._rest()
            return answer
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        return not (self._is_killed or self._channel.is_broken or self.ended.done())

    def kill(self) -> None:
        """End it now, whatever it does; `ended` says when it has."""
        self._is_killed = True
        self._process.signal(signal.SIGKILL)
        self._channel.close()

    def _rest(self) -> None:
        self._process.signal(signal.SIGSTOP)
        self._output.end_call()

    async def _status(self) -> int | None:
        """How it ended whose connection has; None for one that did nothing but break that."""
        if self._channel.is_broken and not self._channel.is_breached:
            await asyncio.wait((self.ended,), timeout=_TO_DIE)
        self.kill()
        return self.ended.result() if self.ended.done() else None

    async def _fate(self) -> str:
        """How it ended, in words."""
        status = await self._status()
        if status == OUT_OF_MEMORY:
            return "it ran out of memory"
        if status is None:
            return "it has broken its connection"
        if status >= 0:
            return f"exit status {status}"
        return f"killed by {signal.Signals(-status).name if -status in set(signal.Signals) else f'signal {-status}'}"

    def _clean_up(self, _: object) -> None:
        self._is_killed = True
        self._channel.close()
        self._output.close()


async def _within(seconds: float, expected: asyncio.Future[bytes | None]) -> bytes | None:
    """A frame; None when it wasn't there in time, or never will be: then the channel is broken."""
    await asyncio.wait((expected,), timeout=seconds)
    # One that is there counts, however late we come to look at it.
    return expected.result() if expected.done() else None


def _spawn(memory: int, connection: int, output: int) -> subprocess.Popen[bytes]:
    """A new program, which holds nothing of ours but these two descriptors. That takes a millisecond."""
    sandbox = (_PROGRAMS[0], str(os.getpid()), str(memory))
    return subprocess.Popen(  # noqa: S603 - our own program
        (sys.executable, "-I", "-B", "-X", "utf8", *sandbox, _PROGRAMS[1], str(connection)),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=(connection,),
        env=_ENVIRONMENT,
        cwd="/",
        start_new_session=True,
    )


def _answer(frame: bytes | None, number: str) -> Answer | None:
    """None when it isn't one to this call."""
    if frame is None:
        return None
    try:
        message = json.loads(frame)
    except (ValueError, RecursionError):
        return None
    match message:
        case {"id": str(of), "kind": "text" | "not_text" | "error" | "memory" as kind, "text": str(text)}:
            return Answer(kind, text) if of == number else None
    return None

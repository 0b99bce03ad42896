"""The transport to a program that speaks MCP on its standard input and output.

The SDK has one of its own, which hands on more of our environment than a server should see, reads lines of any length,
and leaves stderr to us as it is.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.shared.message import SessionMessage

from extproc import tether
from extproc.runner.mcp_servers.gate import Connection

log = logging.getLogger(__name__)

LARGEST_MESSAGE = 4 * 1024 * 1024
"""Bytes."""
INHERITED = ("PATH", "HOME", "LANG", "TZ")
"""The variables of ours that it gets."""
_MOST_ODD_LINES = 1000
"""Lines of its output that are no messages: programs print a banner, and perhaps a warning now and then."""
_FLOODED = 0.01
"""Seconds between two lines of its standard error, of those that aren't logged."""
LOGGED_LINES = 20
"""How many lines of its stderr are logged in a second."""
LONGEST_LINE = 500
"""Characters of one that are logged."""
_UNSENT_MESSAGES = 100
_SENDING = 10.0
"""Seconds that it may take to read a message. Whoever takes longer is stuck."""
_PATIENCE = 1.0
"""Seconds that it has to end, once its input has ended; and again once it has been told to."""

Messages: TypeAlias = MemoryObjectReceiveStream[SessionMessage]
Sink: TypeAlias = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def program(
    name: str, command: Sequence[str], environment: Mapping[str, str], connection: Connection
) -> AsyncIterator[tuple[Messages, Sink]]:
    """Start it, and end it on the way out. Raises OSError."""
    process = await _start(command, environment)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    said, incoming = anyio.create_memory_object_stream[SessionMessage](0)
    outgoing, unsent = anyio.create_memory_object_stream[SessionMessage](_UNSENT_MESSAGES)
    tasks = [
        asyncio.create_task(_read(process, said, connection)),
        asyncio.create_task(_write(process.stdin, unsent, connection)),
    ]
    logging_task = asyncio.create_task(_log(name, process.stderr))
    try:
        yield incoming, outgoing
    finally:
        for task in tasks:
            task.cancel()
        try:
            await asyncio.wait(tasks)
            await _end(process)
        finally:  # should we be cancelled meanwhile, it ends at once
            _signal(process, signal.SIGKILL)
            logging_task.cancel()
            # What has left its session may still have the pipes. `Process` has no way to close our ends.
            process._transport.close()  # type: ignore[attr-defined]
            for stream in (said, incoming, outgoing, unsent):
                stream.close()


async def _start(command: Sequence[str], environment: Mapping[str, str]) -> Process:
    own = {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(environment)
    path = shutil.which(command[0], path=own.get("PATH"))
    if path is None:
        raise FileNotFoundError("there is no such program")
    tethered = (sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), path, *command[1:])
    return await asyncio.create_subprocess_exec(
        *tethered, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=own, start_new_session=True, limit=LARGEST_MESSAGE
    )


async def _read(process: Process, said: Sink, connection: Connection) -> None:
    """Hand on its messages, until the end. What is none is left out: programs print all kinds of things."""
    assert process.stdout is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # nobody listens any more
        async with said:
            try:
                odd = 0
                while line := await process.stdout.readline():
                    await asyncio.sleep(0)  # what is there already is read without a pause otherwise
                    try:
                        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        odd += 1
                        if odd > _MOST_ODD_LINES:
                            raise
                        continue
                    await said.send(SessionMessage(message))
            except ValueError:
                what = "too many lines that are no messages" if odd > _MOST_ODD_LINES else "a message that is too large"
                connection.lose(f"it has sent {what}")
            except OSError:
                connection.lose("it can't be read from")
            else:
                with suppress(TimeoutError):
                    status = await asyncio.wait_for(process.wait(), _PATIENCE)
                    connection.lose(f"it has ended with exit status {status}")


async def _write(stdin: StreamWriter, unsent: Messages, connection: Connection) -> None:
    try:
        async for item in unsent:
            stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            async with asyncio.timeout(_SENDING):
                await stdin.drain()
    except TimeoutError:
        connection.lose(f"it reads nothing for {_SENDING:g} s")
    except OSError:
        await asyncio.sleep(_PATIENCE)  # nearly always it has ended, and how is about to be known
        connection.lose("it can't be written to")


async def _log(name: str, stderr: StreamReader) -> None:
    """Log what it has to say to people, in bounds."""
    loop = asyncio.get_running_loop()
    since, lines = loop.time(), 0
    while True:
        try:
            line = await stderr.readline()
        except ValueError:  # an endless line
            continue
        if not line:
            return
        await asyncio.sleep(0 if lines < LOGGED_LINES else _FLOODED)
        if loop.time() - since >= 1:
            since, lines = loop.time(), 0
        lines += 1
        if lines <= LOGGED_LINES:
            text = line[: 4 * LONGEST_LINE].decode(errors="replace").rstrip()
            log.info("the tool server %r says: %s", name, text[:LONGEST_LINE])
        elif lines == LOGGED_LINES + 1:
            log.info("the tool server %r says more than is logged", name)


async def _end(process: Process) -> None:
    """End it as MCP has it: its input ends, then it is told to end. The rest is killed."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    ended = asyncio.create_task(process.wait())
    drained = asyncio.create_task(_drain(process.stdout))  # it may have to get rid of an answer before it looks up
    try:
        for next_signal in (signal.SIGTERM, signal.SIGKILL):
            await asyncio.wait((ended,), timeout=_PATIENCE)
            if process.returncode is not None:
                break
            _signal(process, next_signal)
        _signal(process, signal.SIGKILL)  # what it has started itself
        await asyncio.wait((ended,), timeout=_PATIENCE)
    finally:
        ended.cancel()
        drained.cancel()


async def _drain(stdout: StreamReader) -> None:
    with suppress(OSError):
        while await stdout.read(1 << 16):
            pass


def _signal(process: Process, number: signal.Signals) -> None:
    """To all of its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)

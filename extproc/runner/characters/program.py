"""The program in which a character's code runs: `sandbox.py` confines the process, and then runs this.

    program.py MISSING DESCRIPTOR

`MISSING` is what the sandbox couldn't do. Over the socket come first the character, as a header and its source, and
then its calls, one at a time; a frame is four bytes of length and so much JSON (of the source: bytes). Every answer
carries the id of its call. What is said here of a character is plain JSON, made of whatever its file defines: nobody
has to trust it, and the processor doesn't.

Nothing but the standard library, and little of that, because it has to start fast.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

MOST_REPORT = 512 * 1024
LONGEST_TEXT = 4096
"""Characters of a result or of an error that are sent; the processor cuts them further."""
MOST_ITEMS = 100
"""Tools that are reported; so many are far too many already."""
OUT_OF_MEMORY = 86
"""The exit status of a worker that had no memory left to say so."""

_LENGTH = struct.Struct("!I")
_COROUTINE = 0x80
"""CO_COROUTINE, from Python's code objects."""


class Worker:
    """A character, and what can be asked of it."""

    def __init__(self) -> None:
        self._generator: Any = None
        self._loop: Any = None

    def load(self, name: str, file: str, source: bytes) -> dict[str, Any]:
        """Run the file, and report what it defines."""
        module = ModuleType(f"character_{name}")
        module.__file__ = file
        sys.modules[module.__name__] = module
        try:
            exec(compile(source, file, "exec"), module.__dict__)  # noqa: S102 - what all the rest is there to confine
            generator = getattr(module, "PromptGenerator", None)
            if generator is not None:
                self._generator = generator()
            if getattr(getattr(self._method("handle_tool_call"), "__code__", None), "co_flags", 0) & _COROUTINE:
                self._start_loop()  # it takes too long to be part of a call
            report = self._report(module)
            json.dumps(report)
        except BaseException as error:
            return {"fault": f"{_described(error)}{_line(error, file)}"}
        return report

    def _report(self, module: ModuleType) -> dict[str, Any]:
        get_tools, get_prompt = self._method("get_tools"), self._method("get_system_prompt")
        get_prompt = get_prompt or getattr(module, "get_system_prompt", None)
        tools = self._finished(get_tools()) if get_tools else getattr(module, "TOOLS", None)
        prompt = self._finished(get_prompt()) if get_prompt else getattr(module, "SYSTEM_PROMPT", None)
        return {
            "tools": _listed(tools),
            "handler": callable(self._method("handle_tool_call")),
            "system_prompt": _plain(prompt),
            "model": _plain(getattr(module, "MODEL", None)),
            "tool_servers": _plain(getattr(module, "TOOL_SERVERS", None)),
            "time_limit": _plain(getattr(module, "TIME_LIMIT", None)),
        }

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, str]:
        """How it ended, and the text that goes with it."""
        try:
            value = self._finished(self._generator.handle_tool_call(tool, arguments))
            return ("text", value[:LONGEST_TEXT]) if isinstance(value, str) else ("not_text", type(value).__name__)
        except MemoryError:
            return "memory", ""
        except BaseException as error:
            with suppress(BaseException):
                sys.__excepthook__(type(error), error, error.__traceback__)
            return "error", _message(error) or type(error).__name__

    def _method(self, name: str) -> Any:
        return getattr(self._generator, name, None)

    def _finished(self, value: Any) -> Any:
        if not hasattr(type(value), "__await__"):
            return value

        async def awaited() -> Any:
            return await value

        self._start_loop()
        return self._loop.run_until_complete(awaited())

    def _start_loop(self) -> None:
        if self._loop is None:
            import asyncio  # most characters do without

            self._loop = asyncio.new_event_loop()


def _plain(value: Any) -> dict[str, Any]:
    """A value as JSON, or why it is none."""
    try:
        return {"type": type(value).__name__, "json": json.loads(json.dumps(value, allow_nan=False))}
    except (TypeError, ValueError, RecursionError) as error:
        return {"type": type(value).__name__, "fault": _message(error)}


def _listed(value: Any) -> dict[str, Any]:
    """A list with each item by itself, so that one that is no JSON leaves the others."""
    if not isinstance(value, list):
        return {"type": type(value).__name__}
    return {"type": "list", "count": len(value), "items": [_tool(item) for item in value[:MOST_ITEMS]]}


def _tool(item: Any) -> dict[str, Any]:
    plain = _plain(item)
    if "fault" in plain and isinstance(item, dict) and isinstance(function := item.get("function"), dict):
        # Parameters are where it happens, and they have a rule of their own.
        rest = _plain({**item, "function": {**function, "parameters": None}})
        if "json" in rest:
            return {**rest, "parameters_fault": plain["fault"]}
    return plain


def _message(error: BaseException) -> str:
    try:
        return str(error)[:LONGEST_TEXT]
    except BaseException:
        return ""


def _described(error: BaseException) -> str:
    message = _message(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _line(error: BaseException, file: str) -> str:
    """Where in the file it happened; a SyntaxError says so itself."""
    line, traceback = 0, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return f" (line {line})" if line else ""


def _receive(connection: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    return _exactly(connection, length)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    if len(data) > MOST_REPORT:
        data = json.dumps({"fault": f"what it defines has more than {MOST_REPORT} bytes"}).encode()
    connection.sendall(_LENGTH.pack(len(data)) + data)


def main(missing: str, descriptor: int) -> None:
    connection = socket.socket(fileno=os.dup(descriptor))  # the lowest that is free: ours may be beyond the limit
    os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    _send(connection, {"missing": missing})
    header = json.loads(_receive(connection))
    worker = Worker()
    report = worker.load(header["name"], header["file"], _receive(connection))
    while True:
        with suppress(BaseException):  # they may be anything by now
            sys.stdout.flush()
            sys.stderr.flush()
        _send(connection, report)
        call = json.loads(_receive(connection))
        kind, text = worker.call(call["tool"], call["input"])
        report = {"id": call["id"], "kind": kind, "text": text}


if __name__ == "__main__":
    status = 0
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except MemoryError:
        status = OUT_OF_MEMORY
    except BaseException:
        status = 1  # the processor is gone, or the character has closed the connection
    os._exit(status)  # whatever threads or exit handlers a character has left

"""The worker's program: performs effects that come over its standard input, a socket, until that is closed.

It has no part of gRPC and no thread, so it can fork: what is large is done by a child of its own, whose memory is gone
with it. Memory and processor time are limited by the kernel. Who dies of them takes the worker along, and the processor
starts another.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from extproc.config import Config
from extproc.contract.errors import ApiError
from extproc.exchange.effects import Heavy
from extproc.server.workers.frames import BODY, CONFIG, DONE, FAILED, Frame, dump, exactly, load, receive_head, send

FORKED = 1024 * 1024
"""Bytes of a body for which a fork (some 3 ms) is worth its while."""
SECONDS = 30.0
"""Of processor time, for one job: the largest honest ones take five."""
_MEMORY, _MEMORY_FOR_A_BYTE = 256 * 1024 * 1024, 10
_FIRST_TO_DIE = "500"


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C asks the processor to finish what it has begun
    with suppress(OSError):  # where memory is short, the kernel shall take this process and not the processor
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_DIE)
    gc.collect()
    gc.freeze()
    gc.disable()  # building millions of objects takes six times as long with it; what is left in cycles goes below
    connection = socket.socket(fileno=sys.stdin.fileno())
    stream = connection.makefile("rb")
    config: Config | None = None
    with suppress(EOFError, OSError):  # the processor is gone
        while True:
            settings, effect, size = receive_head(stream)
            if settings:
                config = load(settings, {})
            if size > FORKED:
                _in_a_child(connection, stream, effect, size, config)
                stream = connection.makefile("rb")  # the old one may hold a part of the body, which the child has read
            else:
                _limit(size)
                send(connection, _performed(effect, [exactly(stream, size)], config))
                signal.setitimer(signal.ITIMER_PROF, 0)
            gc.collect()


def _in_a_child(connection: socket.socket, stream: BinaryIO, effect: bytes, size: int, config: Config | None) -> None:
    """The child reads the body itself, so that it is in no memory but its own."""
    if (child := os.fork()) == 0:
        failed = 1
        try:
            _limit(size)
            os.nice(5)  # it takes seconds in any case, and streams wait for the same cores
            send(connection, _performed(effect, [exactly(stream, size)], config))
            failed = 0
        finally:
            os._exit(failed)
    _, status = os.waitpid(child, 0)
    # Half of the body may be unread, or of its result unsent: the connection is of no use any more.
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    elif status:
        sys.exit(1)


def _limit(size: int) -> None:
    """For a job with a body of that size."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    with suppress(ValueError, OSError):  # not every system knows this limit, or it is lower already
        resource.setrlimit(resource.RLIMIT_DATA, (memory_limit(size), resource.getrlimit(resource.RLIMIT_DATA)[1]))


def memory_limit(size: int) -> int:
    """Bytes that a job with a body of that size may take."""
    return _MEMORY + size * _MEMORY_FOR_A_BYTE


def _performed(pickled: bytes, box: list[bytes], config: Config | None) -> Frame:
    """`box` has the body, which is to be gone when the result is sent."""
    effect: Heavy = load(pickled, {BODY: box.pop(), CONFIG: config})
    try:
        result = effect.perform()
        new_body = b"" if isinstance(result, ApiError) or result.body is None else result.body
        return DONE, dump(result, {BODY: new_body}), new_body
    except MemoryError:
        return DONE, dump(effect.failed("takes more memory to be read than it may"), {}), b""
    except Exception as bug:
        # The text of an exception can quote a request; its type and its place can't.
        where = f"{type(bug).__name__}\n{''.join(traceback.format_tb(bug.__traceback__))}"
        return FAILED, where.encode(), b""


if __name__ == "__main__":
    main()

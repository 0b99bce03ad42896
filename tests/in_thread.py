"""What is served asynchronously, for tests that aren't: by a loop in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager


@contextmanager
def in_thread(served: AbstractAsyncContextManager[object]) -> Iterator[None]:
    """Enter `served` in a loop of its own, and leave it at the end of the block. Raises what fails on the way in."""
    begun: Future[Callable[[], object]] = Future()

    async def serve() -> None:
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        async with served:
            begun.set_result(lambda: loop.call_soon_threadsafe(end.set))
            await end.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except Exception as error:
            if begun.done():
                raise
            begun.set_exception(error)

    thread = threading.Thread(target=run, name="served")
    thread.start()
    try:
        stop = begun.result(20)
        try:
            yield
        finally:
            stop()
    finally:
        thread.join(20)

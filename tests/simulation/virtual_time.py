"""An event loop whose time passes only while everybody waits, and then at once.

It has no threads and no sockets: what is given to a thread runs in the loop, when its time has come, and unix sockets
lead into its own network.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from tests.simulation.network import Network


class StandstillError(AssertionError):
    """Everybody waits, and for nothing that has a time."""


class _Jumping(selectors.BaseSelector):
    """Waits for nothing: the clock jumps to when something is due."""

    def __init__(self) -> None:
        self.now = 0.0
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StandstillError("nothing will ever happen any more")
        self.now += max(timeout or 0, 0)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, fileobj, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class VirtualThread(Executor):
    """One that takes the time that it is told to before each piece of work, which itself takes none."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.seconds = seconds

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """For what nobody waits for: it is done at once."""
        done: Future[Any] = Future()
        done.set_result(work(*args, **named))
        return done


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while everybody waits, and then at once."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)
        self.network = Network()

    def time(self) -> float:
        return self._jumping.now

    def begin(self) -> None:
        """At 0, with nothing going on: far from there a float tells no short times apart."""
        self._jumping.now = 0.0
        self.network = Network()

    def run_in_executor(  # type: ignore[override]  # nothing that is known of `args` is needed
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        done = self.create_future()
        seconds = executor.seconds() if isinstance(executor, VirtualThread) else 0.0

        def work() -> None:
            if done.cancelled():
                return
            try:
                done.set_result(func(*args))
            except Exception as error:
                done.set_exception(error)

        self.call_later(seconds, work)
        return done

    async def create_unix_server(self, protocol_factory: Any, path: Any = None, *, sock: Any = None, **_: Any) -> Any:
        return self.network.serve(sock.getsockname() if sock is not None else str(path), protocol_factory)

    async def create_unix_connection(self, protocol_factory: Any, path: Any = None, **_: Any) -> Any:
        return self.network.connect(str(path), protocol_factory)


@contextmanager
def virtual_time() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    try:
        yield loop
    finally:
        loop.set_exception_handler(lambda *_: None)  # what went wrong leaves more behind
        if left := asyncio.all_tasks(loop):  # something went wrong
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=1))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

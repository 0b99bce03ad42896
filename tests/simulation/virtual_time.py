"""An event loop whose time passes only while everybody waits, and then at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


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


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while everybody waits, and then at once."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def begin(self) -> None:
        """At 0, with nothing going on: far from there a float tells no short times apart."""
        self._jumping.now = 0.0


@contextmanager
def virtual_time() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    try:
        yield loop
    finally:
        if left := asyncio.all_tasks(loop):  # something went wrong
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=1))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

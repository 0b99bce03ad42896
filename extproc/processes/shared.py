"""What clients have under way in each of several processes, in memory that all of them see.

    part 0   part 1   ...        one for each worker, which alone writes it
    slot     slot     ...        of each part: a key, and an amount

A key is a hash of client and resource. Each part is a hash table: a key's slot is the first from its place on that has
the key, or none. A slot whose amount is 0 may be given to another key; it is never emptied, so that the keys behind it
are still found. What a reader sees of a slot that is just being changed is off by that one change.

So a worker reads what all the others have in a microsecond for each, and asks nobody. The part of one that has died is
cleared before the next one has it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from functools import lru_cache
from hashlib import blake2b
from multiprocessing.reduction import DupFd
from typing import Any, Self

SLOTS = 1 << 14
"""In a part; each request under way needs two or three at most, most of them have theirs in common. What finds no room
is counted by its own process alone."""
_WORD = 8


class SharedCounts:
    """All parts."""

    def __init__(self, parts: int, slots: int = SLOTS) -> None:
        """Raises OSError."""
        self._open(_memory(parts * 2 * slots * _WORD), parts, slots)

    def _open(self, fd: int, parts: int, slots: int) -> None:
        self._fd = fd
        self._parts = parts
        self._slots = slots
        self._words = memoryview(mmap.mmap(fd, parts * 2 * slots * _WORD)).cast("Q")

    def __reduce__(self) -> tuple[Any, ...]:
        """For a process that is being started, which has the same memory then."""
        return _attached, (DupFd(self._fd), self._parts, self._slots)

    @classmethod
    def attached(cls, fd: int, parts: int, slots: int) -> Self:
        made = cls.__new__(cls)
        made._open(fd, parts, slots)
        return made

    def clear(self, part: int) -> None:
        """Nobody has anything of what this part says."""
        size = 2 * self._slots
        self._words[part * size : (part + 1) * size] = memoryview(bytes(size * _WORD)).cast("Q")

    def show(self, part: int, key: int, amount: int) -> None:
        """The worker whose part it is has so much now."""
        words, place = self._words, self._slot(part, key)
        if place is None:
            place = self._free_slot(part, key)
            if place is None or not amount:
                return
            words[place] = key
        words[place + 1] = amount

    def elsewhere(self, part: int, key: int) -> int:
        """What all parts but this one have together."""
        places = [self._slot(other, key) for other in range(self._parts) if other != part]
        return sum(self._words[place + 1] for place in places if place is not None)

    def _slot(self, part: int, key: int) -> int | None:
        words, slots, begin = self._words, self._slots, part * 2 * self._slots
        for step in range(slots):
            place = begin + 2 * ((key + step) % slots)
            found = words[place]
            if found == key:
                return place
            if not found:
                return None
        return None

    def _free_slot(self, part: int, key: int) -> int | None:
        words, slots, begin = self._words, self._slots, part * 2 * self._slots
        for step in range(slots):
            place = begin + 2 * ((key + step) % slots)
            if not words[place] or not words[place + 1]:
                return place
        return None


class CountsOf:
    """The counts as one worker sees them (`exchange.concurrency.Elsewhere`)."""

    def __init__(self, counts: SharedCounts, part: int) -> None:
        self._counts = counts
        self._part = part

    def show(self, client: str | None, resource: str, amount: int) -> None:
        self._counts.show(self._part, _key(client, resource), amount)

    def amount(self, client: str | None, resource: str) -> int:
        return self._counts.elsewhere(self._part, _key(client, resource))


def _attached(duplicate: Any, parts: int, slots: int) -> SharedCounts:
    return SharedCounts.attached(duplicate.detach(), parts, slots)


def _memory(size: int) -> int:
    """A descriptor of memory that has no name, and of which only what is written to is really there."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("extproc-counts")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.truncate(fd, size)
    return fd


@lru_cache(4096)
def _key(client: str | None, resource: str) -> int:
    """The same in every process, and never 0."""
    named = f"{resource}\0{client}" if client is not None else resource
    return int.from_bytes(blake2b(named.encode("utf-8", "surrogatepass"), digest_size=_WORD).digest()) or 1

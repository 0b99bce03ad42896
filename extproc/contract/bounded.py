"""What was made of texts and is worth keeping, within so many bytes: what was wanted last stays.

A key says all that its value depends on, and a value holds nothing else. So whoever finds one has brought everything
that is in it, and it doesn't matter who came with the same before.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import Generic, TypeVar

Value = TypeVar("Value")

_PART = 8
"""No value gets more than one part in so many."""


class Bounded(Generic[Value]):
    """Values by their keys."""

    def __init__(self, most: int) -> None:
        """`most`: bytes of all of them, as whoever keeps one reckons them."""
        self.size = 0
        self._most = most
        self._values: OrderedDict[bytes, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, key: bytes) -> Value:
        """Raises KeyError for what isn't known, or no more."""
        value, _ = self._values[key]
        with suppress(KeyError):  # another thread has forgotten it by now
            self._values.move_to_end(key)
        return value

    def keep(self, key: bytes, value: Value, size: int) -> None:
        """Keep a value of so many bytes, if that isn't too much for one."""
        if size > self._most // _PART or key in self._values:
            return
        self._values[key] = value, size
        self.size += size
        while self.size > self._most:
            _, (_, gone) = self._values.popitem(last=False)
            self.size -= gone

"""How many requests one client may have under way at a backend, so that the others get their turn.

A backend takes `max_requests` at a time. Unless the settings name a number, a client may have as many of them as are
left free: half of all when it is alone, a third when two want as many as they can get, and so on. There is always room
for one more client, and nobody has to be told beforehand how many there are. (Network switches share their buffers
among ports in this way: Choudhury and Hahne, "Dynamic queue length thresholds".) With a single key there is nobody to
share with.

A request is under way until its exchange ends; one whose answer goes past the processor, until Envoy logs its end
(extproc.access_log), or LONGEST is over, should that ever get lost. Where Envoy sends no log, such a request isn't
counted. All of this is of one processor, and its Envoy.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from extproc.openai.errors import ApiError

LONGEST = 2 * 60 * 60.0
"""Seconds that a request counts of which nothing is heard: longer than any model writes."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Lease:
    """One request's place at a backend."""

    number: int
    client: str
    backend: str


class Concurrency:
    """The requests under way, by client and backend."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._leases: dict[int, Lease] = {}
        self._passed: dict[int, float] = {}  # when it went past, the longest ago first
        self._last = 0
        self._of = Counter[tuple[str, str]]()
        self._at = Counter[str]()
        self.logs = 0
        """How many Envoys tell at present when a request ends."""
        self.expects_log = False
        """Envoy is configured to tell; it doesn't begin before the first request has ended."""

    def take(self, client: str, backend: str, capacity: int, limit: int | None, *, alone: bool) -> Lease:
        """A place at the backend, which has `capacity` of them. Raises ApiError, a 429, when the client has its share.

        Its first request is never refused here: whether the backend is full, Envoy knows better.

        `limit` takes the place of the share; `alone` says that there are no other clients.
        """
        self._forget_lost()
        used = self._of[client, backend]
        share = limit if limit is not None else capacity if alone else capacity - self._at[backend]
        if used and used >= share:
            raise ApiError(
                429,
                f"{used} requests with this key are under way, which is its share of what the backend takes at a time. "
                "Wait for one of them to end.",
                "requests",
                code="rate_limit_exceeded",
            )
        self._last += 1
        lease = Lease(self._last, client, backend)
        self._leases[lease.number] = lease
        self._of[client, backend] += 1
        self._at[backend] += 1
        return lease

    def release(self, number: int) -> None:
        """The request of this lease is over. Saying so twice does no harm."""
        lease = self._leases.pop(number, None)
        if lease is None:
            return
        self._passed.pop(number, None)
        _less(self._of, (lease.client, lease.backend))
        _less(self._at, lease.backend)

    def passed(self, lease: Lease) -> None:
        """The rest of the request goes past the processor: it ends when Envoy says so, if it does."""
        if self.logs or self.expects_log:
            self._passed[lease.number] = self._now()
        else:
            self.release(lease.number)

    def forget_passed(self) -> None:
        """An Envoy has gone that might have told: of requests that went past, nothing more will be heard."""
        for number in list(self._passed):
            self.release(number)

    def _forget_lost(self) -> None:
        while self._passed:
            number, since = next(iter(self._passed.items()))
            if self._now() - since < LONGEST:
                break
            self.release(number)


def _less(counts: Counter[Key], key: Key) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]

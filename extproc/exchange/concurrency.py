"""What one client may have under way at a time, so that the others get their turn.

    a backend   takes `max_requests` at a time
    a team      has as many under way as its settings say
    batch       requests of all clients have a part of what a backend takes
    uploads     of large requests may hold UPLOAD_BYTES of Envoy's memory at a time

Unless the settings name a number, a client may have as much of each as is left free: half of all when it is alone, a
third when two want as much as they can get, and so on. There is always room for one more client, and nobody has to be
told beforehand how many there are. (Network switches share their buffers among ports in this way: Choudhury and Hahne,
"Dynamic queue length thresholds".) Where there is nobody to share with, a client may have all.

A request is under way until its exchange ends; one whose answer goes past the processor, until Envoy logs its end
(extproc.server.access_log), or LONGEST is over, should that ever get lost. Where Envoy sends no log, such a request
isn't counted. All of this is of one processor, and its Envoy. Where a processor is several processes, each counts its
own requests and adds what the others show (`Elsewhere`); a request that another process takes in the same moment isn't
seen, so of N processes a client may get N - 1 requests more than its share, at most.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

LONGEST = 2 * 60 * 60.0
"""Seconds that a request counts of which nothing is heard: longer than any model writes."""

Key = TypeVar("Key", bound=Hashable)


UPLOAD_BYTES = 384 * 1024 * 1024
"""Half of the heap that Envoy has: the other half is for small requests, and for answers."""
UPLOADS, TEAMS = " uploads", " teams"
"""Resources that are no backend, whose name has no space. Of TEAMS a team's name stands where clients' do elsewhere."""


def batch_of(backend: str) -> str:
    """The resource that is the part of a backend that batch requests may have."""
    return f"{backend} batch"


@dataclass(frozen=True, slots=True)
class Lease:
    """What one request has of a resource."""

    number: int
    client: str
    resource: str
    """The name of a backend, `batch_of` one, UPLOADS or TEAMS."""
    amount: int
    together_with: Lease | None = None
    """What ends with it."""


class Elsewhere(Protocol):
    """The other processes of this processor. `client`: None stands for all of them together."""

    def show(self, client: str | None, resource: str, amount: int) -> None:
        """This process has so much of it now."""

    def amount(self, client: str | None, resource: str) -> int:
        """How much all others have of it now."""


class Concurrency:
    """What is under way, by client and resource."""

    def __init__(
        self, now: Callable[[], float] = time.monotonic, elsewhere: Elsewhere | None = None, first: int = 1
    ) -> None:
        """`first`: the number of the first lease; those that follow have the next ones."""
        self._now = now
        self._elsewhere = elsewhere
        self._leases: dict[int, Lease] = {}
        self._passed: dict[int, float] = {}  # when it went past, the longest ago first
        self._last = first - 1
        self._of = Counter[tuple[str, str]]()
        self._at = Counter[str]()
        self.logs = 0
        """How many Envoys tell at present when a request ends."""
        self.expects_log = False
        """Envoy is configured to tell; it doesn't begin before the first request has ended."""

    def take(
        self,
        client: str,
        resource: str,
        capacity: int,
        limit: int | None = None,
        *,
        amount: int = 1,
        alone: bool,
        bounded: bool = False,
        together_with: Lease | None = None,
    ) -> Lease | None:
        """So much of the resource, which has `capacity` in all; None when that is beyond the client's share.

        `limit` takes the place of the share; `alone` says that there are no other clients. The first request of a
        client is never refused here: whether a backend is full, Envoy knows better; but beyond the capacity of what is
        `bounded`, of which Envoy knows nothing. `together_with` is given back with it.
        """
        self._forget_lost()
        used, used_by_all = self.used(client, resource), self.used_by_all(resource)
        share = limit if limit is not None else capacity if alone else capacity - used_by_all
        if (used and used + amount > share) or (bounded and used_by_all + amount > capacity):
            return None
        self._last += 1
        lease = Lease(self._last, client, resource, amount, together_with)
        self._leases[lease.number] = lease
        self._count(client, resource, amount)
        return lease

    def used(self, client: str, resource: str) -> int:
        """What the client has of it."""
        elsewhere = self._elsewhere.amount(client, resource) if self._elsewhere is not None else 0
        return self._of[client, resource] + elsewhere

    def is_full(self, resource: str, capacity: int) -> bool:
        """Whether all of it is taken, as far as it is counted."""
        return self.used_by_all(resource) >= capacity

    def used_by_all(self, resource: str) -> int:
        """What all clients have of it."""
        elsewhere = self._elsewhere.amount(None, resource) if self._elsewhere is not None else 0
        return self._at[resource] + elsewhere

    def release(self, number: int) -> None:
        """The request of this lease is over. Saying so twice does no harm."""
        lease = self._leases.pop(number, None)
        if lease is None:
            return
        self._passed.pop(number, None)
        self._count(lease.client, lease.resource, -lease.amount)
        if lease.together_with is not None:
            self.release(lease.together_with.number)

    def passed(self, lease: Lease) -> None:
        """The rest of the request goes past the processor: it ends when Envoy says so, if it does."""
        if self.logs or self.expects_log:
            self._passed[lease.number] = self._now()
        else:
            self.release(lease.number)

    # What Envoy's logs tell (extproc.server.access_log.Ends)

    def log_opened(self) -> None:
        """One more of Envoy's threads tells."""
        self.logs += 1

    def log_closed(self) -> None:
        """One of them doesn't any more."""
        self.logs -= 1
        self.forget_passed()

    def ended(self, numbers: Iterable[int]) -> None:
        """The requests of these leases are over."""
        for number in numbers:
            self.release(number)

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

    def _count(self, client: str, resource: str, amount: int) -> None:
        of, at = _changed(self._of, (client, resource), amount), _changed(self._at, resource, amount)
        if self._elsewhere is not None:
            self._elsewhere.show(client, resource, of)
            self._elsewhere.show(None, resource, at)


def _changed(counts: Counter[Key], key: Key, amount: int) -> int:
    counts[key] += amount
    now = counts[key]
    if not now:
        del counts[key]
    return now

"""Which backends aren't asked now, as far as answers tell, for whoever has others to ask (`config.Alias.fallback`).

    failing   Envoy has no server to ask there, or FAILURES answers in a row were a 502, 503 or 504
    full      Envoy has turned a request away, because `max_requests` are under way

It is out for a time. Then one request is let through, while the others go on elsewhere: an answer to it brings the
backend back, another failure makes the next time longer. Nothing is heard of what goes past the processor (other paths
than those of models' answers), nor of a stream that breaks: its head was well.

Of one processor: each of several workers finds out by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from extproc.config import Why

FAILURES = 3
"""As many as it takes Envoy to eject a replica (`extproc.envoy.failover`): one alone may be the request's fault."""
FIRST, LONGEST = 1.0, 30.0
"""Seconds that a failing backend is out at first, and at most: twice as long each time."""
FULL = 1.0
"""Seconds that a full one is out."""
TRIED = 10.0
"""Seconds that one request is waited for, until another one is let through: it may have to wait for its own answer."""

_UNREACHABLE = frozenset({"backend_unreachable", "backend_key_missing", "backend_unknown"})
_FAILED = frozenset({"backend_disconnected", "backend_timeout"})
_OVERLOADED = "backend_overloaded"
"""Codes of Envoy's own replies (`extproc.envoy.local_replies`) that tell of the backend. No other one does, such as
those of a client's limits or of an upload that broke off: the backend had no part in it."""


@dataclass(slots=True)
class _Outage:
    failures: int = 0
    """In a row."""
    why: Why | None = None
    """None: it isn't out yet."""
    until: float = 0.0
    pause: float = 0.0
    is_tried: bool = False
    """One request was let through, and nothing is heard of it yet."""


@dataclass(frozen=True, slots=True)
class Change:
    """A backend is out from now on, or asked again."""

    backend: str
    why: Why | None
    """None: it has answered."""


class Outages:
    """Of one processor: it changes with each answer."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: dict[str, _Outage] = {}

    def out(self) -> dict[str, Why]:
        """The backends that aren't asked now."""
        if not self._known:
            return {}
        now = self._now()
        return {name: each.why for name, each in self._known.items() if each.why is not None and now < each.until}

    def asked(self, backend: str) -> bool:
        """A request goes there. Whether its time is over, and this is the one that is let through."""
        outage = self._known.get(backend)
        if outage is None or outage.why is None or self._now() < outage.until:
            return False
        outage.until, outage.is_tried = self._now() + TRIED, True
        return True

    def answered(self, backend: str, status: int, reply: str = "", *, is_trial: bool = False) -> Change | None:
        """The head of an answer has come; `reply` is the code of one that is Envoy's own. `is_trial`: of the request
        that was let through."""
        if reply and reply != _OVERLOADED and reply not in _UNREACHABLE and reply not in _FAILED:
            if is_trial:
                self._untried(backend)
            return None
        if reply == _OVERLOADED:
            return self._out(backend, "full")
        if status not in (502, 503, 504):
            return self._well(backend)
        outage = self._known.setdefault(backend, _Outage())
        outage.failures += 1
        if reply in _UNREACHABLE or outage.failures >= FAILURES or outage.why == "failing":
            return self._out(backend, "failing")
        return None

    def _out(self, backend: str, why: Why) -> Change | None:
        outage, now = self._known.setdefault(backend, _Outage()), self._now()
        if outage.why is not None and now < outage.until and not outage.is_tried:
            return None  # it was under way before
        was, outage.why, outage.is_tried = outage.why, why, False
        outage.pause = FULL if why == "full" else min(2 * outage.pause, LONGEST) if was == "failing" else FIRST
        outage.until = now + outage.pause
        return Change(backend, why) if why != was else None

    def _untried(self, backend: str) -> None:
        """Nothing came of the request that was let through: the next one is."""
        outage = self._known.get(backend)
        if outage is not None and outage.is_tried:
            outage.until, outage.is_tried = self._now(), False

    def _well(self, backend: str) -> Change | None:
        outage = self._known.get(backend)
        if outage is None or (outage.why is not None and self._now() < outage.until and not outage.is_tried):
            return None  # as before
        del self._known[backend]
        return Change(backend, None) if outage.why is not None else None

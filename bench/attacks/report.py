"""Numbers out of what all saw: for the seconds before the attack, for those of the attack, and for those after it."""

from __future__ import annotations

import collections
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.attacks.backends import PACE
from bench.attacks.honest import BROKEN_STREAM, FIRST, OK, STREAMS

_LATE = 0.25
"""Seconds beyond the pace after which a token counts as a sign that all is not well yet."""
_CALM = 2.0
"""Seconds without any such sign."""
_DIRECT = "direct"

Event = tuple[float, str, str | float]
"""Of the log of the honest clients."""


@dataclass(frozen=True, slots=True)
class Delays:
    """In milliseconds."""

    count: int
    p50: float | None
    p99: float | None
    most: float | None

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Delays:
        ordered = sorted(max(0.0, one) * 1e3 for one in seconds)
        return cls(len(ordered), *(percentile(ordered, share) for share in (0.5, 0.99, 1.0)))


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that this share of all doesn't exceed; None of nothing."""
    return round(ordered[max(0, math.ceil(len(ordered) * share) - 1)], 1) if ordered else None


@dataclass(frozen=True, slots=True)
class Phase:
    """What the honest clients saw in a number of seconds."""

    seconds: float
    streams: int
    """That came to their proper end."""
    cut: dict[str, int]
    """Streams that had begun and broke, by how."""
    answered: int
    """Whole answers, one a request."""
    failed: dict[str, int]
    """Requests without the answer that was asked for, by status or what came instead."""
    late: Delays
    """Tokens beyond the pace."""
    late_direct: Delays
    """The same past the gateway: the machine's own part."""
    first: Delays
    """From a request to the head of its answer."""

    @classmethod
    def of(cls, events: Iterable[Event], begin: float, end: float) -> Phase:
        cut, failed = collections.Counter[str](), collections.Counter[str]()
        streams = answered = 0
        late: dict[str, list[float]] = {"gateway": [], _DIRECT: [], FIRST: []}
        for at, kind, what in events:
            if not begin <= at < end:
                continue
            if not isinstance(what, str):
                late[kind if kind in late else "gateway"].append(what)
            elif kind == _DIRECT:
                continue
            elif what == OK:
                answered += kind == "whole"
                streams += kind != "whole"
            elif what in BROKEN_STREAM:
                cut[what] += 1
            else:
                failed[what] += 1
        return cls(
            round(end - begin, 1),
            streams,
            dict(cut),
            answered,
            dict(failed),
            Delays.of(late["gateway"]),
            Delays.of(late[_DIRECT]),
            Delays.of(late[FIRST]),
        )


def recovery(events: Sequence[Event], end: float, last: float) -> float | None:
    """Seconds after the attack's end until nothing went wrong any more; None if that wasn't to be seen.

    It is seen when, for two seconds at the least, tokens come and nothing goes wrong. A token that is late isn't wrong
    if those past the gateway are late, too: that is the machine.
    """
    past = [(at, what) for at, kind, what in events if kind == _DIRECT and not isinstance(what, str)]
    seen = [(at, what) for at, kind, what in events if kind not in (_DIRECT, FIRST) and end <= at < last]
    bad = max((at for at, what in seen if _is_bad(at, what, past)), default=end)
    tokens = sum(at >= last - _CALM and not isinstance(what, str) for at, what in seen)
    if last - bad < _CALM or tokens < _CALM / PACE * STREAMS / 2:
        return None
    return round(bad - end, 1)


def _is_bad(at: float, what: str | float, past: Sequence[tuple[float, float]]) -> bool:
    if isinstance(what, str):
        return what != OK
    return what > _LATE and what - _LATE > max((late for when, late in past if abs(when - at) < 1), default=0.0)


def read(log: Path) -> list[Event]:
    """The honest clients' log; its last line may be cut."""
    events: list[Event] = []
    for line in log.read_text().splitlines():
        try:
            at, kind, what = json.loads(line)
        except ValueError:
            continue
        events.append((at, kind, what))
    return events


def as_json(phase: Phase) -> dict[str, Any]:
    return asdict(phase)


def line(result: dict[str, Any]) -> str:
    """One attack in a line, for the terminal."""
    during, before, after = result["during"], result["baseline"], result["after"]
    cut, failed = total(during["cut"], after["cut"]), total(during["failed"], after["failed"])
    memory = ", ".join(
        f"{name} {seen['peak_rss_mb']} MB" + "".join(f" died ({death['how']})" for death in seen["deaths"])
        for name, seen in result["processes"].items()
    )
    return (
        f"{result['name']}: cut {cut or 0}, failed {failed or 0}, "
        f"late p99 {during['late']['p99']} ms (without: {before['late']['p99']}, past the gateway: "
        f"{during['late_direct']['p99']}), max {during['late']['most']} ms; {memory}; "
        f"recovered after {result['recovery_seconds']} s" + ("" if result["gateway_alive"] else "; the gateway ended")
    )


def total(*counts: dict[str, int]) -> dict[str, int]:
    """Their sums, by name."""
    sums = collections.Counter[str]()
    for count in counts:
        sums.update(count)
    return dict(sums)

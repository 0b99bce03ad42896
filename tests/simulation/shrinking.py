"""A history that goes wrong, made as small as can be had in a bounded number of replays.

Left out are first exchanges, with all of their events; then what a whole history may be without; then events, kind by
kind, then in halves, quarters and so on, and at last one by one ("ddmin", by Zeller and Hildebrandt: "Simplifying and
isolating failure-inducing input"). What is left goes wrong in the same words, but for names and numbers in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, get_args

from tests.simulation.course import WITHOUT, Event, Kind, Part
from tests.simulation.replaying import Drawn, in_words

REPLAYS = 600
"""At most, of one history."""
T = TypeVar("T")


class GoesRightError(Exception):
    """There is nothing to make smaller."""


@dataclass(frozen=True, slots=True)
class Found:
    """A history that went wrong, and the part of it that still does."""

    seed: int
    part: Part | None
    """None: played again, it went right."""
    why: str
    events: tuple[Event, ...]
    """Those of the part."""
    before: tuple[Event, ...]
    """Those of the whole history, until it went wrong."""

    @classmethod
    def once(cls, seed: int, error: Exception) -> Found:
        """What went wrong when it was first played, and never again."""
        return cls(seed, None, in_words(error), (), ())

    @property
    def exchanges(self) -> list[int]:
        """The numbers of those that the part has."""
        return begun(self.events)

    def __str__(self) -> str:
        if self.part is None:
            return f"{self.why}\nnot reproducible: played again, the history of the seed {self.seed} goes right"
        exchanges = f"{len(self.exchanges)} of {len(begun(self.before))} exchanges"
        events = f"{len(self.events)} of {len(self.before)} events"
        again = f"to see it again: python -m tests.simulation --seed {self.seed} {self.part}"
        told = "; ".join(map(str, self.events))
        return f"{self.why}\n{exchanges}, {events}: {told}\n{again}"


def smallest(seed: int, replays: int = REPLAYS) -> Found:
    """Of a history that goes wrong, by so many replays at most. Raises GoesRightError if it doesn't."""
    drawn = Drawn(seed)
    if drawn.why is None:
        raise GoesRightError(f"nothing goes wrong in the history of the seed {seed}")
    part = _Shrinking(drawn, _in_short(drawn.why), replays).part
    before = tuple(one.event for one in drawn.happened)
    return Found(seed, part, drawn.wrong(part) or "nothing", tuple(before[number] for number in part.events), before)


def begun(events: Sequence[Event]) -> list[int]:
    """The exchanges that begin in them."""
    return [event.whom for event in events if event.kind == "begin"]


class _Shrinking:
    """Of one history."""

    def __init__(self, drawn: Drawn, why: str, replays: int) -> None:
        self._drawn = drawn
        self._why = why
        self._replays = replays
        self.part = drawn.whole
        self._leave_out_exchanges()
        self._leave_out_altogether()
        for kind in get_args(Kind):
            self._keep([number for number in self.part.events if self._event(number).kind != kind])
        fewest(self.part.events, self._keep)
        self._leave_out_exchanges()
        self._leave_out_altogether()

    def _event(self, number: int) -> Event:
        return self._drawn.happened[number].event

    def _leave_out_exchanges(self) -> None:
        def keep(exchanges: Sequence[int]) -> bool:
            of_these = {None, *exchanges}
            return self._keep([number for number in self.part.events if self._event(number).exchange in of_these])

        fewest(begun([self._event(number) for number in self.part.events]), keep)

    def _leave_out_altogether(self) -> None:
        for name in WITHOUT:
            self._is_enough(replace(self.part, without=self.part.without | {name}))

    def _keep(self, events: Sequence[int]) -> bool:
        return self._is_enough(replace(self.part, events=tuple(events)))

    def _is_enough(self, part: Part) -> bool:
        """Whether it goes wrong like the whole; then it is what goes on being made smaller."""
        if part == self.part or not self._replays:
            return part == self.part
        self._replays -= 1
        why = self._drawn.wrong(part)
        if why is None or _in_short(why) != self._why:
            return False
        self.part = part
        return True


def fewest(those: Sequence[T], enough: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Those without any of which the others aren't enough, asked of ever smaller pieces."""
    size = len(those)
    while size:
        at, fewer = 0, False
        while at < len(those):
            rest = [*those[:at], *those[at + size :]]
            if enough(rest):
                those, fewer = rest, True
            else:
                at += size
        if size == 1 and not fewer:
            break
        size = size // 2 or (1 if those else 0)
    return those


def _in_short(why: str) -> str:
    """Without what is another one each time: numbers, and what stands in quotes or brackets, with all behind it."""
    return re.sub(r"""['"\[{(].*|[\d.]+""", "", why.splitlines()[0]).strip()

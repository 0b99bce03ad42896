"""One history, played as it is drawn, or a part of it."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from itertools import pairwise

from tests.simulation.course import DRAWN, Course, Happened, Part
from tests.simulation.history import Report, World
from tests.simulation.virtual_time import VirtualLoop, virtual_time


def played(seed: int, keep: Sequence[int] | None = None, course: Course = DRAWN) -> Report:
    """One history in a loop of its own; `keep`: drawn with these exchanges alone. Raises what goes wrong in it."""
    with virtual_time() as loop:
        loop.begin()
        return loop.run_until_complete(_played(seed, keep, loop, course))


async def _played(seed: int, keep: Sequence[int] | None, loop: VirtualLoop, course: Course) -> Report:
    return await World(seed, keep, loop, course).play()


def wrong(seed: int, keep: Sequence[int] | None = None, course: Course = DRAWN) -> str | None:
    """What goes wrong in a history; None if nothing does."""
    try:
        played(seed, keep, course)
    except Exception as error:
        return in_words(error)
    return None


def in_words(error: Exception) -> str:
    """Its kind, and what it says."""
    return "".join(traceback.format_exception_only(error)).strip()


class Drawn:
    """A history as it was drawn, whose parts can be played."""

    def __init__(self, seed: int) -> None:
        """Play all of it, or until something goes wrong."""
        self._seed = seed
        noted = list[Happened]()
        self.why = wrong(seed, course=Course(noted=noted))
        """What goes wrong in it, if anything does."""
        self.happened: Sequence[Happened] = noted

    @property
    def whole(self) -> Part:
        return Part(tuple(range(len(self.happened))))

    def course(self, part: Part) -> Course:
        """Raises ValueError for events that aren't there, or not in order."""
        if missing := [number for number in part.events if not 0 <= number < len(self.happened)]:
            raise ValueError(f"it has {len(self.happened)} events, and none of the number {missing[0]}")
        if any(number >= after for number, after in pairwise(part.events)):
            raise ValueError("the numbers of its events have to ascend")
        return Course([self.happened[number] for number in part.events], part.without)

    def wrong(self, part: Part) -> str | None:
        """What goes wrong in it."""
        return wrong(self._seed, course=self.course(part))

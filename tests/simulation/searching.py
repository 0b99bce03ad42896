"""Many histories, and the smallest part of one that still goes wrong."""

from __future__ import annotations

import gc
import logging
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.simulation.history import EXCHANGES, Report, simulate
from tests.simulation.virtual_time import virtual_time


@dataclass(frozen=True, slots=True)
class Found:
    """A history that went wrong."""

    seed: int
    keep: tuple[int, ...]
    """The exchanges of it without any of which all would be well."""
    why: str

    def __str__(self) -> str:
        kept = ",".join(map(str, self.keep))
        return f"{self.why}\nto see it again: python -m tests.simulation --seed {self.seed} --keep {kept}"


def played(seed: int, keep: Sequence[int] | None = None) -> Report:
    """One history in a loop of its own. Raises what goes wrong in it."""
    with virtual_time() as loop:
        return simulate(seed, loop, keep)


def wrong(seed: int, keep: Sequence[int] | None = None) -> str | None:
    """What goes wrong in a history; None if nothing does."""
    try:
        played(seed, keep)
    except Exception as error:
        return "".join(traceback.format_exception_only(error)).strip()
    return None


def smallest(seed: int) -> Found:
    """Of a history that goes wrong: exchanges are left out, one after the other, as long as it still does."""
    keep, before = list(range(EXCHANGES)), EXCHANGES + 1
    while len(keep) < before:
        before = len(keep)
        for number in list(keep):
            without = [one for one in keep if one != number]
            if wrong(seed, without) is not None:
                keep = without
    return Found(seed, tuple(keep), wrong(seed, keep) or "nothing")


def search(seeds: Iterable[int], seconds: float) -> tuple[Counter[str], list[Found]]:
    """Play these, for so long at most; returns what became of how many exchanges, and all that went wrong."""
    logging.disable(logging.CRITICAL)
    gc.set_threshold(50_000, 20, 20)  # which is a tenth of the time otherwise
    fates, found = Counter[str](), list[Found]()
    until = time.monotonic() + seconds
    for seed in seeds:
        try:
            fates += played(seed).fates
        except Exception:
            found.append(smallest(seed))
        if time.monotonic() >= until:
            break
    return fates, found

"""Many histories, and what went wrong in them."""

from __future__ import annotations

import gc
import logging
import time
from collections import Counter
from collections.abc import Iterable

from tests.simulation.replaying import played
from tests.simulation.shrinking import Found, GoesRightError, smallest


def search(seeds: Iterable[int], seconds: float) -> tuple[Counter[str], list[Found]]:
    """Play these, for so long at most; returns what became of how many exchanges, and all that went wrong."""
    logging.disable(logging.CRITICAL)
    gc.set_threshold(50_000, 20, 20)  # which is a tenth of the time otherwise
    fates, found = Counter[str](), list[Found]()
    until = time.monotonic() + seconds
    for seed in seeds:
        try:
            fates += played(seed).fates
        except Exception as error:
            found.append(_made_small(seed, error))
        if time.monotonic() >= until:
            break
    return fates, found


def _made_small(seed: int, error: Exception) -> Found:
    """What went wrong, also if it doesn't when the history is played again: that is a finding of its own."""
    try:
        return smallest(seed)
    except GoesRightError:
        return Found.once(seed, error)

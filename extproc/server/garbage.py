"""The garbage collector, which stops everybody while it looks: it has to find little, and to look at little at a time.

Exchanges leave nothing to it (`tests/test_garbage.py` holds that): what they are made of goes when they end. Only gRPC
makes a cycle of five objects for each call, when it looks for the call's method (grpcio 1.8x, `_find_method_handler`).
The first generation finds those, and is small: 2,000 objects take about a millisecond, the 10,000 of the second one
six on a busy machine. The third has all that lives, some 400 objects for a stream with 25 tools: that is looked at only
when hardly anything goes on. What was made at the start is never looked at again.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_FIRST, _SECOND = 2_000, 5
_NEVER = 1_000_000_000
_MINUTE = 60.0
_QUIET = 20
"""Exchanges under way; what they keep takes some 5 ms to look at."""


@contextmanager
def collector_off() -> Iterator[None]:
    """While modules are imported: they make a hundred thousand objects and no garbage, and to look for it again and
    again takes a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def collect_in_small_steps() -> None:
    """From now on, and nothing of what there is: imports leave hardly any, and to look for it would take 40 ms."""
    gc.freeze()
    gc.set_threshold(_FIRST, _SECOND, _NEVER)


async def collect_all_when_quiet(exchanges: Callable[[], int]) -> None:
    """Runs for ever; `exchanges` says how many are under way."""
    while True:
        await asyncio.sleep(_MINUTE)
        if exchanges() <= _QUIET:
            gc.collect()
            gc.freeze()  # what lives now may live for long, as what a reload has imported: it is looked at this once

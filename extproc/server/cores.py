"""How many processes of ours can work at the same time."""

from __future__ import annotations

import os
from typing import Literal

from extproc.config.settings import MOST_WORKERS


def worker_count(asked: int | Literal["auto"]) -> int:
    """The number that was asked for; `auto` is one for each core that this process may use.

    That are the cores that it may be put on (taskset, cpusets). A quota of processor time, as Kubernetes' `limits` are,
    doesn't count: it may be any part of the machine.
    """
    if asked != "auto":
        return asked
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_WORKERS)

"""`python -m tests.simulation [--seconds 30] [--processes 2] [--first SEED]` plays histories, others each time.

`--exchanges 5000000` goes on until so many were played; with `--state FILE` it can be ended at any time, and goes on
from there when it is started again. `--seed SEED` plays one again; `--keep 3,7-12` of it these events alone, and
`--without team` without its team. The exit status is 1 if one went wrong.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.simulation.course import DRAWN, WITHOUT, Course, Part
from tests.simulation.replaying import Drawn, played
from tests.simulation.searching import search

_AT_ONCE = 100
"""Histories, between two looks at what came of them."""


@dataclass(slots=True)
class _Progress:
    """What was played so far: all seeds from the first one up to the next one."""

    first: int
    next: int
    seconds: float = 0.0
    work: float = 0.0
    """Seconds of processor time."""
    fates: dict[str, int] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)

    @property
    def exchanges(self) -> int:
        return sum(many for fate, many in self.fates.items() if fate != "turned away")

    def __str__(self) -> str:
        told = ", ".join(f"{many} {fate}" for fate, many in Counter(self.fates).most_common())
        seeds = f"seeds {self.first} to {self.next - 1}, {self.exchanges} exchanges in {self.seconds:.0f} s"
        rate = self.exchanges / max(self.work, 1e-9)
        return f"{seeds}, {rate:.0f} in a second of processor time: {told}; {len(self.found)} went wrong"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Histories in virtual time.")
    parser.add_argument("--seconds", type=float, help="so long; default: 30")
    parser.add_argument("--exchanges", type=int, help="so many, or for so long")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", type=int, default=random.randrange(1 << 40), help="the first seed; default: any")
    parser.add_argument("--state", type=Path, help="where is kept what was played")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--keep", metavar="NUMBERS", help="of it these events alone: 3,7-12")
    parser.add_argument("--without", default="", help=f"and of what a history has, not this: {', '.join(WITHOUT)}")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        try:
            course = _course(options.seed, options.keep, options.without)
        except ValueError as error:
            parser.error(str(error))
        print(played(options.seed, course=course))
        return 0
    progress = _Progress(options.first, options.first)
    if options.state is not None and options.state.exists():
        progress = _Progress(**json.loads(options.state.read_text()))
    print(f"seeds from {progress.next} on", flush=True)
    seconds = options.seconds if options.seconds is not None else 30.0 if options.exchanges is None else math.inf
    many = options.exchanges if options.exchanges is not None else math.inf
    _play(progress, seconds, many, options.processes, options.state)
    print(progress)
    return int(bool(progress.found))


def _course(seed: int, keep: str | None, without: str) -> Course:
    """Raises ValueError."""
    if keep is None and not without:
        return DRAWN
    drawn = Drawn(seed)
    if keep is None:
        return drawn.course(Part(drawn.whole.events, Part.read("", without).without))
    return drawn.course(Part.read(keep, without))


def _play(progress: _Progress, seconds: float, many: float, processes: int, state: Path | None) -> None:
    begun, before = time.monotonic(), progress.seconds
    at_once = _AT_ONCE if seconds == math.inf else 1
    told = begun
    with ProcessPoolExecutor(processes, initializer=_begin, initargs=(os.getpid(),)) as pool:
        under_way: deque[Future[tuple[Counter[str], list[str], float]]] = deque()
        submitted = progress.next
        while True:
            over = time.monotonic() - begun >= seconds or progress.exchanges >= many
            while not over and len(under_way) < 2 * processes:
                under_way.append(pool.submit(_search, submitted, at_once))
                submitted += at_once
            if not under_way:
                break
            fates, found, work = under_way.popleft().result()
            progress.fates = dict(Counter(progress.fates) + fates)
            progress.next += at_once
            progress.work += work
            progress.found += found
            progress.seconds = before + time.monotonic() - begun
            for one in found:
                print(one, flush=True)
            if state is not None:
                state.write_text(json.dumps(asdict(progress)))
            if time.monotonic() - told > 60:
                told = time.monotonic()
                print(progress, flush=True)


def _begin(parent: int) -> None:
    """Collect garbage seldom, for an eighth more exchanges; and don't outlive the command, even if it is killed."""
    gc.freeze()
    gc.set_threshold(200_000, 50, 50)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _search(first: int, many: int) -> tuple[Counter[str], list[str], float]:
    begun = time.process_time()
    fates, found = search(range(first, first + many), math.inf)
    return fates, [str(one) for one in found], time.process_time() - begun


if __name__ == "__main__":
    sys.exit(main())

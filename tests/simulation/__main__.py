"""`python -m tests.simulation [--seconds 30] [--processes 2] [--first SEED]` plays histories, others each time.

`--seed SEED [--keep 3,7]` plays one again, or the part of it with these exchanges. The exit status is 1 if one went
wrong.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.searching import played, search


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Histories in virtual time.")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", type=int, default=random.randrange(1 << 40), help="the first seed; default: any")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--keep", help="of it these exchanges alone: 3,7")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        print(played(options.seed, [int(one) for one in options.keep.split(",")] if options.keep else None))
        return 0
    begun, many = time.monotonic(), options.processes
    print(f"seeds from {options.first} on", flush=True)
    fates = Counter[str]()
    failed = False
    with ProcessPoolExecutor(many) as pool:
        started = [pool.submit(_search, options.first + number, many, options.seconds) for number in range(many)]
        for one in started:
            came, found = one.result()
            fates += came
            if found is not None:
                failed = True
                print(found)
    seconds = time.monotonic() - begun
    told = ", ".join(f"{many} {fate}" for fate, many in fates.most_common())
    print(f"{fates.total()} exchanges in {seconds:.0f} s, {fates.total() / seconds:.0f} a second: {told}")
    return int(failed)


def _search(first: int, step: int, seconds: float) -> tuple[Counter[str], str | None]:
    fates, found = search(itertools.count(first, step), seconds)
    return fates, None if found is None else str(found)


if __name__ == "__main__":
    sys.exit(main())

"""Runs of many seeds, or of one."""

from __future__ import annotations

import argparse
import sys
import time

from tests.run_simulation.playing import many, simulate
from tests.simulation.virtual_time import virtual_time


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs in a world of chance.")
    parser.add_argument("--seed", type=int, help="play this one, and tell what happens")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    if asked.seed is not None:
        with virtual_time() as loop:
            print(simulate(asked.seed, loop, print))
        return 0
    begin = time.monotonic()
    ends = many(range(asked.first, asked.first + asked.runs))
    print(f"{asked.runs} runs in {time.monotonic() - begin:.1f} s: {dict(ends.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.http2.fuzz`: damaged frames (`damaged`) and honest exchanges (`exchanges`), others each time.

What goes wrong ends it with a traceback and the seed, which `--damaged` or `--exchange` plays again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from tests.http2 import damaged, exchanges


def main() -> int:
    parser = argparse.ArgumentParser(description="HTTP/2 in a world of chance.")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--first", type=int, default=random.randrange(10**9), help="the first seed")
    parser.add_argument("--damaged", type=int, metavar="SEED", help="play this one")
    parser.add_argument("--exchange", type=int, metavar="SEED", help="play this one")
    asked = parser.parse_args()
    if asked.damaged is not None:
        print(damaged.play(asked.damaged))
        return 0
    if asked.exchange is not None:
        print(exchanges.play(asked.exchange))
        return 0
    print(f"HTTP/2: first seed {asked.first}", flush=True)
    ends: Counter[str] = Counter()
    until, seed = time.monotonic() + asked.seconds, asked.first
    while time.monotonic() < until:
        ends += damaged.many(range(seed, seed + 10)) + exchanges.play(seed)
        seed += 10
    print(f"{seed - asked.first} scripts, {(seed - asked.first) // 10} worlds: {dict(ends.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

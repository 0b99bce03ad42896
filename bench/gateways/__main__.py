"""Measures this gateway beside its peers: `python -m bench.gateways [--quick] [--ways NAME,...] [--page]`.

The full run takes some twenty minutes on two cores, which should have nothing else to do; it is kept in bench/results,
and docs/performance.md with its pictures is made of it. A quick one takes three minutes, says whether everything still
runs, and leaves its numbers and its page in build/bench. `--page` measures nothing and only makes the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.gateways import page
from bench.gateways.measuring import run
from bench.gateways.peers import set_up
from bench.gateways.plan import FULL, QUICK, WAYS
from bench.gateways.results import RESULTS, newest
from tests.real_vllm.cache import SetupError

_QUICK = Path("build/bench")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gateways", description=__doc__.partition(":")[0])
    parser.add_argument("--quick", action="store_true", help="three minutes, few numbers, which aren't kept")
    parser.add_argument("--ways", default=",".join(way.name for way in WAYS), help="some of them: %(default)s")
    parser.add_argument("--page", action="store_true", help="make the page of what was measured before")
    options = parser.parse_args(arguments)
    if options.page:
        page.write(json.loads(newest().read_text()), page.DOCS)
        return 0
    names = options.ways.split(",")
    if unknown := {*names} - {way.name for way in WAYS}:
        parser.error(f"there is no way {', '.join(sorted(unknown))}")
    try:
        peers = set_up()
    except SetupError as error:
        print(f"what is needed can't be had: {error}", file=sys.stderr)
        return 1
    found = run(QUICK if options.quick else FULL, peers, names)
    for name, why in found["missing"].items():
        print(f"not measured: {name}: {why}", file=sys.stderr)
    partial = options.quick or len(names) < len(WAYS)
    target = _QUICK / "quick.json" if partial else RESULTS / f"{found['date']}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, indent=1) + "\n")
    pages = _QUICK if partial else page.DOCS
    page.write(found, pages)
    print(f"{target}, {pages / page.NAME}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

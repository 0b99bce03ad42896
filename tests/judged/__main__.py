"""`python -m tests.judged [NAME ...]`: judges other people's ext_proc servers, and writes what was found.

Without a name, all that can be installed from a registry; and with --checkout those too that need one. What was found
is put into results.json, and docs/conformance-others.md is made of it; --dry-run only tells.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.judged.judging import judged
from tests.judged.page import PAGE, RESULTS, page, summary
from tests.judged.servers import SERVERS
from tests.real_vllm.cache import SetupError


def main() -> int:
    """Returns the exit status: 1 if one couldn't be started."""
    parser = argparse.ArgumentParser(prog="python -m tests.judged", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(SERVERS)}")
    parser.add_argument(
        "--checkout", type=Path, metavar="PATH", help="the folder callouts/python of a checkout of Google's"
    )
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in SERVERS]:
        parser.error(f"no server is called {', '.join(unknown)}")
    names = options.names or [name for name, each in SERVERS.items() if options.checkout or not each.checkout]
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    failed = 0
    for name in names:
        try:
            found[name] = judged(SERVERS[name], options.checkout)
        except SetupError as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr)
            continue
        print(f"{name}: {summary(found[name])}", flush=True)
    found = {name: found[name] for name in SERVERS if name in found}
    if not options.dry_run:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page(found), encoding="utf-8")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

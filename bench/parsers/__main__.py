"""`python -m bench.parsers NAME ...`: judges parsers and gateways; --keep is for docs/tools-conformance.md.

What isn't installed is installed first, in pinned versions, into the cache directory.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from bench.parsers import bugs, results
from bench.parsers.contestants import NAMES, judged, python_of
from bench.parsers.page import write as write_page
from extproc.corpus import KINDS, Row, load
from extproc.corpus.peers.process import PeerError, running
from tests.real_vllm.cache import SetupError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.parsers", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--format", action="append", metavar="F", help="only rows of this format; may be repeated")
    parser.add_argument("--kind", choices=KINDS, help="only rows of this kind")
    parser.add_argument("--row", action="append", metavar="ID", help="only this row; may be repeated")
    parser.add_argument("--bugs", action="store_true", help="run the bugs of NAME again instead")
    parser.add_argument("--keep", action="store_true", help="keep the results, and write the page anew")
    options = parser.parse_args()
    if options.keep and (options.format or options.kind or options.row):
        parser.error("only results of all rows are kept")

    def rows(formats: Mapping[str, str]) -> list[Row]:
        chosen = [row for row in load(options.format or ()) if row.format in formats]
        chosen = [row for row in chosen if options.kind in (None, row.kind)]
        return [row for row in chosen if not options.row or row.id in options.row]

    status = 0
    for name in options.names:
        try:
            if options.bugs:
                _run_bugs(name, keep=options.keep)
                continue
            found = judged(name, rows)
        except (SetupError, RuntimeError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 2
            continue
        if options.keep:
            print(results.write(results.as_json(name, found)))
        else:
            print(found.report.as_text())
            status = max(status, int(bool(found.report.failures)))
    if options.keep:
        write_page()
    return status


def _run_bugs(name: str, *, keep: bool) -> None:
    try:
        with running(name, python_of(name)) as peer:
            known = bugs.rerun(peer, name)
    except (KeyError, PeerError) as error:
        raise RuntimeError(str(error)) from error
    for bug in known:
        if bug["project"] == name:
            state = "right now" if bugs.is_right(bug["came"], bug["right"]) else "still so"
            print(f"{state}: {bug['format']} {bug['way']}: {bug['came']}")
    if keep:
        bugs.write(known)


if __name__ == "__main__":
    sys.exit(main())

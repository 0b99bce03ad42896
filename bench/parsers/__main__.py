"""`python -m bench.parsers NAME ...`: judges parsers and gateways; --keep is for docs/tools-conformance.md.

What isn't installed is installed first, in pinned versions, into the cache directory.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping
from typing import Any

from bench.parsers import bugs, results
from bench.parsers.contestants import NAMES, Judged, judged, python_of
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
    parser.add_argument("--bug", action="append", default=[], metavar="ID", help="run this bug again; may be repeated")
    parser.add_argument("--keep", action="store_true", help="keep the results, and write the page anew")
    options = parser.parse_args()
    if options.keep and (options.kind or options.row):
        parser.error("only results of all rows of a format are kept")
    chosen = _bugs_of(options.names if options.bugs else (), options.bug)
    if unknown := set(options.bug) - {bug["id"] for bug in bugs.read()}:
        parser.error(f"there is no bug {', '.join(sorted(unknown))}")

    def rows(formats: Mapping[str, str]) -> list[Row]:
        chosen = [row for row in load(options.format or ()) if row.format in formats]
        chosen = [row for row in chosen if options.kind in (None, row.kind)]
        return [row for row in chosen if not options.row or row.id in options.row]

    status = 0
    for name in dict.fromkeys([*options.names, *chosen]):
        try:
            if options.bugs or options.bug:
                _run_bugs(name, chosen.get(name, ()), keep=options.keep)
                continue
            found = judged(name, rows)
        except (SetupError, RuntimeError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 2
            continue
        if options.keep:
            try:
                print(results.write(_to_keep(name, found, some=bool(options.format))))
            except ValueError as error:
                print(error, file=sys.stderr)
                status = 2
        else:
            print(found.report.as_text())
            status = max(status, int(bool(found.report.failures)))
    if options.keep:
        write_page()
    return status


def _to_keep(name: str, found: Judged, *, some: bool) -> dict[str, Any]:
    """What goes into the file; `some`: only some formats were judged, so the others stay. ValueError if they can't."""
    now = results.as_json(name, found)
    return results.merged(results.read()[name], now) if some else now


def _bugs_of(projects: Collection[str], ids: Collection[str]) -> dict[str, list[str]]:
    """The ids of all bugs of these projects, and these, by project."""
    chosen: dict[str, list[str]] = {}
    for bug in bugs.read():
        if bug["project"] in projects or bug["id"] in ids:
            chosen.setdefault(bug["project"], []).append(bug["id"])
    return chosen


def _run_bugs(name: str, ids: Collection[str], *, keep: bool) -> None:
    try:
        with running(name, python_of(name)) as peer:
            known = bugs.rerun(peer, ids, peer.versions[name])
    except (KeyError, PeerError) as error:
        raise RuntimeError(str(error)) from error
    for bug in known:
        if bug["id"] in ids:
            state = "right now" if bugs.is_right(bug["came"], bug["right"]) else "still so"
            print(f"{state}: {bug['format']} {bug['way']}: {bug['came']}")
    if keep:
        bugs.write(known)


if __name__ == "__main__":
    sys.exit(main())

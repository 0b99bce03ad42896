"""Runs of tools on our side: `python -m bench.runs [--runs 200] [--seconds 0.9] [--rounds 5] [--json]`.

Through `extproc up` with characters and a played model, on a loopback interface. Two measurements:

    delay     from the end of a tool to the next request at the model's backend, and beside it a client's own request
    hostile   the time between two words of eight ordinary streams while characters do harm, and while they don't

Reported of the first are milliseconds, p50 and p90; of the second by kind of harm p50, p99 and the longest without and
with it, and how the calls ended. Exits with 1 if a call ended in another way than it should, or a process is left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.runs.delay import NEXT, PLAIN, delays
from bench.runs.gateway import Gateway, running
from bench.runs.hostile import DIRECT, KINDS, NOTHING, RIGHT, STREAMS, Gaps, Harm, harms

MEASUREMENTS = ("delay", "hostile")
_MOST = 8
"""Workers that the two characters with tools may have."""
_WHEN = "without", "with"


def _percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def show_delays(gateway: Gateway, runs: int, *, as_json: bool) -> None:
    taken = asyncio.run(delays(gateway, runs))
    rows = {way: {f"p{at}": _percentile(each, at) for at in (10, 50, 90)} for way, each in taken.items()}
    if as_json:
        print(json.dumps(rows), flush=True)
        return
    print(f"{'ms':24}{'p10':>8}{'p50':>8}{'p90':>8}")
    for way, row in rows.items():
        print(f"{way:24}" + "".join(f"{value:8.2f}" for value in row.values()))
    ratio = rows[NEXT]["p50"] / rows[PLAIN]["p50"]
    print(f"a tool's end to the next request takes {ratio:.2f} times what a client's request takes (p50)\n", flush=True)


def show_harms(gateway: Gateway, options: argparse.Namespace) -> bool:
    """Whether all calls ended as they should."""

    def told(what: str) -> None:
        if sys.stderr.isatty():
            print(f"\r{what:40}", end="", file=sys.stderr, flush=True)

    seen = asyncio.run(harms(gateway, options.kinds.split(","), options.seconds, options.rounds, told))
    told("\r")
    if not options.json:
        print(f"{'':17}{'without':>18}{'with':>21}{'p99 moves':>18}   of which kind of stream")
        columns = "".join(f"{'p50':>7}{'p99':>7}{'max':>7}" for _ in _WHEN)
        print(f"{'ms':17}{columns}{'all':>8}{''.join(f'{name:>10}' for name in STREAMS)}{'calls':>8}  ended")
    for kind, harm in seen.items():
        _show_harm(kind, harm, as_json=options.json)
    return all(set(harm.answers) == ({RIGHT} if kind != NOTHING else set()) for kind, harm in seen.items())


def _show_harm(kind: str, harm: Harm, *, as_json: bool) -> None:
    windows = dict(zip(_WHEN, (harm.without, harm.during), strict=True))
    others = [name for name in STREAMS if name != DIRECT]
    through = {when: _numbers(each, others) for when, each in windows.items()}
    by_stream = {name: {when: _numbers(each, [name]) for when, each in windows.items()} for name in STREAMS}
    if as_json:
        told = {"kind": kind, **through, "streams": by_stream, "answers": harm.answers}
        print(json.dumps(told), flush=True)
        return
    cells = "".join(f"{value:7.1f}" for numbers in through.values() for value in numbers.values())
    moves = "".join(f"{_move(numbers):+10.1f}" for numbers in by_stream.values())
    wrong = {answer: number for answer, number in harm.answers.items() if answer != RIGHT}
    ended = str(wrong) if wrong else "as they should" if harm.answers else ""
    print(f"{kind:17}{cells}{_move(through):+8.1f}{moves}{harm.answers.total():8}  {ended}", flush=True)


def _move(numbers: Mapping[str, Mapping[str, float]]) -> float:
    without, during = (numbers[when]["p99"] for when in _WHEN)
    return during - without


def _numbers(windows: Sequence[Gaps], names: Sequence[str]) -> Mapping[str, float]:
    """Medians of the windows', so that a moment's trouble of the machine doesn't decide; and the longest of all."""
    gaps = [[gap for name in names for gap in window[name]] for window in windows]
    p50, p99 = (statistics.median(_percentile(each, at) for each in gaps) for at in (50, 99))
    return {"p50": p50, "p99": p99, "max": max(map(max, gaps))}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.runs", description=__doc__.partition(":")[0])
    parser.add_argument("--runs", type=int, default=200, help="of each way, for the delay")
    parser.add_argument("--seconds", type=float, default=0.9, help="of one window")
    parser.add_argument("--rounds", type=int, default=5, help="windows of each kind of harm")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of harm")
    parser.add_argument("--only", choices=MEASUREMENTS)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args(arguments)
    as_they_should = True
    with tempfile.TemporaryDirectory(prefix="bench") as folder:
        with running(Path(folder)) as gateway:
            if options.only != "hostile":
                show_delays(gateway, options.runs, as_json=options.json)
            if options.only != "delay":
                as_they_should = show_harms(gateway, options)
                as_they_should &= len(gateway.workers()) <= _MOST
        left = gateway.workers()
    if left:
        print(f"processes are left: {left}", file=sys.stderr)
    return 0 if as_they_should and not left else 1


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.fuzz`: broken outputs by the million. Exit status 1 when one of them is read wrongly."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from extproc.toolcalls import FORMATS, get_format
from tests.fuzz.checks import Check
from tests.fuzz.exploring import Finding, Learned, Slice, Trace, explore
from tests.fuzz.inputs import Input

_SLICE = 2_000
_MOST_KEPT = 300
_MOST_SHOWN = 2


@dataclass(slots=True)
class _Progress:
    """What is known of one format."""

    format: str
    inputs: int = 0
    asked: int = 0
    slices: int = 0
    seconds: float = 0.0
    kept: list[Input] = field(default_factory=list)
    seen: set[Trace] = field(default_factory=set)
    failures: Counter[tuple[Check, str]] = field(default_factory=Counter)

    def learn(self, learned: Learned, source: random.Random) -> None:
        self.inputs += learned.inputs
        self.seconds += learned.seconds
        self.seen |= learned.seen
        self.failures.update(learned.failures)
        for input_ in learned.kept:
            if len(self.kept) < _MOST_KEPT:
                self.kept.append(input_)
            else:
                self.kept[source.randrange(_MOST_KEPT)] = input_


def main() -> int:
    asked = _arguments()
    source = random.Random(asked.seed)
    print(f"seed {asked.seed}", flush=True)
    formats = [get_format(name).name for name in asked.formats.split(",")] if asked.formats else _all_formats()
    progress = [_Progress(name) for name in dict.fromkeys(formats)]
    each = None if asked.inputs is None else -(-asked.inputs // len(progress))
    checks = frozenset(Check) - {Check(name) for name in asked.without.split(",") if name}
    begin = time.monotonic()
    findings: list[Finding] = []
    with ProcessPoolExecutor(asked.processes) as pool:
        waiting = deque(progress)
        running: dict[Future[Learned], _Progress] = {}
        while True:
            over = asked.seconds is not None and time.monotonic() - begin > asked.seconds
            while waiting and len(running) < asked.processes and not over:
                one = waiting.popleft()
                inputs = _SLICE if each is None else min(_SLICE, each - one.asked)
                if inputs > 0:
                    running[pool.submit(explore, _slice(one, inputs, asked.seed, checks))] = one
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                one = running.pop(future)
                learned = future.result()
                one.learn(learned, source)
                waiting.append(one)
                for finding in learned.findings:
                    _show(finding)
                    findings.append(finding)
                    if asked.keep is not None:
                        _keep(finding, asked.keep)
    _print_table(progress, time.monotonic() - begin)
    return 1 if findings else 0


def _all_formats() -> list[str]:
    return [format_.name for format_ in FORMATS]


def _slice(one: _Progress, inputs: int, seed: int, checks: frozenset[Check]) -> Slice:
    one.asked += inputs
    one.slices += 1
    number = random.Random(f"{seed} {one.format} {one.slices}").getrandbits(48)
    known = frozenset(alike for alike, count in one.failures.items() if count)
    return Slice(one.format, number, inputs, checks, tuple(one.kept), frozenset(one.seen), known)


def _show(finding: Finding) -> None:
    failure = finding.failure
    row = finding.input.row()
    flags = " ".join(name for name, value in row.items() if value is True)
    tools = [tool["function"]["name"] for tool in finding.input.tools]
    print(f"\n{finding.input.format} {flags}: {failure.check.value} ({failure.detail}), tools {tools}")
    print(f"  {finding.input.text!r}\n  {failure.seen[:1000]}", flush=True)


def _keep(finding: Finding, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    failure = finding.failure
    row = finding.input.row() | {
        "failed": failure.check.value,
        "detail": failure.detail,
        "cut": list(failure.pieces),
        "seen": failure.seen,
    }
    with (directory / "findings.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _print_table(progress: list[_Progress], seconds: float) -> None:
    width = max(len(one.format) for one in progress)
    print(f"\n{'format':{width}} {'inputs':>10} {'per second':>10}  failures")
    for one in progress:
        failures = Counter[str]()
        for (check, _), count in one.failures.items():
            failures[check.value] += count
        listed = ", ".join(f"{name} {count}" for name, count in sorted(failures.items()))
        print(f"{one.format:{width}} {one.inputs:10} {one.inputs / (one.seconds or 1):10.0f}  {listed or '-'}")
    inputs = sum(one.inputs for one in progress)
    print(f"{'all':{width}} {inputs:10} {inputs / seconds:10.0f}  in {seconds:.0f} s", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--formats", help="their names, with commas; all when not given")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--inputs", type=int, help="how many of them, of all formats together")
    length.add_argument("--seconds", type=float, help="how long; 60 when nothing is said")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().getrandbits(32), help="for the same inputs again"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where to write what was found, as JSON lines")
    parser.add_argument(
        "--without", default="", help=f"checks to leave out: {', '.join(check.value for check in Check)}"
    )
    asked = parser.parse_args()
    if asked.inputs is None and asked.seconds is None:
        asked.seconds = 60.0
    return asked


if __name__ == "__main__":
    sys.exit(main())

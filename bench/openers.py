"""What hostile text costs: `python -m bench.openers [--formats a,b] [--json]`.

Texts that keep beginning what never comes: each marker of a format again and again, brackets, quotes, backslashes and
fences, by themselves and inside the value of a call. Each is fed whole and in pieces of four characters, at two sizes.
Reported are, for each format and way, the slowest opener in microseconds of processor time per kB and the one whose
time grows fastest, with its exponent (1 is linear, 2 is quadratic). With `--most 1.1` an exponent above that (measured
three times) makes the status 1.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from bench.text import CALLED, KILOBYTE, TOOLS
from extproc.toolcalls import FORMATS, Format, Parser, get_format
from extproc.toolcalls.table import Body

_PIECE = 4
_SIZES = {"whole": (16, 256), "pieces": (4, 64)}
"""kB, by how the text is fed."""
_ANYWHERE = (
    "{",
    "[",
    "(",
    "<",
    '"',
    "'",
    "\\",
    "`",
    "```\n",
    "{'a':",
    '{"a":',
    '{"a": "',
    "[1,",
    "f(",
    "f(a='",
    " ",
    "\n",
)


@dataclass(frozen=True, slots=True)
class Cost:
    """The worst of one format, fed in one way."""

    format: str
    fed: str
    slowest: str
    microseconds_per_kb: float
    steepest: str
    exponent: float


def openers(format_: Format) -> Iterator[tuple[str, str]]:
    """What is repeated, and what stands before it."""
    markers = {
        marker for state in format_.states.values() if not isinstance(state, Body) for marker in state.transitions
    }
    call, _, _ = format_.example.replace("get_weather", "write_file").replace("city", CALLED).partition("Paris")
    for unit in (*sorted(markers), *_ANYWHERE):
        yield unit, ""
        yield unit, call


def seconds(format_: Format, text: str, fed: str) -> float:
    """Processor time, the less disturbed of two runs."""
    pieces = [text] if fed == "whole" else [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    times = []
    for _ in range(2):
        parser = Parser(format=format_, tools=TOOLS)
        begin = time.process_time()
        for piece in pieces:
            parser.feed(piece)
        parser.close()
        times.append(time.process_time() - begin)
    return min(times)


def measure(format_: Format, fed: str) -> Cost:
    """The worst openers of a format."""
    small, large = _SIZES[fed]
    slowest, steepest = ("", 0.0), ("", 0.0)
    for unit, before in openers(format_):
        shown = f"{before[-20:]!r} + {unit!r}" if before else repr(unit)
        texts = [before + unit * (size * KILOBYTE // len(unit)) for size in (small, large)]
        exponent = math.inf
        for _ in range(3):  # what other work adds makes one of them large, not all
            took = [seconds(format_, text, fed) for text in texts]
            exponent = min(exponent, math.log(took[1] / max(took[0], 1e-6)) / math.log(large / small))
            if exponent <= 1.0:
                break
        slowest = max(slowest, (shown, took[1] * 1e6 / large), key=lambda one: one[1])
        steepest = max(steepest, (shown, exponent), key=lambda one: one[1])
    return Cost(format_.name, fed, *slowest, *steepest)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    options = _options(arguments)
    formats = [get_format(name) for name in options.formats] if options.formats else FORMATS
    costs = []
    if not options.json:
        print(f"{'format':18} {'fed':7}{'us/kB':>8}  {'slowest':44} {'grows':>6}  steepest")
    for format_ in formats:
        for fed in _SIZES:
            cost = measure(format_, fed)
            costs.append(cost)
            if not options.json:
                print(
                    f"{cost.format:18} {fed:7}{cost.microseconds_per_kb:8.0f}  {cost.slowest:44.44} "
                    f"{cost.exponent:6.2f}  {cost.steepest}",
                    flush=True,
                )
    if options.json:
        print(json.dumps([asdict(cost) for cost in costs], indent=1))
    return int(options.most is not None and any(cost.exponent > options.most for cost in costs))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.openers", description="Measure what hostile text costs.")
    parser.add_argument("--formats", type=lambda text: text.split(","), help="only these: hermes,glm47")
    parser.add_argument("--most", type=float, help="fail where time grows with a larger exponent")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

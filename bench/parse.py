"""What parsing costs: `python -m bench.parse [--formats a,b] [--sizes 1,4,16,64] [--runs 7] [--json]`.

One call of write_file, whose content is code of 1, 4, 16 and 64 kB, in every format, fed in pieces of four characters
as a model's tokens come. Reported are microseconds of processor time per kB of the model's text (the fastest of several
runs), the exponent with which the time grows from 4 to 64 kB (1 is linear, 2 is quadratic), and MB/s at 16 kB. What
was measured is checked: a format that doesn't give the code back says so. The last two columns are an answer fed in one
piece: MB/s at the largest size, and its growth.

Where vLLM or SGLang can be imported, their parsers of the same formats are measured beside ours (see `engines.py`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from bench.engines import ENGINES, Parse, UnavailableError
from bench.text import CALLED, KILOBYTE, TOOLS, code, model_text
from extproc.toolcalls import NAMED, ArgumentsDelta, Format, Parser, Variant, entry

_PIECE = 4
_SIZES = (1, 4, 16, 64)
_SECONDS_PER_SIZE = 2.0
"""A parser that has used up this much isn't run again at the size."""
_LONGEST_RUN = 10.0
"""... and one that is going to take this long isn't run at the next."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One parser and one format."""

    format: str
    parser: str
    microseconds_per_kb: dict[int, float] = field(default_factory=dict)
    """By the arguments' size in kB."""
    exponent: float | None = None
    """log-log slope from 4 kB (or the smallest) to the largest size."""
    megabytes_per_second: float | None = None
    """At 16 kB, or at the largest size below."""
    whole: float | None = None
    """MB/s of an answer that is fed in one piece, at the largest size. Of ours only: the others are given tokens."""
    whole_exponent: float | None = None
    """Its growth, from the size before."""
    note: str = ""


def parse_with_ours(format_: str, pieces: Sequence[str]) -> str:
    """Our parser over the pieces; returns the arguments of all calls."""
    parser = Parser(format=format_, tools=TOOLS)
    events = [event for piece in pieces for event in parser.feed(piece)]
    events += parser.close()
    return "".join(event.json for event in events if isinstance(event, ArgumentsDelta))


def measure(format_: Format | Variant, name: str, parse: Parse, sizes: Sequence[int], runs: int) -> Measured:
    """Time `parse` at each size, and check what it returns."""
    seconds: dict[int, float] = {}
    lengths: dict[int, int] = {}
    note = ""
    for size in sizes:
        text = model_text(format_, code(size))
        if seconds and _predicted(seconds, size) > _LONGEST_RUN:
            note = f"too slow for {size} kB"
            break
        pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
        times: list[float] = []
        while len(times) < runs and sum(times) < _SECONDS_PER_SIZE:
            begin = time.process_time()
            try:
                arguments = parse(format_.name, pieces)
            except UnavailableError as unavailable:
                return Measured(format_.name, name, note=str(unavailable))
            times.append(time.process_time() - begin)
        if not _is_the_call(arguments, code(size)):
            note = "the arguments come out wrong"
        seconds[size] = min(times)  # what else the machine does only ever adds to it
        lengths[size] = len(text)
    low, high = (4 if 4 in seconds and max(seconds) > 4 else min(seconds)), max(seconds)
    exponent = None
    if high > low:
        exponent = math.log(seconds[high] / seconds[low]) / math.log(lengths[high] / lengths[low])
    whole, whole_exponent = _whole(format_, parse, sorted(seconds)[-2:], runs) if name == "ours" else (None, None)
    at = max((size for size in seconds if size <= 16), default=low)
    per_kb = {size: seconds[size] * 1e6 / (lengths[size] / KILOBYTE) for size in seconds}
    return Measured(format_.name, name, per_kb, exponent, lengths[at] / seconds[at] / 1e6, whole, whole_exponent, note)


def _whole(
    format_: Format | Variant, parse: Parse, sizes: Sequence[int], runs: int
) -> tuple[float | None, float | None]:
    """MB/s at the last size, and the exponent from the one before."""
    fastest: list[tuple[int, float]] = []
    for size in sizes:
        text = model_text(format_, code(size))
        times = []
        for _ in range(runs):
            begin = time.process_time()
            parse(format_.name, [text])
            times.append(time.process_time() - begin)
        fastest.append((len(text), min(times)))
    length, took = fastest[-1]
    shorter, before = fastest[0]
    exponent = math.log(took / before) / math.log(length / shorter) if length > shorter else None
    return length / took / 1e6, exponent


def _predicted(seconds: dict[int, float], size: int) -> float:
    """How long a run will take if it goes on as from the size before last to the last."""
    *before, last = seconds
    growth = math.log(seconds[last] / seconds[before[-1]]) / math.log(last / before[-1]) if before else 1.0
    return seconds[last] * math.pow(size / last, growth)


def _is_the_call(arguments: str, content: str) -> bool:
    try:
        return bool(json.loads(arguments) == {CALLED: content})
    except ValueError:
        return False


def heading(sizes: Sequence[int]) -> str:
    """The first line of the table."""
    heads = "".join(f"{f'{size} kB':>9}" for size in sizes)
    return f"{'format':18} {'parser':7}{heads}{'grows':>7}{'MB/s':>7}{'whole':>8}{'grows':>7}"


def line(one: Measured, sizes: Sequence[int]) -> str:
    """One line of it."""
    cells = [f"{one.microseconds_per_kb[size]:.0f}" if size in one.microseconds_per_kb else "" for size in sizes]
    grows = f"{one.exponent:.2f}" if one.exponent is not None else ""
    speed = f"{one.megabytes_per_second:.2f}" if one.megabytes_per_second is not None else ""
    columns = "".join(f"{cell:>9}" for cell in cells)
    whole = f"{one.whole:.0f}" if one.whole is not None else ""
    whole_grows = f"{one.whole_exponent:.2f}" if one.whole_exponent is not None else ""
    return f"{one.format:18} {one.parser:7}{columns}{grows:>7}{speed:>7}{whole:>8}{whole_grows:>7}  {one.note}".rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    options = _options(arguments)
    formats = [entry(name) for name in options.formats] if options.formats else NAMED
    absent = []
    contenders: dict[str, Parse] = {"ours": parse_with_ours}
    for engine in ENGINES:
        try:
            contenders[engine.name] = engine.load()
        except ImportError as missing:
            absent.append(f"{engine.name} is not measured: it can't be imported here ({missing}).")
    if not options.json:
        print(f"Microseconds per kB of model text, in pieces of {_PIECE} characters; load {os.getloadavg()[0]:.1f}.\n")
        print(heading(options.sizes))
    measured = []
    for format_ in formats:
        for name, parse in contenders.items():
            measured.append(measure(format_, name, parse, options.sizes, options.runs))
            if not options.json:
                print(line(measured[-1], options.sizes), flush=True)
    if options.json:
        print(json.dumps([asdict(one) for one in measured], indent=1))
    else:
        print("", *absent, sep="\n")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.parse", description="Measure what parsing costs.")
    parser.add_argument("--formats", type=lambda text: text.split(","), help="only these: hermes,glm47")
    parser.add_argument(
        "--sizes", type=lambda text: [int(size) for size in text.split(",")], default=_SIZES, help="kB of arguments"
    )
    parser.add_argument("--runs", type=int, default=7, help="the fastest of this many (default 7)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

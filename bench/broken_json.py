"""How many calls in broken JSON come out right: `python -m bench.broken_json [--wrong]`.

The calls are those of `tests/samples/broken_json.jsonl`: slips of models, each with the arguments that were meant. A
call counts as valid when its arguments are a JSON object, and as right when that is the one that was meant.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from extproc.toolcalls import Parsed, parse

SAMPLES = Path(__file__).parent.parent / "tests" / "samples" / "broken_json.jsonl"
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def rows() -> list[dict[str, Any]]:
    """`means` are the arguments that were meant; rows without it are those in which that can't be told."""
    return [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").split("\n") if line]


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def arguments(parsed: Parsed) -> dict[str, Any] | None:
    """Those of the only call, if they are a JSON object."""
    if len(parsed.calls) != 1:
        return None
    try:
        value = json.loads(parsed.calls[0].arguments, parse_constant=_no_constant)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def main() -> None:
    parser = argparse.ArgumentParser(description="How many calls in broken JSON come out right.")
    parser.add_argument("--wrong", action="store_true", help="also say which don't")
    options = parser.parse_args()
    meant = [row for row in rows() if "means" in row]
    valid = right = 0
    for row in meant:
        try:
            got = arguments(parse(row["text"], format=row["format"], tools=TOOLS))
        except AssertionError:
            got = None
        valid += got is not None
        is_right = json.dumps(got, sort_keys=True) == json.dumps(row["means"], sort_keys=True)
        right += is_right
        if options.wrong and not is_right:
            print(f"{row['id']}: {got}")
    print(f"{len(meant)} calls: {valid} valid, {right} right")


if __name__ == "__main__":
    main()

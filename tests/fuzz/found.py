"""What the fuzzer found, and was repaired: one JSON line each, in `found.jsonl`."""

from __future__ import annotations

from pathlib import Path

from tests.sample_rows import Row, rows

FILE = Path(__file__).with_name("found.jsonl")


def found() -> list[Row]:
    """An input's fields, the check that failed (`failed`), and an `id` that says what broke.

    A row whose check is "growth" has the place of what is repeated, as `repeat`.
    """
    return rows(FILE)

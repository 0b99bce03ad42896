"""Samples: an output, what it should become, and whether it does, in every cut.

A row says where it comes from, and which parts of its expectation its source asserts; only those are compared. Rows
with a `content_policy` differ between engines in what becomes of text after a call, so only their calls count. In those
with `expect_cut_off` the last call is cut off: engines show it as text, here it is a call as far as it came. A call
with `broken` instead of arguments is no JSON, and comes out as that text. With `"reasoning": "open"` the prompt has
opened the thinking already.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest

from extproc.toolcalls import Call, Parsed
from tests.cuts import cuts, parsed
from tests.json_values import same

Row: TypeAlias = dict[str, Any]

SAMPLES = Path(__file__).parent / "samples"
NO_CALL = "no call; the text (or nothing) comes back as content, never an exception"


def rows(file: Path) -> list[Row]:
    # A row may hold what `splitlines` takes for a line break.
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]


def mostly_long(samples: Sequence[Row]) -> list[Any]:
    """For a test of each of them: every eighth is in `make test`, the others are in `make test-long`."""
    return [
        pytest.param(sample, id=sample["id"], marks=[pytest.mark.long] if at % 8 else [])
        for at, sample in enumerate(samples)
    ]


def wrong(row: Row, got: Parsed) -> list[str]:
    """What differs from the row's expectation."""
    asserted = set(row["asserted"])
    if row.get("sane_outcome") == NO_CALL:
        asserted.add("names")
    elif row.get("malformed"):
        asserted |= {"names", "args"}  # "recover exactly the calls shown"
    expected = row["expect_calls"]
    differs = []
    calls = got.calls
    if cut_off := row.get("expect_cut_off"):
        *calls, last = calls
        if last != Call(**cut_off, whole=False):
            differs.append("cut off")
    if asserted & {"names", "args"} and [call.name for call in calls] != [call["name"] for call in expected]:
        differs.append("names")
    elif "args" in asserted and not all(map(_as_expected, calls, expected)):
        differs.append("args")
    if (
        "content" in asserted
        and not row.get("content_policy")
        and (got.content or "").strip() != (row["expect_content"] or "").strip()
    ):
        differs.append("content")
    if "expect_reasoning" in row and (got.reasoning or "").strip() != (row["expect_reasoning"] or "").strip():
        differs.append("reasoning")
    return differs


def _as_expected(call: Call, expected: Row) -> bool:
    if "broken" in expected:
        return bool(call.arguments == expected["broken"])
    return same(json.loads(call.arguments), expected["arguments"])


def reasoning_of(row: Row) -> Literal["open"] | None:
    """ "open" when the output begins inside thinking: the row says so, or nothing stands before what was thought."""
    if row.get("reasoning") == "open":
        return "open"
    thought = row.get("expect_reasoning")
    return "open" if thought and row["text"].startswith(thought) else None


def assert_right_in_every_cut(row: Row) -> None:
    whole: Parsed | None = None
    for pieces in cuts(row["text"]):
        got = parsed(pieces, format=row["format"], tools=row.get("tools"), reasoning=reasoning_of(row))
        if whole is None:
            whole = got
            differs = wrong(row, got)
            assert not differs, f"{differs} of {got}"
        assert got == whole, pieces

"""Outputs of models in every format, collected from the tests of vLLM and SGLang: each is right in every cut.

A row says where it comes from, and which parts of its expectation its source asserts; only those are compared. Rows
with a `content_policy` differ between engines in what becomes of text after a call, so only their calls count. In those
with `expect_cut_off` the last call is cut off: engines show it as text, here it is a call as far as it came.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from extproc.toolcalls import Call, Parsed
from tests.cuts import cuts, parsed
from tests.json_values import same

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "samples" / "formats.jsonl").read_text(encoding="utf-8").split("\n")
    if line
]
NO_CALL = "no call; the text (or nothing) comes back as content, never an exception"


def wrong(row: dict[str, Any], got: Parsed) -> list[str]:
    """What differs from the row's expectation."""
    asserted = set(row["asserted"])
    if row.get("sane_outcome") == NO_CALL:
        asserted.add("names")
    elif row["malformed"]:
        asserted |= {"names", "args"}  # "recover exactly the calls shown"
    expected = row["expect_calls"]
    differs = []
    calls = got.calls
    if cut_off := row.get("expect_cut_off"):
        *calls, last = calls
        if last != Call(**cut_off):
            differs.append("cut off")
    if asserted & {"names", "args"} and [call.name for call in calls] != [call["name"] for call in expected]:
        differs.append("names")
    elif "args" in asserted and not same(
        [json.loads(call.arguments) for call in calls], [call["arguments"] for call in expected]
    ):
        differs.append("args")
    if (
        "content" in asserted
        and not row.get("content_policy")
        and (got.content or "").strip() != (row["expect_content"] or "").strip()
    ):
        differs.append("content")
    if "expect_reasoning" in row and (got.reasoning or "").strip() != row["expect_reasoning"].strip():
        differs.append("reasoning")
    return differs


def reasoning_of(row: dict[str, Any]) -> Literal["open"] | None:
    """ "open" when the output begins inside thinking: nothing stands before it."""
    thought = row.get("expect_reasoning")
    return "open" if thought and row["text"].startswith(thought) else None


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_every_output_is_right_in_every_cut(row: dict[str, Any]) -> None:
    whole: Parsed | None = None
    for pieces in cuts(row["text"]):
        got = parsed(pieces, format=row["format"], tools=row["tools"], reasoning=reasoning_of(row))
        if whole is None:
            whole = got
            assert wrong(row, got) == [], got
        assert got == whole, pieces


def test_rows_are_told_apart_by_values_and_not_by_spelling() -> None:
    assert same({"n": 1, "l": [1.0, "a"]}, {"l": [1, "a"], "n": 1.0})
    assert not same({"flag": True}, {"flag": 1})
    assert not same({"flag": False}, {"flag": None})
    assert not same([1, 2], [1])

"""Outputs that were once read wrongly, in the tests of no engine: what was mended stays mended, in every cut."""

from __future__ import annotations

import pytest

from tests.sample_rows import SAMPLES, Row, assert_right_in_every_cut, rows

ROWS = [row for file in sorted((SAMPLES / "mended").glob("*.jsonl")) for row in rows(file)]


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_what_was_mended_is_right_in_every_cut(row: Row) -> None:
    assert_right_in_every_cut(row)


def test_each_row_has_an_id_of_its_own() -> None:
    ids = [row["id"] for row in ROWS]
    assert sorted({id_ for id_ in ids if ids.count(id_) > 1}) == []

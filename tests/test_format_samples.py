"""Outputs of models in every format: from the tests of vLLM and SGLang, and such as were once read wrongly.

Each is right in every cut. The files are named as the modules of `extproc/toolcalls/formats`.
"""

from __future__ import annotations

import pytest

from tests.json_values import same
from tests.sample_rows import SAMPLES, Row, assert_right_in_every_cut, rows

ROWS = [row for file in sorted((SAMPLES / "formats").glob("*.jsonl")) for row in rows(file)]


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_every_output_is_right_in_every_cut(row: Row) -> None:
    assert_right_in_every_cut(row)


def test_each_row_has_an_id_of_its_own() -> None:
    ids = [row["id"] for row in ROWS]
    assert sorted({id_ for id_ in ids if ids.count(id_) > 1}) == []


def test_rows_are_told_apart_by_values_and_not_by_spelling() -> None:
    assert same({"n": 1, "l": [1.0, "a"]}, {"l": [1, "a"], "n": 1.0})
    assert not same({"flag": True}, {"flag": 1})
    assert not same({"flag": False}, {"flag": None})
    assert not same([1, 2], [1])

"""docs/tools-conformance.md says what the results say, and they are of the corpus as it is."""

from __future__ import annotations

import pytest

from bench.parsers import bugs, results
from bench.parsers.contestants import PARSERS
from bench.parsers.page import PAGE, added, cell, page
from extproc.corpus import Verdict, load

FOUND = results.read()


def test_the_page_is_that_of_the_results() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert page(FOUND, bugs.read()) == written, "run python -m bench.parsers --keep"
    score = FOUND["vllm"]["scores"]["hermes"]["well_formed"]
    assert f"| `hermes` | `hermes` | {cell(score)} |" in written
    for name in PARSERS:
        assert f"`python -m bench.parsers {name} --format hermes`" in written


def test_the_results_are_of_the_corpus_as_it_is() -> None:
    for name, found in FOUND.items():
        assert found["judged"].keys() == found["scores"].keys() == found["formats"].keys()
        digests = {format_: run["rows"] for format_, run in found["judged"].items()}
        assert digests == {format_: results.rows_digest(format_) for format_ in digests}, (
            f"run python -m bench.parsers {name} --keep, with --format for some"
        )
    assert set(PARSERS) <= set(FOUND)
    rows = load()
    for name in PARSERS:
        for format_, scores in FOUND[name]["scores"].items():
            counted = {kind: score["rows"] for kind, score in scores.items()}
            there = [row for row in rows if row.format == format_]
            assert counted == {kind: sum(row.kind == kind for row in there) for kind in counted}
            assert sum(counted.values()) == len(there)


def test_what_is_wrong_and_what_is_right_make_all_rows() -> None:
    for found in FOUND.values():
        wrong = found["wrong"]
        scores = [kinds["well_formed"] for kinds in found["scores"].values()]
        assert sum(score["rows"] - score["passed"] for score in scores) == len(wrong)


@pytest.mark.parametrize(
    ("score", "shown"),
    [
        ({"rows": 4, "whole": 4, "streamed": 4, "cut": 4}, "4/4"),
        ({"rows": 4, "whole": 4, "streamed": 3, "cut": 1}, "4·3·1/4"),
        (None, ""),
    ],
)
def test_a_cell_tells_the_ways_apart_where_they_differ(score: dict[str, int] | None, shown: str) -> None:
    assert cell(score) == shown


def test_scores_add_up() -> None:
    assert added([{"rows": 1, "whole": 1}, None, {"rows": 2, "whole": 0}]) == {"rows": 3, "whole": 1}
    assert added([]) == {}


def test_reasons_are_kept_by_the_way_in_which_a_row_failed() -> None:
    verdict = Verdict("hermes:x", "hermes", "well_formed", None, "in 3 pieces: content", "in 2 pieces: " + "x" * 500)
    kept = results.reasons(verdict)
    assert set(kept) == {"streamed", "cut"}
    assert len(kept["cut"]) < 200


def test_a_format_that_is_judged_again_alone_leaves_the_others() -> None:
    def kept(commit: str, formats: dict[str, int], wrong: dict[str, dict[str, str]]) -> dict[str, object]:
        return {
            "name": "vllm",
            "versions": {"vllm": "1"},
            "judged": {format_: {"commit": commit} for format_ in formats},
            "formats": {format_: format_ for format_ in formats},
            "scores": {format_: {"well_formed": {"rows": rows}} for format_, rows in formats.items()},
            "wrong": wrong,
        }

    before = kept("old", {"hermes": 1, "hy_v4": 2}, {"hermes:a": {"whole": "x"}, "hy_v4:a": {"whole": "x"}})
    now = kept("new", {"hy_v4": 3}, {"hy_v4:b": {"cut": "y"}})
    assert results.merged(before, now) == kept("old", {"hermes": 1}, {}) | {
        "judged": {"hermes": {"commit": "old"}, "hy_v4": {"commit": "new"}},
        "formats": {"hermes": "hermes", "hy_v4": "hy_v4"},
        "scores": {"hermes": {"well_formed": {"rows": 1}}, "hy_v4": {"well_formed": {"rows": 3}}},
        "wrong": {"hermes:a": {"whole": "x"}, "hy_v4:b": {"cut": "y"}},
    }
    with pytest.raises(ValueError, match=r"vllm: what is kept is of .*, so all formats have to be judged"):
        results.merged(before, now | {"versions": {"vllm": "2"}})


def test_every_bug_has_the_version_in_which_it_was_seen() -> None:
    known = bugs.read()
    assert known
    assert {bug["version"] for bug in known if bug["project"] == "vllm"} == {FOUND["vllm"]["versions"]["vllm"]}
    assert all(bug["version"] and f"(`{bug['id']}`)" in PAGE.read_text(encoding="utf-8") for bug in known)


def test_one_bug_is_run_again_alone() -> None:
    one, other = bugs.read()[:2]
    again = bugs.rerun(lambda _: [{"content": "now"}], [one["id"]], "9")
    assert again[0] == one | {"came": {"content": "now", "reasoning": "", "calls": []}, "version": "9"}
    assert again[1] == other

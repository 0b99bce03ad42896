"""docs/conformance.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from extproc.conformance.cases import CASES
from extproc.conformance.cases.case import REFUSALS
from extproc.conformance.envoys.page import SAME
from extproc.conformance.envoys.releases import RELEASES
from extproc.conformance.faults import FAULTS
from extproc.conformance.invariants import BY_ID, INVARIANTS
from extproc.conformance.recipe import read
from extproc.conformance.verdicts import Verdict

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "conformance.md").read_text(encoding="utf-8")
MEASURED = (DOCS / "conformance-envoys.md").read_text(encoding="utf-8")
WORDS = {
    "504": "504",
    "hangs": "hang",
    "the response is cut": "cut",
    "500 `": "500",
    "its body goes out": "goes out",
    "bytes": "truncated|lost|fine",
    "as if nothing were wrong": "ignored|nothing|stays|dropped|as a success",
    "is empty": "empty",
    "counts it": "count",
}
"""What the invariants' last column says of each effect on the page."""


def test_the_invariants_are_those_of_the_code() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| INV-")]
    assert rows == [
        f"| {each.id} | {each.level.value} | {each.text} | {each.source} | {each.consequence} |" for each in INVARIANTS
    ]


def test_the_recipe_is_one() -> None:
    [sample] = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    recipe = read(yaml.safe_load(sample))
    assert recipe.refused is not None
    assert recipe.mutated is not None
    assert (recipe.refused.status, recipe.mutated.request_body) == (401, b'{"name": "B"}')
    assert recipe.passes.request.first("authorization") == b"Bearer test"
    fields = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert set(yaml.safe_load(sample)) == set(fields)


def test_verdicts_sections_and_refusals_are_told() -> None:
    first_cells = re.findall(r"^\| (\w+) \|", PAGE, re.MULTILINE)
    assert {verdict.value for verdict in Verdict} <= set(first_cells)
    assert {case.id.partition("-")[0] for case in CASES} <= set(first_cells)
    assert [status for status in REFUSALS if f"`{status}`" not in PAGE] == []


def test_what_was_measured_is_of_these_faults_and_releases() -> None:
    rows = [line.strip("| ").split(" | ") for line in MEASURED.splitlines() if line.startswith("| INV-")]
    told = [f"{invariant} {fault.rpartition(' (')[0]}" for invariant, fault, *_ in rows]
    assert told == [str(fault) for fault in FAULTS]
    assert f"| invariant | fault | {' | '.join(RELEASES)} |" in MEASURED
    assert all(release in PAGE for release in RELEASES)


def test_the_last_column_of_the_invariants_is_what_was_measured() -> None:
    rows = [line.strip("| ").split(" | ") for line in MEASURED.splitlines() if line.startswith("| INV-")]
    untold = [
        (invariant, fault, effect)
        for invariant, fault, *effects in rows
        for effect in effects
        for word, expected in WORDS.items()
        if word in effect.replace(SAME, "")
        if not re.search(expected, BY_ID[invariant].consequence)
    ]
    assert untold == []


def test_simulated_host_and_envoys_agreed_wherever_both_could_play() -> None:
    cells = re.findall(r"(\d+) of (\d+) agree", MEASURED)
    assert len(cells) == 3 * len(RELEASES)
    assert [cell for cell in cells if cell[0] != cell[1]] == []


def test_no_case_failed_by_our_own_server() -> None:
    head, *rows = [
        line.strip("| ").split(" | ")
        for line in MEASURED.splitlines()
        if line.startswith(("| server | host |", "| extproc |"))
    ]
    assert len(rows) == 1 + len(RELEASES)
    at = head.index("FAIL")
    assert head[at + 1] == "which fail"
    assert {tuple(row[at : at + 2]) for row in rows} == {("0", "none")}


def test_numbers_that_are_missing_are_accounted_for() -> None:
    """Each section is numbered from 1; what isn't played stands in a table of its own."""
    rows = re.findall(r"^\| ((?:[A-Z]{3}-\d\d(?:, )?)+) \|", PAGE, re.MULTILINE)
    told = {id_ for row in rows for id_ in row.split(", ") if not id_.startswith("INV-")}
    played = {case.id.partition(".")[0] for case in CASES}
    assert told & played == set()
    last: dict[str, int] = {}
    for id_ in told | played:
        last[id_[:3]] = max(last.get(id_[:3], 0), int(id_[4:]))
    assert {
        f"{section}-{number:02}" for section, most in last.items() for number in range(1, most + 1)
    } == told | played

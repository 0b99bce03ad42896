"""docs/conformance.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from extproc.conformance.cases import CASES
from extproc.conformance.cases.case import REFUSALS
from extproc.conformance.invariants import INVARIANTS
from extproc.conformance.recipe import read
from extproc.conformance.verdicts import Verdict

PAGE = (Path(__file__).parents[1] / "docs" / "conformance.md").read_text(encoding="utf-8")


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

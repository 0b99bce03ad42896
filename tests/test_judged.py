"""docs/conformance-others.md is what was found, and what is to be reported was found indeed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.conformance.recipe import PROFILES
from extproc.conformance.runner import SUITE, chosen
from tests.judged.findings import FINDINGS, Finding
from tests.judged.page import PAGE, RESULTS, page
from tests.judged.servers import SERVERS, Judged

FOUND: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))


def test_the_page_is_made_of_the_results() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(FOUND)


def names(server: Judged) -> str:
    return server.name


@pytest.mark.parametrize("server", SERVERS.values(), ids=names)
def test_a_row_is_whole(server: Judged) -> None:
    """Every case of the profiles that its recipe names, with the versions that are pinned. What an older suite found
    stays until it is judged anew, which not everybody can do: there newer cases are missing, and no others."""
    told = FOUND[server.name]
    recipe = server.read_recipe()
    assert set(recipe.profiles) <= set(PROFILES)
    ids = [case.id for case in chosen(recipe.profiles)]
    found = [result["id"] for result in told["results"]]
    if told["suite"] == SUITE:
        assert found == ids
    assert int(told["suite"]) <= int(SUITE)
    assert found == [id_ for id_ in ids if id_ in found], "no case goes, and none is renamed"
    assert sum(told["counts"].values()) == len(found)
    assert told["versions"] == server.versions()
    assert len(told["behind envoy"]) >= 22


def shown(finding: Finding) -> str:
    return f"{finding.servers[0]} {finding.case}"


@pytest.mark.parametrize("finding", FINDINGS, ids=shown)
def test_a_finding_is_in_the_results(finding: Finding) -> None:
    for name in finding.servers:
        [result] = [each for each in FOUND[name]["results"] if each["id"] == finding.case]
        assert result["verdict"] in ("FAIL", "WARN")
        assert not finding.invariant or finding.invariant in result["invariants"]
        if finding.envoy is None:
            continue
        what, status, whole = finding.envoy
        rows = [row for row in FOUND[name]["behind envoy"] if what in (row["layout"], row["what"])]
        assert (rows[0]["status"], rows[0]["whole"], rows[0]["differs"]) == (status, whole, None)

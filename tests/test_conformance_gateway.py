"""The conformance suite judges the gateway's own processor by its recipe (tests/conformance): nothing of it fails, as
docs/conformance.md says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from extproc.config import load
from extproc.conformance.cases import CASES
from extproc.conformance.recipe import PROFILES, Recipe
from extproc.conformance.runner import chosen, run
from extproc.conformance.verdicts import Result, Verdict
from extproc.exchange.context import ExchangeContext
from extproc.observability.telemetry import Telemetry
from extproc.server.processor import Processor
from tests.conformance_ours import APART, FOLDER, RECIPE
from tests.documented.blocks import block
from tests.documented.stage import Stage
from tests.gateway import free_port
from tests.in_thread import in_thread
from tests.site.pages import ROOT

REFUSED = {
    *(f"LAY-0{number}" for number in range(1, 5)),  # nothing of a request's body, which names its model
    *(f"LAY-{number:02}" for number in range(9, 13)),  # BUFFERED_PARTIAL
    "LAY-17",  # FULL_DUPLEX_STREAMED/NONE: overrides are ignored, and nothing else asks for an answer's body
    "LAY-24",  # full duplex, of which nothing tells
    "LAY-28",  # send_body_without_waiting_for_header_response, with which overrides are ignored
    "LAY-29",  # no headers of requests
    "LAY-30",
    "OAI-20",  # `:path` and `:method` are hidden
    "OAI-21",
}
"""The cases whose layout can't be right."""


def judged(recipe: Recipe, patterns: Sequence[str] = (), left_out: Sequence[str] = ()) -> list[Result]:
    """By a processor that nothing has happened to."""
    config, address = load(FOLDER / "extproc.yaml"), f"127.0.0.1:{free_port()}"
    with in_thread(Processor(ExchangeContext(config), Telemetry(config)).running(address)):
        return list(asyncio.run(run(address, recipe, patterns=patterns, left_out=left_out)).results)


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    others = judged(RECIPE, left_out=[*chain(*APART)])
    return {result.id: result for result in (*others, *chain(*(judged(RECIPE, each) for each in APART)))}


def test_nothing_fails(results: dict[str, Result]) -> None:
    found = {id_: str(result.finding) for id_, result in results.items() if result.finding.verdict is Verdict.FAIL}
    assert found == {}
    assert len(results) == len(list(chosen(PROFILES)))


def test_nothing_is_refused_but_what_cannot_be_right(results: dict[str, Result]) -> None:
    refused = {id_ for id_, result in results.items() if result.finding.verdict is Verdict.REFUSES}
    assert refused == REFUSED
    for id_ in refused:
        reason = results[id_].finding.reason
        assert "FAILED_PRECONDITION: " in reason, (id_, reason)
        assert "configure Envoy" in reason, "it says what to set"


def test_next_to_nothing_is_left_out(results: dict[str, Result]) -> None:
    skipped = {id_: result.finding.reason for id_, result in results.items() if result.finding.verdict is Verdict.SKIP}
    assert skipped == {}


def test_it_is_warned_of_raw_text_that_only_the_host_could_keep_back(results: dict[str, Result]) -> None:
    warned = {id_: result.finding.reason for id_, result in results.items() if result.finding.verdict is Verdict.WARN}
    assert warned.pop("OAI-23").endswith("; 3 times, then the client gets 503")
    assert results["OAI-24"].finding.reason == "the client gets 503", "it has noticed by then"
    assert set(warned) <= {"LIV-07"}, "a busy machine is slow"


def test_a_call_reaches_the_client_in_every_layout_that_is_played(results: dict[str, Result]) -> None:
    for number in (1, 2, *range(5, 14)):
        finding = results[f"OAI-{number:02}"].finding
        assert (finding.verdict, finding.reason) == (Verdict.PASS, ""), number
    for id_ in APART[0]:
        assert results[id_].finding.reason == "the client gets 502"


@pytest.mark.long
def test_the_documented_runs_pass(tmp_path: Path) -> None:
    """Each with a fresh server, whose command is the first."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    stage = Stage(tmp_path, {"127.0.0.1:9000": f"127.0.0.1:{free_port()}"})
    serve, *judges = block("docs/conformance.md", "extproc serve").splitlines()
    told = set[str]()
    for judge in judges:
        with stage.serving(serve, "is ready"):
            said = re.findall(r"^([A-Z]+) +([A-Z]{3}-\S+)", stage.run(judge), re.MULTILINE)
        assert {id_ for _, id_ in said} & told == set(), "no case is played twice"
        assert "FAIL" not in {verdict for verdict, _ in said}
        told |= {id_ for _, id_ in said}
    assert told == {case.id for case in CASES}


def test_the_recipe_claims_all_that_is_played(results: dict[str, Result]) -> None:
    played = {
        result.layout
        for result in results.values()
        if result.layout and result.finding.verdict in (Verdict.PASS, Verdict.WARN)
    }
    assert set(RECIPE.layouts) == played
    assert replace(RECIPE, layouts=()).profiles == PROFILES

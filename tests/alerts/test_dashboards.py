"""Each query of each dashboard is answered by a real Prometheus, which has watched a real run."""

from __future__ import annotations

import math
import os

import pytest

from tests.alerts import pictures
from tests.alerts.everyday import SLOW, Seen, play
from tests.dashboards import DASHBOARDS
from tests.dashboards.grafana import Panel

pytestmark = pytest.mark.alerts

NEVER = {
    ("Unfinished, and broken off by us", 1): "the processor breaks nothing off: tests/alerts has it do so",
    ("Backends: turned away, cut, out of reach", 0): "where keys are asked for the processor does it, with a 429",
    ("Queue of large bodies", 0): "no body of the run is large enough to be read elsewhere",
    ("Its bytes", 0): "the same",
    ("Workers started again, conversations forgotten", 0): "no worker dies",
    ("Workers started again, conversations forgotten", 1): "there is room for all conversations",
    ("Transport: replies that Envoy hasn't taken", 0): "Envoy takes them at once, unless the machine is busy",
}
"""Queries that may show nothing, or nothing but 0, by their panel and number, with the reason."""
QUERIES = [
    pytest.param(dashboard.uid, panel, number, id=f"{dashboard.uid}-{panel.title}-{number}")
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
    if panel.source == "metrics"
    for number in range(len(panel.queries))
]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    played = play(tmp_path_factory.mktemp("everyday"))
    if os.environ.get("PICTURES"):
        pictures.write(played)
    return played


def values(seen: Seen, uid: str, title: str, number: int = 0) -> dict[str, list[float]]:
    """Those of a query that are numbers, by the name of their series."""
    found: dict[str, list[float]] = {}
    for series in seen.answers[uid][title][number].series:
        numbers = [value for _, value in series.points if not math.isnan(value)]
        found[series.name] = found.get(series.name, []) + numbers
    return found


@pytest.mark.parametrize(("uid", "panel", "number"), QUERIES)
def test_it_is_answered(seen: Seen, uid: str, panel: Panel, number: int) -> None:
    found = values(seen, uid, panel.title, number)
    numbers = [value for each in found.values() for value in each]
    may_be_nothing = (panel.title, number) in NEVER
    assert numbers or may_be_nothing, "no series"
    most = 1 if panel.unit == "percentunit" else math.inf
    assert all(0 <= value <= most for value in numbers)
    assert any(numbers) or may_be_nothing
    assert all(found) or panel.kind == "stat", "a series without a name"


def test_what_is_not_asked_of_prometheus_is_known() -> None:
    others = {
        panel.title: panel.source for dashboard in DASHBOARDS for panel in dashboard.panels if panel.source != "metrics"
    }
    assert others == {
        "Its trace": "traces",
        "Its lines in the access log, and in the logs of the processor": "logs",
        "Tokens by key": "logs",
    }, "no Tempo and no Loki takes part in the run"


def test_numbers_are_those_of_the_run(seen: Seen) -> None:
    first = values(seen, "extproc-models", "Time to first token, median")
    assert min(first["thinker"]) > SLOW / 2, "it is between two bounds of a histogram"
    valid = values(seen, "extproc-models", "Valid calls, by model, mode and format")
    assert 0.8 < valid["coder: prompt hermes"][-1] < 1
    assert 0.5 < valid["thinker: template qwen3_coder"][-1] < 1
    ended = values(seen, "extproc-gateway", "Cut, left, late: which model's")
    assert {"coder: cut_by_backend", "coder: left_by_client"} <= ended.keys()


@pytest.mark.parametrize("title", ["Time to first token, with exemplars", "Whole answers, with exemplars"])
def test_exemplars_lead_to_traces(seen: Seen, title: str) -> None:
    dots = [dot for answer in seen.answers["extproc-exchange"][title] for dot in answer.dots]
    led = {dot.labels["trace_id"] for dot in dots if "trace_id" in dot.labels}
    assert led
    assert led <= {span.trace for span in seen.spans}

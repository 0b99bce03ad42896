"""Grafana gets the dashboards that are in code, and they ask for what Prometheus has.

That each query is answered, tests/alerts/test_dashboards.py sees in a real Prometheus.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any
from xml.etree import ElementTree

import promql_parser
import pytest

from tests.dashboards import DASHBOARDS
from tests.dashboards.answers import Answer, Series
from tests.dashboards.drawing import PICTURES, picture
from tests.dashboards.grafana import COLUMNS, OBSERVABILITY, Dashboard, Panel, Query, Row
from tests.generate_dashboards import FOLDER, files
from tests.k8s.rendered import K8S, of_kind, rendered

OBJECTS = rendered(K8S / "overlays/monitoring")
each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.uid)


def panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    return [panel for panel in dashboard.json()["panels"] if panel["type"] != "row"]


def test_the_files_are_fresh() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert there == files(), "run `python -m tests.generate_dashboards`"


def test_grafanas_sidecar_finds_each_of_them() -> None:
    shipped = [
        each["data"]
        for each in of_kind(OBJECTS, "ConfigMap")
        if each["metadata"].get("labels", {}).get("grafana_dashboard") == "1"
    ]
    assert sorted((name, text) for data in shipped for name, text in data.items()) == sorted(files().items())
    # `kubectl apply` keeps a copy in an annotation, where quotes take twice the room: 256 KiB are all that there is.
    assert max(len(json.dumps(data)) for data in shipped) < 150_000


@each_dashboard
def test_it_is_laid_out_without_gaps_or_overlaps(dashboard: Dashboard) -> None:
    taken: set[tuple[int, int]] = set()
    shown = dashboard.json()["panels"]
    assert len({panel["id"] for panel in shown}) == len(shown)
    for panel in shown:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        taken |= cells


@each_dashboard
def test_each_query_is_promql_and_needs_only_what_is_chosen(dashboard: Dashboard) -> None:
    variables = {each["name"] for each in dashboard.json()["templating"]["list"]}
    for panel in panels(dashboard):
        for target in panel.get("targets", []):
            text = target.get("expr", target.get("query"))
            asked = set(re.findall(r"\$(\w+)", text)) - {"__rate_interval", "__range", "__auto"}
            assert asked <= variables, panel["title"]
            assert target["datasource"]["uid"][2:-1] in variables
            if panel["datasource"]["type"] == "prometheus":
                promql_parser.parse(re.sub(r"\$__\w+", "5m", text))


@each_dashboard
def test_each_panel_says_what_it_means(dashboard: Dashboard) -> None:
    assert len({panel.title for panel in dashboard.panels}) == len(dashboard.panels)
    for panel in dashboard.panels:
        assert len(panel.description) > 20 or panel.kind == "text", panel.title


@each_dashboard
def test_its_picture_shows_every_panel(dashboard: Dashboard) -> None:
    path = PICTURES / f"{dashboard.uid.removeprefix('extproc-')}.svg"
    texts = [element.text for element in ElementTree.parse(path).iter() if element.tag.endswith("text")]
    titles = [panel["title"] for panel in dashboard.json()["panels"]]
    assert [title for title in texts if title in titles] == titles, "run `make test-alerts PICTURES=1`"
    assert path.stat().st_size < 150_000


def test_a_picture_shows_what_was_answered_and_where_nothing_was() -> None:
    number = Panel("One number", "stat", "s", [Query("up", "it")], below=1)
    line = Panel("A line", queries=[Query("up", "it")])
    empty = Panel("An empty one", queries=[Query("up", "it")])
    dashboard = Dashboard("some", "Some", "", [Row("Here", [number, line, empty])])
    moments = [(0.0, math.nan), (10.0, 0.25), (60.0, 0.5)]
    answers = {panel.title: [Answer([Series("it", moments)])] for panel in (number, line)}
    texts = [each.text for each in ElementTree.fromstring(picture(dashboard, answers)).iter() if each.text]
    assert {"500 ms", "One number", "A line", "An empty one", "Here"} <= set(texts)
    assert texts.count("No data") == 1


def test_every_metric_of_ours_is_on_a_dashboard() -> None:
    told = OBSERVABILITY.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `((?:extproc|gen_ai)_\w+)", told.partition("## Changes")[0], re.MULTILINE)
    shown = " ".join(query.expr for dashboard in DASHBOARDS for panel in dashboard.panels for query in panel.queries)
    assert len(rows) > 50
    assert {name for name in rows if name not in shown} == NOT_SHOWN.keys()


NOT_SHOWN = {
    "extproc_split_requests_total": "which models an alias's requests go to, extproc_requests_total shows by model",
    "extproc_ignored_overrides_total": "extproc_host_follows_overrides says what comes of it",
    "extproc_config_reloads_total": "whether a file is in force is shown; how it came to that, the log tells",
    "extproc_api_keys_reloads_total": "the same",
    "extproc_api_keys_unreadable_lines": "extproc_api_keys_valid is 0 then, and the log has the lines",
    "extproc_api_keys_missing": "an alert tells at once",
    "extproc_api_keys_closed": "an alert tells at once",
}

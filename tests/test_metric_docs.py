"""docs/metrics.md is what the registries say, and what the pages of metrics say."""

from __future__ import annotations

import re

from extproc.config import parse
from extproc.observability.run_metrics import RunMetrics
from extproc.observability.telemetry import Telemetry
from tests.generate_metric_docs import PAGE, page, processors, runners

OBSERVABILITY = PAGE.with_name("observability.md").read_text(encoding="utf-8")
LEAST = "models: [{name: m, backend: b, tools: native}]\nbackends: [{name: b, address: 'b:1'}]\n"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.generate_metric_docs`"


def test_names_types_and_help_are_those_of_the_pages_of_metrics() -> None:
    served = (Telemetry(parse(LEAST), "0").page() + RunMetrics().page()).decode()
    ours = re.findall(r"^# HELP ((?:extproc|gen_ai)_\w+) (.*)\n# TYPE \w+ (\w+)$", served, re.MULTILINE)
    shown = {(name, kind, text) for name, text, kind in ours if not name.endswith("_created")}
    told = [*processors(), *runners()]
    assert {(one.name, "gauge" if one.kind == "info" else one.kind, one.help) for one in told} == shown


def test_labels_are_those_that_are_explained() -> None:
    tables = re.findall(r"^\| metric \|.*\n\| ---.*\n((?:\|.*\n)+)", OBSERVABILITY, re.MULTILINE)
    explained = re.findall(r"^\| `(\w+)(?:\{(.*)\})?` \|", "".join(tables), re.MULTILINE)
    rows = {(name, frozenset(filter(None, labels.split(",")))) for name, labels in explained}
    told = {(one.name, frozenset(one.labels)) for one in (*processors(), *runners())}
    assert told - rows == set()
    ours = {row for row in rows if row[0].startswith(("extproc_", "gen_ai_"))}
    assert ours - told == set()


def test_help_is_one_line_that_fits_in_a_cell() -> None:
    assert [one.name for one in (*processors(), *runners()) if not one.help or re.search(r"[|\n]", one.help)] == []

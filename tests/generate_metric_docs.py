"""Writes docs/metrics.md from what a processor and a runner count by: `python -m tests.generate_metric_docs`.

A test fails when the page is stale. What to do when a metric rises is told by hand, in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from extproc.config import parse
from extproc.observability.run_metrics import RunMetrics
from extproc.observability.telemetry import Telemetry

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"

_LIBRARYS = ("process_", "python_")
"""How the names begin of what prometheus-client counts of any process: which there are depends on the system."""
_LEAST = "models: [{name: m, backend: b, tools: native}]\nbackends: [{name: b, address: 'b:1'}]\n"
_SUFFIXES = {"counter": "_total", "info": "_info"}
"""What Prometheus' text format puts behind a family's name."""

_HEAD = """\
# Every metric

Name, type, labels and help text of each metric, as the pages of metrics have them. What they mean in practice, and what
to do when one rises, is in [What can be seen from outside](observability.md#metrics), with all else about the pages.

An info is a gauge that is always 1: its labels are what it tells. A histogram is `NAME_bucket` (with the label `le`),
`NAME_count` and `NAME_sum`. prometheus-client's `process_*` and `python_gc_*` aren't listed.

`python -m tests.generate_metric_docs` writes this page from the registries in `extproc/observability/`.
"""


@dataclass(frozen=True)
class Told:
    """What a page says of a metric."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str
    bounds: tuple[float, ...]
    """Of a histogram; without the last, which is infinite."""


def metrics_of(registry: CollectorRegistry) -> Iterator[Told]:
    """The metrics of our own, in the page's order."""
    for collector in registry._collector_to_names:
        for family in collector.collect():
            if not family.name.startswith(_LIBRARYS):
                name = family.name + _SUFFIXES.get(family.type, "")
                yield Told(name, family.type, _labels(collector, family), family.documentation, _bounds(collector))


def processors() -> list[Told]:
    """Those of the processor."""
    return list(metrics_of(Telemetry(parse(_LEAST), "0").registry))


def runners() -> list[Told]:
    """Those of the runner."""
    return list(metrics_of(RunMetrics()._registry))


def page() -> str:
    """The whole page."""
    parts = {"The processor": processors(), "The runner": runners()}
    tables = "".join(f"\n## {heading}\n\n{_table(metrics)}" for heading, metrics in parts.items())
    bounds = "".join(
        f"| `{metric.name}` | {', '.join(f'{bound:.12g}' for bound in metric.bounds)} |\n"
        for metrics in parts.values()
        for metric in metrics
        if metric.bounds
    )
    return f"{_HEAD}{tables}\n## Bounds of the histograms\n\n| metric | bounds |\n| --- | --- |\n{bounds}"


def _table(metrics: Sequence[Told]) -> str:
    return "| metric | type | labels | help |\n| --- | --- | --- | --- |\n" + "".join(map(_row, metrics))


def _row(metric: Told) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help.rstrip('.')} |\n"


def _labels(collector: Any, family: Any) -> tuple[str, ...]:
    """prometheus-client's own collectors have them, and so have the families that ours make; an info's are what it
    tells."""
    if family.type == "info":
        return tuple(family.samples[0].labels)
    named: Sequence[str] = getattr(family, "_labelnames", ()) or getattr(collector, "_labelnames", ())
    return tuple(named)


def _bounds(collector: Any) -> tuple[float, ...]:
    bounds: Sequence[float] = getattr(collector, "_bounds", ()) or getattr(collector, "_upper_bounds", ())
    return tuple(bound for bound in bounds if bound != float("inf"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(PAGE.parent.parent))

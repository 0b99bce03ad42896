"""What a Prometheus answers to a dashboard's queries, as Grafana would ask them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tests.alerts.prometheus import Prometheus
from tests.dashboards.grafana import Dashboard, Query

RATE = 10
"""Seconds that rates are told of: in Grafana four looks at a pod, or more where much time is shown."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a graph; where a panel shows one number, it is the last."""

    name: str
    """By the query's legend."""
    points: Sequence[tuple[float, float]]
    """Times in seconds since the beginning, and values."""


@dataclass(frozen=True, slots=True)
class Dot:
    """An exemplar: one request."""

    time: float
    value: float
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """To one query."""

    series: Sequence[Series]
    dots: Sequence[Dot] = ()


Answers: TypeAlias = Mapping[str, Sequence[Answer]]
"""To each query of a dashboard's panels on metrics, by the panel's title."""


@dataclass(frozen=True, slots=True)
class Span:
    """Of time, in seconds since 1970."""

    begin: float
    end: float


def ask(prometheus: Prometheus, dashboard: Dashboard, span: Span, namespaces: str) -> Answers:
    """All that a dashboard shows, of namespaces that match."""
    return {
        panel.title: [_answer(prometheus, query, span, namespaces) for query in panel.queries]
        for panel in dashboard.panels
        if panel.source == "metrics" and panel.queries
    }


def _answer(prometheus: Prometheus, query: Query, span: Span, namespaces: str) -> Answer:
    expr = query.promql.replace("$namespace", namespaces).replace("$model", ".*")
    expr = expr.replace("$__rate_interval", f"{RATE}s").replace("$__range", f"{round(span.end - span.begin)}s")
    series = [
        Series(_named(query.legend, labels), [(time - span.begin, value) for time, value in points])
        for labels, points in prometheus.range(expr, span.begin, span.end)
    ]
    dots = prometheus.exemplars(expr, span.begin, span.end) if query.exemplars else []
    return Answer(series, [Dot(time - span.begin, value, labels) for labels, time, value in dots])


def _named(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda label: labels.get(label[1], ""), legend).strip()

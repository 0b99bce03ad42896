"""Dashboards as data, and the JSON that Grafana reads of them (schema version 39, Grafana 10.4 and newer).

A query is PromQL, with these words for what every query has to say:

- `{OURS}`, `{MODEL}`, `{ASKED}`: the namespaces that are chosen above the dashboard, and the models too, by the label
  that our own metrics have for them, or OpenTelemetry's; more matchers may follow: `{MODEL, end="error"}`;
- `[RATE]` and `[SPAN]`: the shortest time that a rate can be told of, and all the time that is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["timeseries", "stat", "bargauge", "text", "traces", "logs"]
Source: TypeAlias = Literal["metrics", "traces", "logs"]
"""A data source that is chosen above the dashboard."""

OBSERVABILITY = Path(__file__).parents[2] / "docs" / "observability.md"
SCHEMA = 39
COLUMNS = 24

_PLUGINS = {"metrics": "prometheus", "traces": "tempo", "logs": "loki"}
_NAMESPACE = 'namespace=~"$namespace"'
_MATCHERS = {
    "OURS": _NAMESPACE,
    "MODEL": f'{_NAMESPACE}, model=~"$model"',
    "ASKED": f'{_NAMESPACE}, gen_ai_request_model=~"$model"',
}
_SPANS = {"[RATE]": "[$__rate_interval]", "[SPAN]": "[$__range]"}


@dataclass(frozen=True, slots=True)
class Query:
    """One, whose series are named by `legend`, in which `{{label}}` is a label's value."""

    expr: str
    legend: str
    exemplars: bool = False

    @property
    def promql(self) -> str:
        """As Grafana gets it, with Grafana's variables."""
        text = re.sub(r"\{(OURS|MODEL|ASKED)\b", lambda word: "{" + _MATCHERS[word[1]], self.expr)
        for word, span in _SPANS.items():
            text = text.replace(word, span)
        return text


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture of a dashboard, of one or more queries."""

    title: str
    kind: Kind = "timeseries"
    unit: str = "short"
    """Grafana's name of it."""
    queries: Sequence[Query] = ()
    says: str = ""
    """What it shows, and what to do; what docs/observability.md has of the metrics follows by itself."""
    stacked: bool = False
    above: float | None = None
    """From here on it is bad, and red."""
    below: float | None = None
    """And up to here."""
    width: int = 8
    height: int = 7
    source: Source = "metrics"

    @property
    def description(self) -> str:
        """What stands behind the panel's "i"."""
        named = dict.fromkeys(name for query in self.queries for name in re.findall(r"\w+", query.expr))
        told = [f"`{name}`: {_MEANINGS[name]}" for name in (_family(name) for name in named) if name in _MEANINGS]
        return "\n\n".join([*([self.says] if self.says else []), *dict.fromkeys(told)])


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Dashboard:
    uid: str
    title: str
    about: str
    rows: Sequence[Row]
    models: bool = True
    """Whether models may be chosen."""
    asks: Sequence[tuple[str, str]] = ()
    """Fields for a text, each with its label."""

    @property
    def panels(self) -> list[Panel]:
        """All of them."""
        return [panel for row in self.rows for panel in row.panels]

    def json(self) -> Json:
        """What Grafana imports."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.about,
            "tags": ["extproc"],
            "schemaVersion": SCHEMA,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,  # one crosshair for all panels
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "timezone": "browser",
            "annotations": {"list": []},
            "links": [_LINKS],
            "templating": {"list": self._variables()},
            "panels": self._laid_out(),
        }

    def _variables(self) -> list[Json]:
        sources = dict.fromkeys(["metrics", *(panel.source for panel in self.panels)])
        made = [_source(name) for name in sources]
        made.append(_choice("namespace", "label_values(extproc_build_info, namespace)"))
        if self.models:
            made.append(_choice("model", 'label_values(extproc_requests_total{namespace=~"$namespace"}, model)'))
        return made + [{"name": name, "label": label, "type": "textbox", "query": ""} for name, label in self.asks]

    def _laid_out(self) -> list[Json]:
        made: list[Json] = []
        y = 0
        for row in self.rows:
            place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
            made.append({"type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []})
            x, y, tallest = 0, y + 1, 0
            for panel in row.panels:
                if x + panel.width > COLUMNS:
                    x, y, tallest = 0, y + tallest, 0
                made.append(_panel(panel) | {"gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height}})
                x, tallest = x + panel.width, max(tallest, panel.height)
            y += tallest
        return [{"id": number, **panel} for number, panel in enumerate(made, 1)]


def quantile(share: float, histogram: str, *by: str) -> str:
    """The value that this share of those in a histogram is below."""
    name, brace, matchers = histogram.partition("{")
    labels = ", ".join(["le", *by])
    return f"histogram_quantile({share}, sum by ({labels}) (rate({name}_bucket{brace}{matchers}[RATE])))"


def mean(histogram: str, *by: str) -> str:
    """What those in a histogram come to on the average."""
    name, brace, matchers = histogram.partition("{")
    total, count = (
        f"sum by ({', '.join(by)}) (rate({name}_{part}{brace}{matchers}[RATE]))" for part in ("sum", "count")
    )
    return f"{total} / ({count} > 0)"


def _panel(panel: Panel) -> Json:
    made: Json = {"type": panel.kind, "title": panel.title, "description": panel.description}
    if panel.kind == "text":
        return made | {"description": "", "options": {"mode": "markdown", "content": panel.says}}
    source = {"type": _PLUGINS[panel.source], "uid": f"${{{panel.source}}}"}
    return made | {
        "datasource": source,
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _options(panel),
        "targets": [_target(panel, query, number, source) for number, query in enumerate(panel.queries)],
    }


def _field(panel: Panel) -> Json:
    steps: list[Json] = [{"color": "green" if panel.below is None else "red", "value": None}]
    if panel.below is not None:
        steps.append({"color": "green", "value": panel.below})
    if panel.above is not None:
        steps.append({"color": "red", "value": panel.above})
    by_steps = panel.kind != "timeseries"
    field: Json = {
        "unit": panel.unit,
        "color": {"mode": "thresholds" if by_steps else "palette-classic"},
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.unit == "percentunit":
        field |= {"min": 0, "max": 1}
    if panel.kind == "timeseries":
        field["min"] = 0
        field["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stacked else 0,
            "showPoints": "never",
            "spanNulls": True,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "off" if panel.above is panel.below is None else "dashed"},
        }
    return field


def _options(panel: Panel) -> Json:
    reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    match panel.kind:
        case "timeseries":
            legend = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
            return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
        case "stat":
            return {"reduceOptions": reduced, "colorMode": "value", "graphMode": "area", "textMode": "value_and_name"}
        case "bargauge":
            return {"reduceOptions": reduced, "orientation": "horizontal", "displayMode": "basic", "showUnfilled": True}
        case "logs":
            return {"showTime": True, "wrapLogMessage": True, "sortOrder": "Ascending", "enableLogDetails": True}
    return {}


def _target(panel: Panel, query: Query, number: int, source: Json) -> Json:
    made: Json = {"refId": "ABCDEFGH"[number], "datasource": source}
    if panel.source == "traces":
        return made | {"queryType": "traceql", "query": query.expr}
    made |= {"expr": query.promql, "legendFormat": query.legend, "editorMode": "code"}
    if panel.source == "logs":
        return made | {"queryType": "range"}
    instant = panel.kind in ("stat", "bargauge")
    return made | {"range": not instant, "instant": instant, "exemplar": query.exemplars}


def _source(name: str) -> Json:
    plugin = _PLUGINS[name]
    return {"name": name, "label": name.capitalize(), "type": "datasource", "query": plugin, "refresh": 1, "hide": 0}


def _choice(name: str, query: str) -> Json:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${metrics}"},
        "definition": query,
        "query": {"query": query, "refId": "StandardVariableQuery"},
        "refresh": 2,  # with each change of the time
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",  # a Prometheus without the Operator gives no namespace
        "current": {"text": ["All"], "value": ["$__all"]},
    }


_LINKS: Json = {
    "title": "extproc",
    "type": "dashboards",
    "tags": ["extproc"],
    "asDropdown": False,
    "includeVars": True,
    "keepTime": True,
}


def _family(name: str) -> str:
    """The metric that a sample belongs to."""
    return name if name in _MEANINGS else re.sub(r"_(bucket|sum|count)$", "", name)


def _meanings() -> dict[str, str]:
    """What docs/observability.md says of each metric, and of its rise, without links: they lead nowhere from here."""
    rows = re.findall(r"^\| `(\w+)(?:\{[^`]*)?` \| (.+?) \| (.*?) ?\|$", OBSERVABILITY.read_text("utf-8"), re.MULTILINE)
    told = {name: f"{counts}." + (f" *When it rises:* {rises}." if rises else "") for name, counts, rises in rows}
    return {name: re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text) for name, text in told.items()}


_MEANINGS = _meanings()

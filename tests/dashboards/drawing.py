"""Draws a dashboard as SVG: its JSON says what stands where, and a Prometheus' answers what is to be seen.

For docs/dashboards.md, whose pictures are made where there is no Grafana. They take the colours of the page around
them: light or dark, as the reader's system has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from tests.dashboards.answers import Answer, Answers
from tests.dashboards.grafana import COLUMNS, Dashboard, Panel
from tests.dashboards.plots import STYLE, Box, bars, graph, lines_of_text, numbers, prose, text, waterfall

PICTURES = Path(__file__).parents[2] / "docs" / "pictures" / "dashboards"

_WIDTH = 1280
_COLUMN = _WIDTH / COLUMNS
_UNIT = 25
_GAP = 4
_TITLE = 22
_HEAD = 34
_SAID = "Drawn from the dashboard's JSON and the answers of a real Prometheus, not by Grafana."


@dataclass(frozen=True, slots=True)
class Beside:
    """What panels show that don't ask Prometheus, by their titles."""

    spans: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Of one trace (tests.collector.Span)."""
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of a log."""
    answers: Answers = field(default_factory=dict)
    seconds: float = 60.0
    """How long all of it was looked at."""


def picture(dashboard: Dashboard, answers: Answers, beside: Beside | None = None) -> str:
    """The whole dashboard, 1280 wide."""
    beside = beside or Beside()
    made = dashboard.json()
    panels = {panel.title: panel for panel in dashboard.panels}
    body = [text(12, 22, made["title"], "dashboard"), text(_WIDTH - 12, 22, _SAID, "small end")]
    height = 0.0
    for each in made["panels"]:
        place = each["gridPos"]
        box = Box(
            place["x"] * _COLUMN + _GAP,
            _HEAD + place["y"] * _UNIT + _GAP,
            place["w"] * _COLUMN - 2 * _GAP,
            place["h"] * _UNIT - 2 * _GAP,
        )
        height = max(height, box.bottom)
        if each["type"] == "row":
            body.append(text(box.x + 4, box.bottom - 3, each["title"], "row"))
        else:
            body += _panel(panels[each["title"]], box, {**answers, **beside.answers}, beside)
    size = f'viewBox="0 0 {_WIDTH} {height + _GAP:.0f}" width="{_WIDTH}" height="{height + _GAP:.0f}"'
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">', f"<title>{escape(made['title'])}</title>"]
    return "\n".join(
        [*head, f"<style>{STYLE}</style>", '<rect class="page" width="100%" height="100%"/>', *body, "</svg>\n"]
    )


def _panel(panel: Panel, box: Box, answers: Answers, beside: Beside) -> list[str]:
    inner = Box(box.x + 8, box.y + _TITLE, box.width - 16, box.height - _TITLE - 6)
    card = [box.rect("card"), text(box.x + 8, box.y + 15, panel.title, "title")]
    return card + _content(panel, inner, answers.get(panel.title, ()), beside)


def _content(panel: Panel, inner: Box, found: Sequence[Answer], beside: Beside) -> list[str]:
    if panel.title in beside.spans:
        return waterfall(inner, beside.spans[panel.title])
    if panel.title in beside.lines:
        return lines_of_text(inner, beside.lines[panel.title], "mono")
    series = [each for answer in found for each in answer.series]
    match panel.kind:
        case "text":
            return prose(inner, panel.says)
        case "stat":
            return numbers(inner, panel, series)
        case "timeseries":
            return graph(inner, panel, series, [dot for answer in found for dot in answer.dots], beside.seconds)
    return bars(inner, panel, series)

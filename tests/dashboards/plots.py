"""What is inside of a panel, as SVG: lines, bars, numbers, a trace, text."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from tests.dashboards.answers import Dot, Series
from tests.dashboards.grafana import Panel

_LIGHT = "#1f77b4 #d9822b #2e8540 #8250df #c0392b #0a7ea4 #9a6700 #bf3989 #57606a #5b8c00".split()
_DARK = "#5aa9e6 #f2a65a #57c77a #b48cff #ff7b72 #39c5cf #e3b341 #f778ba #8b949e #a5d645".split()
STYLE = (
    "text{font:11px sans-serif;fill:#24292f}.page{fill:#f6f8fa}.card{fill:#fff;stroke:#d0d7de}"
    ".dashboard{font-size:16px;font-weight:bold}.row{font-size:13px;font-weight:bold}.title{font-weight:600}"
    ".small{fill:#57606a}.mono{font:10.5px monospace}.end{text-anchor:end}.middle{text-anchor:middle}"
    ".number{font-size:24px;font-weight:600}.good{fill:#2e8540}.bad{fill:#c0392b}.grid{stroke:#d8dee4}"
    ".limit{stroke:#c0392b;stroke-dasharray:4 3}.dot{fill:none;stroke-width:1.2}.empty{fill:#eaeef2}"
    + "".join(f".f{at}{{fill:{c}}}.l{at}{{stroke:{c};fill:none;stroke-width:1.4}}" for at, c in enumerate(_LIGHT))
    + "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}.card{fill:#161b22;stroke:#30363d}"
    ".small{fill:#9da7b1}.good{fill:#57c77a}.bad{fill:#ff7b72}.grid{stroke:#2a3038}.limit{stroke:#ff7b72}.empty{fill:#21262d}"
    + "".join(f".f{at}{{fill:{c}}}.l{at}{{stroke:{c}}}" for at, c in enumerate(_DARK))
    + "}"
)
_LETTER = 5.9
"""How wide one is, on the average, in these fonts."""
_AXIS, _LEGEND, _LINE = 62, 30, 14
_MOST = 60
"""Points of a line: more can't be told apart."""


@dataclass(frozen=True, slots=True)
class Box:
    """Where something stands."""

    x: float
    y: float
    width: float
    height: float

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def rect(self, style: str) -> str:
        """Its outline, or itself."""
        place = f'x="{self.x:.1f}" y="{self.y:.1f}" width="{max(self.width, 0):.1f}" height="{self.height:.1f}"'
        return f'<rect class="{style}" {place} rx="2"/>'


def text(x: float, y: float, said: str, style: str = "") -> str:
    """One line."""
    return f'<text x="{x:.1f}" y="{y:.1f}"' + (f' class="{style}"' if style else "") + f">{escape(said)}</text>"


def graph(box: Box, panel: Panel, series: Sequence[Series], dots: Sequence[Dot], last: float) -> list[str]:
    """Lines over time, until `last`, on top of each other where the panel says so; dots are exemplars."""
    lines = [(each.name, {time: value for time, value in each.points if math.isfinite(value)}) for each in series]
    lines = [(name, points) for name, points in lines if points]
    if not lines:
        return [text(box.x + box.width / 2, box.y + box.height / 2, "No data", "small middle")]
    times = sorted({time for _, points in lines for time in points})
    kept = times[:: max(1, math.ceil(len(times) / _MOST))]
    stacks = _stacked(lines, kept) if panel.stacked else [[(at, p[at]) for at in kept if at in p] for _, p in lines]
    top = _nice(max([value for line in stacks for _, value in line] + [dot.value for dot in dots]))
    plot = Box(box.x + _AXIS, box.y + 2, box.width - _AXIS - 6, box.height - _LEGEND - _LINE - 4)

    def place(time: float, value: float) -> tuple[float, float]:
        return plot.x + time / last * plot.width, plot.bottom - value / top * plot.height

    made = _axes(plot, panel.unit, top, last)
    if panel.above is not None and panel.above <= top:
        made.append(_level(plot, place(0, panel.above)[1], "limit"))
    under: list[tuple[float, float]] = []
    for number, line in enumerate(stacks):
        path = [place(*point) for point in line]
        shown = " ".join(f"{x:.0f},{y:.1f}" for x, y in path)
        if panel.stacked:
            floor = under or [(path[0][0], plot.bottom), (path[-1][0], plot.bottom)]
            back = " ".join(f"{x:.0f},{y:.1f}" for x, y in reversed(floor))
            made.append(f'<polygon class="f{number % 10}" fill-opacity=".3" points="{shown} {back}"/>')
            under = path
        made.append(f'<polyline class="l{number % 10}" points="{shown}"/>')
    for dot in dots[:: max(1, len(dots) // 60)]:
        x, y = place(dot.time, dot.value)
        made.append(f'<circle class="l3 dot" cx="{x:.0f}" cy="{y:.1f}" r="2.2"/>')
    return made + _legend(Box(box.x, box.bottom - _LEGEND + 2, box.width, _LEGEND), [name for name, _ in lines])


def _stacked(
    lines: Sequence[tuple[str, dict[float, float]]], times: Sequence[float]
) -> list[list[tuple[float, float]]]:
    """Each line upon those before it."""
    total = dict.fromkeys(times, 0.0)
    made = []
    for _, points in lines:
        total = {time: below + points.get(time, 0.0) for time, below in total.items()}
        made.append(list(total.items()))
    return made


def _axes(plot: Box, unit: str, top: float, last: float) -> list[str]:
    made = []
    for part in (0, 0.5, 1):
        y = plot.bottom - part * plot.height
        made += [_level(plot, y, "grid"), text(plot.x - 5, y + 4, shown(top * part, unit), "small end")]
    for part in (0, 0.5, 1):
        style = "small " + {0: "", 0.5: "middle", 1: "end"}[part]
        made.append(text(plot.x + part * plot.width, plot.bottom + 13, f"{last * part:.0f} s", style.strip()))
    return made


def _level(plot: Box, y: float, style: str) -> str:
    return f'<line class="{style}" x1="{plot.x:.0f}" x2="{plot.x + plot.width:.0f}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _legend(box: Box, names: Sequence[str]) -> list[str]:
    """Two lines of names; how many more there are."""
    made: list[str] = []
    x, y = box.x, box.y + 10
    for number, name in enumerate(names):
        wide = 18 + _LETTER * len(name)
        left = len(names) - number
        room = box.x + box.width - x - wide
        if room < 0 and y < box.y + _LINE:
            x, y = box.x, y + _LINE
        elif y > box.y + _LINE and room < (70 if left > 1 else 0):
            return [*made, text(x, y, f"and {left} more", "small")]
        made += [Box(x, y - 7, 9, 7).rect(f"f{number % 10}"), text(x + 13, y, name, "small")]
        x += wide + 8
    return made


def bars(box: Box, panel: Panel, series: Sequence[Series]) -> list[str]:
    """A bar for each last value, with its name before and its number behind it."""
    last = [(each.name, each.points[-1][1]) for each in series if each.points]
    if not last:
        return [text(box.x + box.width / 2, box.y + box.height / 2, "No data", "small middle")]
    top = 1.0 if panel.unit == "percentunit" else max(value for _, value in last)
    step = min(26.0, box.height / len(last))
    named = min(_LETTER * max(len(name) for name, _ in last) + 8, box.width * 0.55)
    made = []
    for number, (name, value) in enumerate(last):
        y = box.y + number * step
        room = box.width - named - 56
        made.append(text(box.x + named - 6, y + step * 0.6, name, "end"))
        made.append(Box(box.x + named, y + 2, room, step - 6).rect("empty"))
        made.append(Box(box.x + named, y + 2, room * value / top, step - 6).rect(_judged(panel, value)))
        made.append(text(box.x + named + room + 6, y + step * 0.6, shown(value, panel.unit)))
    return made


def numbers(box: Box, panel: Panel, series: Sequence[Series]) -> list[str]:
    """Last values, large, side by side."""
    last = [(each.name, each.points[-1][1]) for each in series if each.points]
    made = []
    for number, (name, value) in enumerate(last):
        x = box.x + (number + 0.5) * box.width / len(last)
        middle = box.y + box.height / 2
        made.append(text(x, middle + 6, shown(value, panel.unit), f"number middle {_judged(panel, value)}"))
        made.append(text(x, middle + 26, name, "small middle"))
    return made


def _judged(panel: Panel, value: float) -> str:
    bad = (panel.below is not None and value < panel.below) or (panel.above is not None and value >= panel.above)
    return "bad" if bad else "good"


def waterfall(box: Box, spans: Sequence[Any]) -> list[str]:
    """A trace: its spans by their parents and beginnings, each from its begin to its end."""
    ordered = list(_descended(spans))
    begin = min(span.begin for span in spans)
    last = max(span.end for span in spans) - begin
    step = min(18.0, box.height / len(ordered))
    names = box.width * 0.42
    services = sorted({span.service for span in spans})
    made = []
    for number, (depth, span) in enumerate(ordered):
        y = box.y + number * step
        x = box.x + names + (span.begin - begin) / last * (box.width - names - 60)
        long = (span.end - span.begin) / last * (box.width - names - 60)
        made.append(text(box.x + depth * 12, y + step * 0.7, f"{span.service}: {span.name}", "mono"))
        made.append(Box(x, y + 2, max(long, 1.5), step - 5).rect(f"f{services.index(span.service)}"))
        made.append(text(x + max(long, 1.5) + 4, y + step * 0.7, shown((span.end - span.begin) / 1e9, "s"), "small"))
    return made


def _descended(spans: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Each span behind its parent, with how many it has above itself."""
    ids = {span.id for span in spans}

    def below(parent: str | None, depth: int) -> Iterator[tuple[int, Any]]:
        for span in sorted(spans, key=lambda span: int(span.begin)):
            if (span.parent if span.parent in ids else None) == parent:
                yield depth, span
                yield from below(span.id, depth + 1)

    return below(None, 0)


def prose(box: Box, markdown: str) -> list[str]:
    """Paragraphs and lists; of other marks of Markdown's nothing is seen."""
    told = re.sub(r"[*`]+", "", re.sub(r"\n {2,}|(?<=\S)\n(?=[A-Za-z])", " ", markdown))
    return lines_of_text(box, [row for line in told.splitlines() for row in textwrap.wrap(line, 200) or [""]], "small")


def lines_of_text(box: Box, lines: Sequence[str], style: str) -> list[str]:
    """As many as there is room for, broken where they are too long."""
    width = int(box.width / (6.4 if style == "mono" else _LETTER))
    rows = [line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)]
    return [
        text(box.x, box.y + 12 + 15 * number, row, style) for number, row in enumerate(rows[: int(box.height // 15)])
    ]


def shown(value: float, unit: str) -> str:
    """A number as Grafana shows it, nearly."""
    match unit:
        case "percentunit":
            return f"{value * 100:.3g} %"
        case "s" | "ms":
            seconds = value if unit == "s" else value / 1000
            return f"{seconds * 1000:.3g} ms" if 0 < seconds < 1 else f"{seconds:.3g} s"
        case "bytes" | "Bps":
            behind = "B/s" if unit == "Bps" else "B"
            power = min(3, int(math.log10(value) // 3)) if value >= 1 else 0
            return f"{value / 1000**power:.3g} {('', 'k', 'M', 'G')[power]}{behind}"
        case "reqps":
            return f"{value:.3g} req/s"
        case "cps" | "ops":
            return f"{value:.3g} /s"
    behind = unit.removeprefix("suffix:") if unit.startswith("suffix:") else ""
    return f"{value:.4g}{behind}" if value < 10_000 else f"{value / 1000:.3g} k{behind}"


def _nice(value: float) -> float:
    """A round number that isn't smaller."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value * 0.999)

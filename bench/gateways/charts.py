"""Charts as SVG: bars in groups, and lines. The same numbers give the same bytes.

Written by hand and not by a plotting library, so that a test can draw them anew and compare, and so that they take the
colours of the page around them: light or dark, as the reader's system has it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH, _LEFT, _RIGHT, _TOP = 800, 290, 90, 62
_BAR, _BETWEEN, _GROUP = 13, 2, 12
_LIGHT = ("#0969da", "#bf8700", "#1a7f37", "#8250df", "#cf222e", "#57606a", "#0a7ea4", "#9a6700")
_DARK = ("#58a6ff", "#d29922", "#3fb950", "#a371f7", "#f85149", "#8b949e", "#39c5cf", "#e3b341")
_STYLE = (
    "text{font:12px sans-serif;fill:#1f2328}.title{font-size:15px;font-weight:bold}.grid{stroke:#d0d7de}"
    + "".join(f".s{at}{{fill:{colour}}}.l{at}{{stroke:{colour};fill:none}}" for at, colour in enumerate(_LIGHT))
    + "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#30363d}"
    + "".join(f".s{at}{{fill:{colour}}}.l{at}{{stroke:{colour};fill:none}}" for at, colour in enumerate(_DARK))
    + "}"
)


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars: a group for each label, in it a bar for each series that has a value there."""

    title: str
    unit: str
    series: Mapping[str, Mapping[str, float]]
    """Values by label, by the name of the series."""
    order: Sequence[str]
    """Of the labels."""
    logarithmic: bool = True

    def svg(self) -> str:
        labels = [label for label in self.order if any(label in values for values in self.series.values())]
        scale = _Scale.of([v for values in self.series.values() for v in values.values()], self.logarithmic)
        body, y = [], float(_TOP)
        for label in labels:
            top = y
            for at, values in enumerate(self.series.values()):
                if label in values:
                    width = scale.at(values[label])
                    body.append(f'<rect class="s{at}" x="{_LEFT}" y="{y:g}" width="{width:.1f}" height="{_BAR}"/>')
                    body.append(_text(_LEFT + width + 4, y + _BAR - 2, number(values[label])))
                    y += _BAR + _BETWEEN
            body.append(_text(_LEFT - 8, (top + y) / 2 + 3, label, anchor="end"))
            y += _GROUP
        legend = _above(self.series) if len(self.series) > 1 else []
        return _drawn(f"{self.title} ({self.unit})", legend, scale.grid(y - _GROUP / 2), body, y + 22)


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over a common axis from left to right."""

    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    """Points, by the name of the series."""

    def svg(self) -> str:
        points = [point for line in self.series.values() for point in line]
        across = _Scale.of([x for x, _ in points], logarithmic=True)
        up = _Scale.of([y for _, y in points], logarithmic=True)
        height = 240.0
        bottom = _TOP + height

        def place(x: float, y: float) -> tuple[float, float]:
            return _LEFT + across.at(x), bottom - up.at(y) / up.width * height

        body = []
        for at, line in enumerate(self.series.values()):
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
            body.append(f'<polyline class="l{at}" stroke-width="2" points="{path}"/>')
            for point in line:
                x, y = place(*point)
                body.append(f'<circle class="s{at}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
        for tick in up.ticks():
            _, y = place(across.low, tick)
            body.append(f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + up.width}" y1="{y:.1f}" y2="{y:.1f}"/>')
            body.append(_text(_LEFT - 8, y + 4, number(tick), anchor="end"))
        body.append(_text(_LEFT + across.width / 2, bottom + 36, self.x, anchor="middle"))
        title = f"{self.title} ({self.y})"
        return _drawn(title, _beside(self.series), across.grid(bottom), body, bottom + 46)


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    logarithmic: bool
    width: float = _WIDTH - _LEFT - _RIGHT

    @classmethod
    def of(cls, values: Sequence[float], logarithmic: bool) -> _Scale:
        if not logarithmic:
            return cls(0.0, max(values), logarithmic)
        low, high = min(values), max(values)
        return cls(10 ** math.floor(math.log10(low) - 0.1), 10 ** math.ceil(math.log10(high)), logarithmic)

    def at(self, value: float) -> float:
        if self.logarithmic:
            return self.width * math.log(value / self.low) / math.log(self.high / self.low)
        return self.width * value / self.high

    def ticks(self) -> list[float]:
        if self.logarithmic:
            return [10.0**power for power in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)]
        step = 10 ** math.floor(math.log10(self.high))
        return [step * at for at in range(int(self.high / step) + 1)]

    def grid(self, bottom: float) -> list[str]:
        """Lines from above to `bottom`, with their numbers below."""
        made = []
        for tick in self.ticks():
            x = _LEFT + self.at(tick)
            made.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4}" y2="{bottom:g}"/>')
            made.append(_text(x, bottom + 15, number(tick), anchor="middle"))
        return made


def number(value: float) -> str:
    """Three digits that count, without an exponent."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _drawn(title: str, legend: list[str], grid: list[str], body: list[str], height: float) -> str:
    box = f'viewBox="0 0 {_WIDTH} {height:g}" width="{_WIDTH}" height="{height:g}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img">', f"<title>{escape(title)}</title>"]
    parts += [f"<style>{_STYLE}</style>", f'<text class="title" x="10" y="20">{escape(title)}</text>']
    return "\n".join([*parts, *legend, *grid, *body, "</svg>"]) + "\n"


def _above(series: Iterable[str]) -> list[str]:
    """A legend in one line between title and bars."""
    made, x = [], 10.0
    for at, name in enumerate(series):
        made += _named(at, name, x, 34)
        x += 24 + 6.6 * len(name)
    return made


def _beside(series: Iterable[str]) -> list[str]:
    """A legend to the left of the lines."""
    return [part for at, name in enumerate(series) for part in _named(at, name, 10, _TOP + 22 * at)]


def _named(at: int, name: str, x: float, y: float) -> list[str]:
    return [f'<rect class="s{at}" x="{x:g}" y="{y:g}" width="10" height="10"/>', _text(x + 14, y + 9, name)]


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'

"""docs/quality.md: what is there in bench/results/quality, as tables between two marks. The words around them stay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.quality.ways import WAYS, Way
from extproc.model_checks.bfcl import JUDGED
from extproc.model_checks.scores import Rate

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results" / "quality"
PAGE = ROOT / "docs" / "quality.md"
_BEGIN, _END = "<!-- results -->", "<!-- end of results -->"
_MODELS = ("0.5B", "1.5B")


def save(name: str, found: Mapping[str, Any]) -> None:
    """Keep what was found in one way of asking one model."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def write() -> None:
    """The tables of all that was kept."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    behind = rest.partition(_END)[2]
    PAGE.write_text(f"{before}{_BEGIN}\n\n{tables()}\n{_END}{behind}", encoding="utf-8")


def tables() -> str:
    """One for each model that was asked."""
    parts = []
    for model in _MODELS:
        rows = [(way, json.loads(file.read_text())) for way in WAYS if (file := _file(model, way.name)).exists()]
        if rows:
            tokens = {way.name: _each(found, 0) for way, found in rows}
            lines = [_row(way, found, tokens.get("template")) for way, found in rows]
            head = ("asked through", *(f"`{name}`" for name in JUDGED), "calls that fit their schema", "tokens", "date")
            parts += [f"### {model}", "", table(head, lines), ""]
    return "\n".join(parts)


def _file(model: str, way: str) -> Path:
    return RESULTS / f"{model}-{way}.json"


def _row(way: Way, found: Mapping[str, Any], template: float | None) -> list[str]:
    counts = found["categories"]
    cells = [share(Rate(counts[name]["right"], counts[name]["of"])) for name in JUDGED]
    tokens = _each(found, 0)
    ratio = f" ({tokens / template:.2f})" if template else ""
    valid = share(Rate(found["valid"], found["calls"]))
    date = str(found["date"]) if found["wording"] == way.wording else f"{found['date']}, with earlier words"
    return [way.told, *cells, valid, f"{tokens:.0f}{ratio}, {_each(found, 1):.0f}", date]


def _each(found: Mapping[str, Any], at: int) -> float:
    tokens, answers = int(found["tokens"][at]), int(found["answers"])
    return tokens / max(1, answers)


def share(rate: Rate) -> str:
    """For a cell: how many of how many, and the interval."""
    if rate.value is None or rate.interval is None:
        return "-"
    low, high = rate.interval
    return f"{rate.right} of {rate.of}, {100 * rate.value:.0f} % ({100 * low:.0f}-{100 * high:.0f})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown, all columns but the first to the right."""
    lines = [head, ["---", *("--:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)

"""docs/quality.md: what is there in bench/results/quality, as tables between two marks. The words around them stay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.quality import RULE
from bench.quality.mistakes import MISTAKES
from bench.quality.ways import WAYS, Way
from extproc.model_checks.bfcl import JUDGED
from extproc.model_checks.scores import Rate
from tests.real_vllm.model_checks import MODELS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results" / "quality"
PAGE = ROOT / "docs" / "quality.md"
MISTAKEN = "retry"
"""The way whose mistakes are told."""


def save(name: str, found: Mapping[str, Any]) -> None:
    """Keep what was found in one way of asking one model."""
    file = RESULTS / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def write() -> None:
    """The tables of all that was kept."""
    text = PAGE.read_text(encoding="utf-8")
    for mark, told in (("results", tables()), ("mistakes", mistakes())):
        before, _, rest = text.partition(f"<!-- {mark} -->")
        behind = rest.partition(f"<!-- end of {mark} -->")[2]
        text = f"{before}<!-- {mark} -->\n\n{told}\n<!-- end of {mark} -->{behind}"
    PAGE.write_text(text, encoding="utf-8")


def mistakes() -> str:
    """What is wrong with wrong answers to questions that need calls, by model and category."""
    kept = {model: _kept(file) for model in MODELS if (file := _file(model, MISTAKEN)).exists()}
    found = {model: one for model, one in kept.items() if "mistakes" in one}
    columns = [(model, name) for model, one in found.items() for name in one["mistakes"]]
    lines = [["right", *(_of(found[model]["categories"][name]) for model, name in columns)]]
    for kind in MISTAKES:
        counts = [found[model]["mistakes"][name].get(kind, 0) for model, name in columns]
        lines += [[kind, *map(str, counts)]] if any(counts) else []
    head = ("", *(f"{model}, `{name}`" for model, name in columns))
    return table(head, lines) + "\n"


def _of(counted: Mapping[str, Any]) -> str:
    return f"{counted['right']} of {counted['of']}"


def tables() -> str:
    """One for each model that was asked."""
    parts = []
    for model in MODELS:
        rows = [(way, _kept(file)) for way in WAYS if (file := _file(model, way.name)).exists()]
        if rows:
            template = next((found for way, found in rows if way.name == "template"), None)
            lines = [row(way, found, template) for way, found in rows]
            head = ("asked through", *(f"`{name}`" for name in JUDGED), "calls that fit their schema", "tokens", "date")
            parts += [f"### {model}", "", table(head, lines), ""]
    return "\n".join(parts)


def _kept(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _file(model: str, way: str) -> Path:
    return RESULTS / f"{model}-{way}.json"


def row(way: Way, found: Mapping[str, Any], template: Mapping[str, Any] | None) -> list[str]:
    counts = found["categories"]
    none = {"right": 0, "of": 0}
    cells = [share(Rate(one["right"], one["of"])) for one in (counts.get(name, none) for name in JUDGED)]
    tokens, share_of = _each(found, 0), _ratio(found, template)
    ratio = f" ({share_of:.2f})" if share_of is not None else ""
    valid = share(Rate(found["valid"], found["calls"]))
    earlier = [
        *["with earlier words"] * (found["wording"] != way.wording),
        *["earlier rule"] * (found.get("rule") != RULE),
    ]
    date = ", ".join((str(found["date"]), *earlier))
    again = (way.settings or {}).get("retry", False) and found.get("tokens_by") != "server"
    spent = f"{tokens:.0f}{ratio}, {_each(found, 1):.0f}{', without discarded answers' if again else ''}"
    return [way.told, *cells, valid, spent, date]


def _ratio(found: Mapping[str, Any], template: Mapping[str, Any] | None) -> float | None:
    """Of the prompts to the template's, over the questions that both were asked; None where it isn't known."""
    if template is None:
        return None
    if _questions(found) == _questions(template):
        return _each(found, 0) / _each(template, 0)
    prompts, others = found.get("prompts"), template.get("prompts")
    if prompts is None or others is None:
        return None
    both = prompts.keys() & others.keys()
    whole = sum(others[name] for name in both)
    spent = sum(prompts[name] for name in both)
    if found["tokens"][0] != sum(prompts.values()):  # the server counted second requests, but not to which question
        if both != prompts.keys():
            return None
        spent = found["tokens"][0]
    return spent / whole if whole else None


def _questions(found: Mapping[str, Any]) -> Any:
    """The sample: as many of a category with the same seed are the same ones."""
    return found["seed"], {name: one["of"] for name, one in found["categories"].items()}


def _each(found: Mapping[str, Any], at: int) -> float:
    tokens, answers = int(found["tokens"][at]), int(found["answers"])
    return tokens / max(1, answers)


def share(rate: Rate) -> str:
    """For a cell: how many of how many, and the interval."""
    if rate.value is None or rate.interval is None:
        return "-"
    low, high = rate.interval
    ends = f"{100 * low:.0f}-{100 * high:.0f}"
    if ends in ("0-0", "100-100"):
        ends = f"{_exact(low)}-{_exact(high)}"
    return f"{rate.right} of {rate.of}, {100 * rate.value:.0f} % ({ends})"


def _exact(share: float) -> str:
    """With a decimal: an interval is no point."""
    return f"{100 * share:.1f}".removesuffix(".0")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown, all columns but the first to the right."""
    lines = [head, ["---", *("--:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)

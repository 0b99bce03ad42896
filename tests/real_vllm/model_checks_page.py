"""docs/model-checks.md: its tables are made of `results/*.json`, which hold the scores of each run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from extproc.model_checks.bfcl import CATEGORIES
from extproc.model_checks.judging import CHECKS
from extproc.model_checks.reports import counted, share, with_interval
from extproc.model_checks.scores import Rate
from tests.real_vllm.results_page import table

FOLDER = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[2] / "docs" / "model-checks.md"
BEGIN, END = "<!-- results -->\n", "<!-- end of results -->\n"
_ORDER = ("prompt", "template", "native", "alone-hermes", "alone")
_TOLD = {
    "prompt": "gateway, `tools: prompt`",
    "template": "gateway, `tools: template`",
    "native": "gateway, `tools: native`, `repair: true`",
    "alone-hermes": "vLLM alone, `--tool-call-parser hermes`",
    "alone": "vLLM alone, no parser",
}
_SERVER = ("answered", "form", "finish_reason", "same")
"""Whose reasons are kept: they tell of the server. The others quote the model."""
_LONGEST = 150

Json = dict[str, Any]


def save(name: str, report: Mapping[str, Any]) -> None:
    """Keep what the page needs of a run."""
    FOLDER.mkdir(exist_ok=True)
    kept = {"run": report["run"], "sets": {key: _kept(value) for key, value in report["sets"].items()}}
    (FOLDER / f"{name}.json").write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _kept(found: Mapping[str, Any]) -> Json:
    reasons: Counter[str] = Counter()
    for checks in (one for ways in found["wrong"].values() for one in ways.values()):
        reasons.update(f"{name}: {reason[:_LONGEST]}" for name, reason in checks.items() if name in _SERVER)
    features = {name: scores["whole"]["checks"] for name, scores in found["features"].items()}
    return {
        "whole": found["whole"],
        "streamed": found["streamed"],
        "features": {
            name: {
                check: [rate["right"], rate["of"]] for check, rate in checks.items() if check in ("decision", "match")
            }
            for name, checks in features.items()
        },
        "reasons": dict(reasons.most_common(8)),
        "wrong": {
            case: {how: sorted(checks) for how, checks in ways.items()} for case, ways in sorted(found["wrong"].items())
        },
    }


def write() -> None:
    """The page anew."""
    PAGE.write_text(with_results(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def with_results(page: str) -> str:
    """The page with its tables made of the results that are there."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + "\n".join(_lines()) + "\n" + END + rest.partition(END)[2]


def _results() -> list[Json]:
    found: list[Json] = [json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")]
    return sorted(found, key=lambda one: (one["run"]["model"], _ORDER.index(one["run"]["way"])))


def _lines() -> Iterator[str]:
    results = _results()
    ours = [one for one in results if "cases" in one["sets"]]
    yield from ["", "### Our cases", "", *_calling(ours, "whole"), "", *_form(ours), ""]
    bfcl = [one for one in results if "bfcl" in one["sets"]]
    if bfcl:
        yield from ["### BFCL's questions", "", *_bfcl(bfcl), ""]
    yield from ["### What was wrong with answers, by no fault of the model", "", *_reasons(results), ""]


def _head(one: Json) -> list[str]:
    return [one["run"]["model"], _TOLD[one["run"]["way"]]]


def _calling(results: Iterable[Json], how: str) -> list[str]:
    head = (
        "model",
        "asked through",
        "cases:",
        "answered:",
        "precision:",
        "recall:",
        "F1:",
        "schema accuracy:",
        "tool:",
    )
    return table(head, (_calling_row(one, one["sets"]["cases"][how]) for one in results))


def _calling_row(one: Json, scores: Json) -> list[object]:
    calling, checks = scores["calling"], scores["checks"]
    answered = checks["answered"]
    return [
        *_head(one),
        scores["cases"],
        answered["right"],
        with_interval(_rate(calling["precision"])),
        with_interval(_rate(calling["recall"])),
        share(calling["f1"], calling["f1_interval"]),
        counted(_rate(checks.get("schema"))),
        counted(_rate(checks.get("tool"))),
    ]


def _form(results: Iterable[Json]) -> list[str]:
    names = ("decision", "text", "form", "finish_reason", "json", "same")
    head = ("model", "asked through", "date", *(f"`{name}`:" for name in names), "cut off:")
    return table(head, (_form_row(one, one["sets"]["cases"], names) for one in results))


def _form_row(one: Json, found: Json, names: Iterable[str]) -> list[object]:
    cells = []
    for name in names:
        rates = [found[how]["checks"][name] for how in ("whole", "streamed") if name in found[how]["checks"]]
        cells.append(" and ".join(f"{rate['right']}/{rate['of']}" for rate in rates) or "-")
    cut = " and ".join(str(found[how]["cut_off"]) for how in ("whole", "streamed"))
    return [*_head(one), one["run"]["date"], *cells, cut]


def _bfcl(results: Iterable[Json]) -> list[str]:
    head = ("model", "asked through", *(f"`{name}`:" for name in CATEGORIES), "all:", "`text`:")
    return table(head, ([*_head(one), *_bfcl_cells(one["sets"]["bfcl"])] for one in results))


def _bfcl_cells(found: Json) -> Iterator[str]:
    """`match` where there are possible answers, else whether there is a call."""
    right = of = 0
    for category in CATEGORIES:
        checks = found["features"].get(category, {})
        rate = checks.get("match") or checks.get("decision")
        yield f"{rate[0]}/{rate[1]}" if rate else "-"
        if rate:
            right, of = right + rate[0], of + rate[1]
    yield counted(Rate(right, of))
    left = found["whole"]["checks"].get("text")
    yield f"{left['right']}/{left['of']}" if left else "-"


def _reasons(results: Sequence[Json]) -> Iterator[str]:
    if not any(found["reasons"] for one in results for found in one["sets"].values()):
        yield "Nothing."
    for one in results:
        model, way = _head(one)
        for found in one["sets"].values():
            for name, often, words in _reasons_of(found):
                quoted = " ".join(words.split()).replace("`", "'").replace("|", "\\|")
                yield f"- {model}, {way}: `{name}`, {often} `{quoted}`"


def _reasons_of(found: Json) -> Iterator[tuple[str, str, str]]:
    """The check, how often, and what was said. Of `same` one will do: each is a text of its own."""
    alike = [reason for reason in found["reasons"] if reason.startswith("same: ")]
    for reason, times in found["reasons"].items():
        name, _, words = reason.partition(": ")
        assert name in CHECKS
        if name != "same":
            yield name, f"{times} times:", words
        elif reason == alike[0]:
            rate = found["streamed"]["checks"]["same"]
            yield name, f"{rate['of'] - rate['right']} times, such as", words


def _rate(found: Mapping[str, Any] | None) -> Rate:
    return Rate(found["right"], found["of"]) if found else Rate(0, 0)

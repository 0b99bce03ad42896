"""docs/quality.md: what is there in bench/results/first_turns, as a table between two marks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bench.first_turns.captured import CLIENTS
from bench.quality.page import PAGE, ROOT, share, table
from bench.quality.ways import WAYS, Way
from extproc.model_checks.scores import Rate
from tests.real_vllm.model_checks import MODELS

RESULTS = ROOT / "bench" / "results" / "first_turns"
_BEGIN, _END = "<!-- first turns -->", "<!-- end of first turns -->"


def save(name: str, found: Mapping[str, Any]) -> None:
    """Keep what was found in one way of asking one model."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, ensure_ascii=False, indent=1)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def write() -> None:
    """The table of all that was kept."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    behind = rest.partition(_END)[2]
    head = ("model", "asked through", *CLIENTS, "right in all", "with a call", "not answered", "date")
    PAGE.write_text(f"{before}{_BEGIN}\n\n{table(head, list(_rows()))}\n\n{_END}{behind}", encoding="utf-8")


def _rows() -> Iterator[list[str]]:
    for model in MODELS:
        for way in WAYS:
            file = RESULTS / f"{model}-{way.name}.json"
            if file.exists():
                yield _row(way, json.loads(file.read_text(encoding="utf-8")))


def _row(way: Way, found: Mapping[str, Any]) -> list[str]:
    clients = [found["clients"][name] for name in CLIENTS]
    of, right, called, answered = (
        sum(client[name] for client in clients) for name in ("of", "right", "called", "answered")
    )
    each = [f"{client['right']} of {client['of']}" for client in clients]
    date = str(found["date"]) if found["wording"] == way.agents_wording else f"{found['date']}, with earlier words"
    return [found["model"], way.told, *each, share(Rate(right, of)), str(called), str(of - answered), date]

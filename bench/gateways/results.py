"""What was measured, as medians of a run's rounds; bench/results holds runs as measuring.run returns them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"


def newest() -> Path:
    """The run that the page shows."""
    return max(RESULTS.glob("*.json"))


@dataclass(frozen=True, slots=True)
class Results:
    """One run."""

    found: Mapping[str, Any]

    def whole(self, way: str, shape: str, request: str, connections: int) -> Row | None:
        """Whole answers of a way under a load; None if that wasn't measured, or never went well."""
        return _row(self.found["whole"], way=way, shape=shape, request=request, connections=connections)

    def streams(self, way: str, streams: int) -> Row | None:
        return _row(self.found["streams"], way=way, streams=streams)

    def counts(self, where: str, name: str, **chosen: object) -> list[Any]:
        """The values of a field that rows have, in order."""
        rows = [row for row in self.found[where] if all(row[key] == value for key, value in chosen.items())]
        return sorted({row[name] for row in rows})


@dataclass(frozen=True, slots=True)
class Row:
    """One load of one way; times of whole answers in microseconds, delays of tokens in milliseconds."""

    runs: list[Mapping[str, float]]

    def median(self, name: str) -> float:
        return statistics.median(run[name] for run in self.runs)

    def has(self, name: str) -> bool:
        return all(name in run for run in self.runs)

    @property
    def rate(self) -> float:
        """Whole answers a second."""
        return statistics.median(_field(run, "rate") for run in self.runs)

    def cpu(self) -> float:
        """Microseconds of all its processes for one answer, or one token."""
        return statistics.median(
            sum(value for name, value in run.items() if name.endswith(" us") and name != "busiest us")
            for run in self.runs
        )

    @property
    def fewest(self) -> int:
        """Answers in the shortest of the runs: what a far percentile stands on."""
        return int(min(run["requests"] for run in self.runs))


def ratio(one: Row | None, other: Row | None, name: str, below: str = "") -> float | None:
    """The median of the ratios within each round, in which both were measured in the same minute.

    Of the same field of both, or of `name` to `below`. None if one of them wasn't measured.
    """
    if one is None or other is None or len(one.runs) != len(other.runs):
        return None
    pairs = zip(one.runs, other.runs, strict=True)
    return statistics.median(_field(mine, name) / _field(theirs, below or name) for mine, theirs in pairs)


def _field(run: Mapping[str, float], name: str) -> float:
    return run["requests"] / run["seconds"] if name == "rate" else run[name]


def _row(rows: Iterable[Mapping[str, Any]], **key: object) -> Row | None:
    for row in rows:
        if key.items() <= row.items() and row["runs"]:
            return Row(row["runs"])
    return None

"""What came of judging: a verdict for each row, and scores by format and kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from extproc.corpus.rows import KINDS


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of one row: why it is wrong, in each way in which it was given; None where it is right."""

    id: str
    format: str
    kind: str
    whole: str | None = None
    streamed: str | None = None
    """In the smallest pieces."""
    cut: str | None = None
    """In larger ones, cut anywhere."""

    @property
    def reason(self) -> str | None:
        """The first thing that is wrong, and where; None when the row passed."""
        return f"whole: {self.whole}" if self.whole else self.streamed or self.cut

    @property
    def passed(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True)
class Score:
    """So many rows of so many."""

    passed: int
    rows: int

    def __str__(self) -> str:
        return f"{self.passed}/{self.rows}" if self.rows else "-"


@dataclass(frozen=True, slots=True)
class Report:
    verdicts: tuple[Verdict, ...]

    @property
    def failures(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if not verdict.passed)

    def score(self, *, format: str | None = None, kind: str | None = None) -> Score:  # noqa: A002 - a row's field
        chosen = [one for one in self.verdicts if format in (None, one.format) and kind in (None, one.kind)]
        return Score(sum(one.passed for one in chosen), len(chosen))

    def as_json(self) -> dict[str, Any]:
        """Scores by format and kind, and the failures with their reasons."""
        cells: dict[tuple[str, str], Counter[str]] = {}
        for one in self.verdicts:
            right = {"whole": not one.whole, "streamed": not one.streamed, "cut": not one.cut, "passed": one.passed}
            counted = {way: int(passed) for way, passed in right.items()}
            cells.setdefault((one.format, one.kind), Counter()).update(rows=1, **counted)
        scores: dict[str, dict[str, dict[str, int]]] = {}
        for (format_, kind), counts in sorted(cells.items()):
            scores.setdefault(format_, {})[kind] = dict(counts)
        total = self.score()
        return {
            "passed": total.passed,
            "rows": total.rows,
            "scores": scores,
            "failures": [
                {"id": one.id, "format": one.format, "kind": one.kind, "reason": one.reason} for one in self.failures
            ],
        }

    def as_text(self) -> str:
        """A line for each failure, then a table of scores."""
        return "\n".join([*(f"FAIL {one.id}: {one.reason}" for one in self.failures), *self.table(str)])

    def table(self, cell: Callable[[Score], str]) -> list[str]:
        """Formats by kinds as a table in markdown, the sum last."""
        formats = sorted({one.format for one in self.verdicts})
        lines = [f"| format | {' | '.join(KINDS)} | all |", "| --- |" + " --: |" * (len(KINDS) + 1)]
        for format_ in [*formats, None]:
            scores = [self.score(format=format_, kind=kind) for kind in (*KINDS, None)]
            name = "all" if format_ is None else f"`{format_}`"
            lines.append(f"| {name} | {' | '.join(map(cell, scores))} |")
        return lines

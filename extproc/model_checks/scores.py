"""The numbers by which providers are compared: precision, recall and F1 of calling, schema accuracy. Pure.

Names and formulas are those of Moonshot's K2-Vendor-Verifier, with two differences: whether a call is due is what the
case says, and not what another provider's model did; and whether a tool was called is seen by the calls, and not by
`finish_reason`, which is a check of its own. Intervals are Wilson's, of 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from extproc.model_checks.judging import CHECKS, Judgement

_Z = 1.959964
WAYS = ("whole", "streamed")


@dataclass(frozen=True, slots=True)
class Rate:
    """So many of so many."""

    right: int
    of: int

    @property
    def value(self) -> float | None:
        return self.right / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's: it stays within 0 and 1, and isn't a point where all are right."""
        if not self.of:
            return None
        share, n = self.right / self.of, self.of
        middle = share + _Z**2 / (2 * n)
        half = _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
        low, high = ((middle + sign * half) / (1 + _Z**2 / n) for sign in (-1, 1))
        return max(0.0, low), min(1.0, high)

    def as_json(self) -> dict[str, Any]:
        return {"right": self.right, "of": self.of, "share": _rounded(self.value), "interval": _pair(self.interval)}


@dataclass(frozen=True, slots=True)
class Calling:
    """Whether tools were called where they should be."""

    right_calls: int
    wrong_calls: int
    missed_calls: int
    right_words: int

    @property
    def precision(self) -> Rate:
        return Rate(self.right_calls, self.right_calls + self.wrong_calls)

    @property
    def recall(self) -> Rate:
        return Rate(self.right_calls, self.right_calls + self.missed_calls)

    @property
    def f1(self) -> float | None:
        return _f1(self._overlap.value)

    @property
    def f1_interval(self) -> tuple[float, float] | None:
        """F1 grows with the share that the right calls have of all that are right, wrong or missed, 2j / (1 + j); so
        its interval is that share's, carried over."""
        interval = self._overlap.interval
        return None if interval is None else (_f1(interval[0]) or 0.0, _f1(interval[1]) or 0.0)

    @property
    def _overlap(self) -> Rate:
        return Rate(self.right_calls, self.right_calls + self.wrong_calls + self.missed_calls)

    def as_json(self) -> dict[str, Any]:
        return {
            "right_calls": self.right_calls,
            "wrong_calls": self.wrong_calls,
            "missed_calls": self.missed_calls,
            "right_words": self.right_words,
            "precision": self.precision.as_json(),
            "recall": self.recall.as_json(),
            "f1": _rounded(self.f1),
            "f1_interval": _pair(self.f1_interval),
        }


@dataclass(frozen=True, slots=True)
class Scores:
    """Of some judgements, in one way of asking."""

    cases: int
    cut_off: int
    calling: Calling
    checks: dict[str, Rate]
    """By the names of CHECKS; `schema` is the schema accuracy."""

    def as_json(self) -> dict[str, Any]:
        return {
            "cases": self.cases,
            "cut_off": self.cut_off,
            "calling": self.calling.as_json(),
            "checks": {name: rate.as_json() for name, rate in self.checks.items() if rate.of},
        }


def scores(judgements: Sequence[Judgement], how: str) -> Scores:
    """The numbers for the answers that came whole, or those that were streamed."""
    checks = [one.whole if how == "whole" else one.streamed for one in judgements]
    rates = {}
    for name in CHECKS:
        given = [check[name] for check in checks if name in check]
        rates[name] = Rate(sum(reason is None for reason in given), len(given))
    decided = [(one.case.call, one.called[how]) for one in judgements if how in one.called]
    calling = Calling(
        right_calls=decided.count((True, True)),
        wrong_calls=decided.count((False, True)),
        missed_calls=decided.count((True, False)),
        right_words=decided.count((False, False)),
    )
    return Scores(len(judgements), sum(one.cut_off.get(how, False) for one in judgements), calling, rates)


def by_feature(judgements: Iterable[Judgement]) -> dict[str, list[Judgement]]:
    """The judgements of each feature, or category, in the order in which they come."""
    found: dict[str, list[Judgement]] = {}
    for one in judgements:
        found.setdefault(one.case.feature, []).append(one)
    return found


def _f1(overlap: float | None) -> float | None:
    return None if overlap is None else 2 * overlap / (1 + overlap)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _pair(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else [round(end, 4) for end in interval]

"""How well models call lately: of each model and mode the last calls, and how many of them were valid.

It is what steering a model's mode can go by, and a metric. It counts calls and not time, so that it needs no clock: a
model that nobody asks keeps its rate. A demanded call that doesn't come (`missing_tool_call`) counts as an invalid one;
what was cut off at the answer's limit counts as none.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from extproc.contract.errors import INVALID_TEXT
from extproc.turn.tally import Tally

WINDOW = 200
"""Calls of one model in one mode that are remembered: a rate of 95 % is then known to some 3 %."""
MOST = 1024
"""Models and modes; of more, those that haven't called for the longest time are forgotten."""


@dataclass(frozen=True, slots=True)
class CallRate:
    """Of the calls that are remembered."""

    valid: int
    calls: int

    @property
    def ratio(self) -> float | None:
        """None before there was a call."""
        return self.valid / self.calls if self.calls else None


class LastCalls:
    """The last calls of one model in one mode, or at one step."""

    def __init__(self, window: int = WINDOW) -> None:
        self._results = deque[bool](maxlen=window)
        self._valid = 0

    def add(self, valid: int, invalid: int) -> None:
        """Those of one more answer: the invalid ones as the last."""
        for is_valid, count in ((True, valid), (False, invalid)):
            for _ in range(min(count, self._results.maxlen or 0)):
                if len(self._results) == self._results.maxlen:
                    self._valid -= self._results[0]
                self._results.append(is_valid)
                self._valid += is_valid

    @property
    def rate(self) -> CallRate:
        """How many of them were valid."""
        return CallRate(self._valid, len(self._results))


def invalid_of(tally: Tally) -> int:
    """How many calls of an answer were bad, one that didn't come included."""
    return sum(count for code, count in tally.violations.items() if code != INVALID_TEXT)


class CallQuality:
    """Of one processor: it changes with each answer."""

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._last: dict[tuple[str, str], LastCalls] = {}

    def learn(self, model: str, mode: str, tally: Tally) -> None:
        """What one answer came to."""
        valid, invalid = tally.valid, invalid_of(tally)
        if not (valid or invalid):
            return
        last = self._last.pop((model, mode), None) or LastCalls(self._window)
        self._last[model, mode] = last
        last.add(valid, invalid)
        if len(self._last) > MOST:
            del self._last[next(iter(self._last))]

    def rate(self, model: str, mode: str) -> CallRate:
        """How it calls."""
        last = self._last.get((model, mode))
        return last.rate if last is not None else CallRate(0, 0)

    def rates(self) -> dict[tuple[str, str], CallRate]:
        """Of all that have called, by model and mode."""
        return {key: self.rate(*key) for key in self._last}

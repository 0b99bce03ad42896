"""What decides how things go, and which tools there are."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from extproc.runner.steps import Offered

Json: TypeAlias = dict[str, Any]

LET_GO = 0.1
"""Seconds, in which everything has to stop when it is cancelled."""
SLACK = 1e-6
OURS = {
    "roll": Offered("dice", "roll"),
    "web__find": Offered("web", "find"),
    "web__open": Offered("web", "open"),
    "web__ask": Offered("web", "ask", runs=False),
}
RUN = [name for name, offered in OURS.items() if offered.runs]
OTHERS = ["web__ask", "clients", "clients_too", "unheard_of"]


@dataclass(frozen=True, slots=True)
class Chance:
    """Of one run."""

    random: random.Random
    temper: float
    """How much goes wrong."""
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """No two are the same."""

    def delay(self) -> float:
        """Seconds that something takes."""
        draw = self.random
        kind = draw.random()
        if kind < 0.6:
            return 0.0
        if kind < 0.98:
            return draw.choice([0.001, 0.01, 0.1, draw.random()])
        return draw.choice([5.0, 30.0, 1e6]) if draw.random() < self.temper else 0.5

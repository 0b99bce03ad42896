"""What there is in a history, drawn before anything happens in it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.simulation.course import Chances, Without, simpler
from tests.simulation.layouts import FOREIGN
from tests.simulation.plans import Plan, drawn

EXCHANGES = 20
"""In a history, as clients begin them; the model rounds of runs come on top."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Of one history. What came later has a source of its own, so that seeds keep what they had."""

    chances: Chances
    team: bool
    aliases: bool
    """There are some of several models."""
    control: bool
    """The configuration is in files."""
    plans: tuple[Plan, ...]

    @classmethod
    def drawn(cls, seed: int, rng: random.Random, without: frozenset[Without]) -> Scene:
        chance = rng.random
        chances = Chances(reloads=chance() < 0.4, losses=chance() < 0.2, stops=chance() < 0.25)
        team = random.Random(f"{seed} crew").random() < 0.3 and "team" not in without
        aliases = random.Random(f"{seed} aliases").random() < 0.25 and "aliases" not in without
        control = chance() < 0.2 and "control" not in without
        foreign = rng.choice(FOREIGN) if chance() < 0.25 else None
        much = 0.4 if chance() < 0.1 else 0.02
        plans = []
        for number in range(EXCHANGES):
            own = random.Random(f"{seed} {number}")
            plan = drawn(own, number, foreign=foreign, much=much, team=team, aliases=aliases)
            plans.append(simpler(plan, without))
        return cls(chances, team, aliases, control, tuple(plans))

"""At which step of its ladder a model with `tools: auto` is asked, by how well it has called.

It steps up when its calls at the present step are certainly too bad: not when a few in a row were, but when even the
upper end of what their share may be (Wilson's interval) is below the bound. After some further calls there, whatever
they were like, it steps back to try the one below, of which nothing old is remembered: the model, or what is asked of
it, may have changed. Each trial has to wait for twice as many calls as the one before it, up to a bound, so that a
model that needs its step is hardly bothered. What stays well at a step for that longest time is trusted anew.

What is wrong with one call of an answer is mostly wrong with all: so no answer counts for more than a few.

There is no clock in it: a model that nobody asks stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal, TypeAlias

from extproc.config import Config, Ladder, Model, StepName
from extproc.turn.call_quality import CallRate, LastCalls, invalid_of
from extproc.turn.tally import Tally

Direction: TypeAlias = Literal["up", "back", "barred"]

LONGEST = 64
"""How much longer than for the first trial, at most, one has to wait for a later one."""
REFUSALS = 3
"""So many requests with a grammar of the ladder's own a backend refuses in a row until it isn't sent any more."""
_MOST_OF_ONE = 3
"""Calls that an answer counts for at most."""
_CERTAIN = 2.576
"""Standard deviations: one look in 200 finds a model too bad that is just good enough."""


def most_valid(rate: CallRate) -> float:
    """The largest share of valid calls that a model may have in truth which has called like this; 1 of no calls."""
    calls, valid = rate.calls, rate.valid
    if not calls:
        return 1.0
    square = _CERTAIN * _CERTAIN
    centre = valid + square / 2
    spread = _CERTAIN * sqrt(valid * (calls - valid) / calls + square / 4)
    return min(1.0, (centre + spread) / (calls + square))


@dataclass(frozen=True, slots=True)
class Change:
    """A model goes to another step."""

    model: str
    before: StepName
    after: StepName
    direction: Direction
    """`barred`: back for good, because the backend doesn't take what the step asks of it."""
    rate: CallRate
    """Of its last calls at the step that it leaves."""


class Climb:
    """The place of one model on its ladder."""

    def __init__(self, ladder: Ladder) -> None:
        self.ladder = ladder
        self.place = 0
        self._top = len(ladder.steps) - 1
        self._waits = [ladder.bounds.back] * len(ladder.steps)
        self._last = LastCalls()
        self._calls = self._refused = 0  # at this step

    @property
    def model(self) -> Model:
        """As which it is asked now."""
        return self.ladder.steps[self.place].model

    def learn(self, tally: Tally) -> Change | None:
        """What one answer at the present step came to."""
        bounds, place = self.ladder.bounds, self.place
        self._refused = 0
        valid, invalid = _weighed(tally)
        self._last.add(valid, invalid)
        self._calls += valid + invalid
        rate, longest = self._last.rate, bounds.back * LONGEST
        if place < self._top and rate.calls >= bounds.calls and most_valid(rate) < bounds.valid:
            return self._to(place + 1, "up")
        if place and self._calls >= self._waits[place]:
            self._waits[place] = min(2 * self._waits[place], longest)
            return self._to(place - 1, "back")
        if place < self._top and self._calls >= longest:
            self._waits[place + 1] = bounds.back
        return None

    def refused(self) -> Change | None:
        """The backend refused a request at the present step that had a grammar with it. One may have been wrong in
        another way, and says nothing."""
        if not self.model.forced:
            return None  # then the client had asked for it
        self._refused += 1
        without = [place for place in range(self.place) if not self.ladder.steps[place].model.forced]
        if self._refused < REFUSALS or not without:
            return None
        self._top = without[-1]
        return self._to(self._top, "barred")

    def _to(self, place: int, direction: Direction) -> Change:
        steps, rate, before = self.ladder.steps, self._last.rate, self.place
        self.place, self._last = place, LastCalls()
        self._calls = self._refused = 0
        model = steps[place].model.name
        return Change(model, steps[before].name, steps[place].name, direction, rate)


def _weighed(tally: Tally) -> tuple[int, int]:
    """For how many valid and invalid calls an answer counts."""
    invalid = invalid_of(tally)
    calls = tally.valid + invalid
    if calls <= _MOST_OF_ONE:
        return tally.valid, invalid
    bad = round(_MOST_OF_ONE * invalid / calls)
    return _MOST_OF_ONE - bad, bad


class Steering:
    """Of one processor, for all of its models: it changes with each answer."""

    def __init__(self) -> None:
        self._given: Config | None = None
        self._now: Config | None = None
        self._climbs: dict[str, Climb] = {}

    def at(self, config: Config) -> Config:
        """The configuration with each model at its step: the very same until a step changes.

        Where another one than before is given, models whose ladder is the same stay where they are.
        """
        if config is not self._given or self._now is None:
            self._given = config
            self._climbs = {name: self._climb(name, ladder) for name, ladder in config.ladders.items()}
            self._now = self._placed(config)
        return self._now

    def learn(self, model: Model, tally: Tally) -> Change | None:
        """What an answer came to of a model that was asked like this."""
        climb = self._climb_of(model)
        return self._changed(climb.learn(tally)) if climb is not None else None

    def refused(self, model: Model) -> Change | None:
        """The backend refused a request (`Climb.refused`)."""
        climb = self._climb_of(model)
        return self._changed(climb.refused()) if climb is not None else None

    def steps(self) -> Mapping[tuple[str, str], bool]:
        """By model and step, whether the model is at it."""
        return {
            (name, step.name): place == climb.place
            for name, climb in self._climbs.items()
            for place, step in enumerate(climb.ladder.steps)
        }

    def _climb(self, name: str, ladder: Ladder) -> Climb:
        before = self._climbs.get(name)
        return before if before is not None and before.ladder == ladder else Climb(ladder)

    def _climb_of(self, model: Model) -> Climb | None:
        """None for one that isn't steered, or was asked at another step than it is at by now."""
        climb = self._climbs.get(model.name)
        return climb if climb is not None and (climb.model is model or climb.model == model) else None

    def _changed(self, change: Change | None) -> Change | None:
        if change is not None and self._given is not None:
            self._now = self._placed(self._given)
        return change

    def _placed(self, config: Config) -> Config:
        places = {name: climb.place for name, climb in self._climbs.items()}
        return config.at(places) if any(places.values()) else config

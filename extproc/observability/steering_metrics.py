"""What is counted, and logged, of models with `tools: auto`: at which steps they are, and when that changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from extproc.config import Config
from extproc.observability.series import Counter, Rate, Series

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

log = logging.getLogger(__name__)

DIRECTIONS = ("up", "back", "barred")


class Steps(Protocol):
    """At which steps models are (`extproc.turn.steering`)."""

    def steps(self) -> Mapping[tuple[str, str], bool]: ...


class Change(Protocol):
    """A model goes to another step (`extproc.turn.steering.Change`)."""

    @property
    def model(self) -> str: ...
    @property
    def before(self) -> str: ...
    @property
    def after(self) -> str: ...
    @property
    def direction(self) -> str: ...
    @property
    def rate(self) -> Rate: ...


class SteeringMetrics:
    """Of one processor."""

    def __init__(self) -> None:
        self.source: Steps | None = None
        self._changes = Counter("extproc_steering_changes", "Changes of a model's step.", "model", "direction")

    @property
    def series(self) -> list[Series]:
        """All of them."""
        return [self, self._changes]

    def configured(self, config: Config) -> None:
        """These models may be asked from now on, besides those that were there."""
        for model in config.ladders:
            for direction in DIRECTIONS:
                self._changes.add(model, direction, count=0)

    def changed(self, change: Change) -> None:
        """A model goes to another step."""
        self._changes.add(change.model, change.direction)
        level, what = _SAID[change.direction]
        rate = change.rate
        words = (change.model, change.before, change.after, rate.valid, rate.calls)
        log.log(
            level, f"the model %r goes from step %s to %s{what}: of its last calls there %d of %d were valid", *words
        )

    def collect(self) -> Sequence[Metric]:
        """The steps that there are, 1 for the present one of each model: of several workers, how many are at it."""
        from prometheus_client.metrics_core import GaugeMetricFamily

        family = GaugeMetricFamily("extproc_steering_step", "1 at the model's present step.", labels=("model", "step"))
        for labels, is_at in self.source.steps().items() if self.source is not None else ():
            family.add_metric(labels, float(is_at))
        return [family]


_SAID = {
    "up": (logging.WARNING, ""),
    "back": (logging.INFO, ", to see whether it calls well there by now"),
    "barred": (logging.WARNING, " for good, because its backend refuses what is asked there"),
}

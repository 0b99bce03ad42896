"""The kinds of metrics that a processor counts by: each makes prometheus-client's families when it is asked to.

prometheus-client's own take a lock at every event, and add a series to each series, of when it began; and the library
takes some 25 ms to be imported, which who waits for the processor's start would wait for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class Series(Protocol):
    def collect(self) -> Sequence[Metric]:
        """What it comes to now (prometheus-client's `Collector`)."""


class Counter:
    """A counter for each set of label values."""

    def __init__(self, name: str, meaning: str, *labels: str) -> None:
        self._described = (name, meaning, labels)
        self._values = defaultdict[tuple[str, ...], int](int)

    def add(self, *labels: str, count: int = 1) -> None:
        self._values[labels] += count

    def collect(self) -> Sequence[Metric]:
        from prometheus_client.metrics_core import CounterMetricFamily

        name, meaning, labels = self._described
        family = CounterMetricFamily(name, meaning, labels=labels)
        for values, count in self._values.items():
            family.add_metric(values, count)
        return [family]


class Gauge:
    """A number that is set, or read where `read` is given."""

    def __init__(self, name: str, meaning: str) -> None:
        self._described = (name, meaning)
        self._value = 0.0
        self.read: Callable[[], float] | None = None

    def set(self, value: float) -> None:
        self._value = float(value)

    def collect(self) -> Sequence[Metric]:
        from prometheus_client.metrics_core import GaugeMetricFamily

        return [GaugeMetricFamily(*self._described, value=float(self.read()) if self.read else self._value)]


class Histogram:
    """How many values there were up to each bound, which ascend, and what they come to together."""

    def __init__(self, name: str, meaning: str, bounds: Sequence[float]) -> None:
        self._described = (name, meaning)
        self._bounds = bounds
        self._buckets = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        self._buckets[bisect_left(self._bounds, value)] += 1
        self._total += value

    def collect(self) -> Sequence[Metric]:
        from prometheus_client.metrics_core import HistogramMetricFamily

        up_to = [*map(str, self._bounds), "+Inf"]
        buckets = list(zip(up_to, accumulate(self._buckets), strict=True))
        return [HistogramMetricFamily(*self._described, buckets=buckets, sum_value=self._total)]


class Info:
    """Texts, as the labels of a series that is always 1."""

    def __init__(self, name: str, meaning: str) -> None:
        self._described = (name, meaning)
        self.values: Mapping[str, str] = {}

    def collect(self) -> Sequence[Metric]:
        from prometheus_client.metrics_core import InfoMetricFamily

        return [InfoMetricFamily(*self._described, value=dict(self.values))]


class Build(Info):
    """Which program it is."""

    def collect(self) -> Sequence[Metric]:
        import platform
        from importlib.metadata import version

        self.values = {"version": version("extproc"), "python": platform.python_version()}
        return super().collect()


class Remembering(Protocol):
    """What is known of conversations (`extproc.turn.memory`), in bytes."""

    known: int
    new: int
    forgotten: int
    size: int


class OfMemory:
    """The numbers of one, if there is one."""

    def __init__(self) -> None:
        self.source: Remembering | None = None

    def collect(self) -> Sequence[Metric]:
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        it = self.source
        read = CounterMetricFamily(
            "extproc_request_bytes", "Bytes of requests for answers, by whether they were known.", labels=("part",)
        )
        read.add_metric(("known",), it.known if it is not None else 0)
        read.add_metric(("new",), it.new if it is not None else 0)
        forgotten = CounterMetricFamily("extproc_memory_forgotten_bytes", "Bytes that had to go from the memory.")
        forgotten.add_metric((), it.forgotten if it is not None else 0)
        size = GaugeMetricFamily("extproc_memory_bytes", "Bytes in the memory of conversations.")
        size.add_metric((), it.size if it is not None else 0)
        return [read, forgotten, size]

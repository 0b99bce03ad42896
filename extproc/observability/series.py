"""The kinds of metrics that a processor counts by: each makes prometheus-client's families when it is asked to.

prometheus-client's own take a lock at every event, and add a series to each series, of when it began; and the library
takes some 25 ms to be imported, which who waits for the processor's start would wait for.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol, TypeAlias

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


Exemplar: TypeAlias = Mapping[str, str]
"""By what one exchange is found again: its trace, or its request."""


class Histogram:
    """How many values there were up to each bound, which ascend, and what they come to together, for each set of label
    values. Each bucket keeps the last exemplar that it was given."""

    def __init__(self, name: str, meaning: str, bounds: Sequence[float], *labels: str) -> None:
        self._described = (name, meaning)
        self._bounds = bounds
        self._labels = labels
        self._values: dict[tuple[str, ...], _Buckets] = {}
        if not labels:
            self._buckets_of(())

    def observe(self, value: float, *labels: str, exemplar: Exemplar | None = None) -> None:
        of = self._values.get(labels) or self._buckets_of(labels)
        place = bisect_left(self._bounds, value)
        of.counts[place] += 1
        of.total += value
        if exemplar is not None:
            of.exemplars[place] = (exemplar, value, time.time())

    def _buckets_of(self, labels: tuple[str, ...]) -> _Buckets:
        made = self._values[labels] = _Buckets([0] * (len(self._bounds) + 1))
        return made

    def collect(self) -> Sequence[Metric]:
        from prometheus_client.metrics_core import HistogramMetricFamily
        from prometheus_client.samples import Exemplar as Shown

        family = HistogramMetricFamily(*self._described, labels=self._labels)
        up_to = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        for labels, of in self._values.items():
            shown = {place: Shown(dict(by), value, at) for place, (by, value, at) in of.exemplars.items()}
            counts = zip(up_to, accumulate(of.counts), strict=True)
            buckets: list[tuple[str, float] | tuple[str, float, Shown]] = [
                (bound, count, shown[place]) if place in shown else (bound, count)
                for place, (bound, count) in enumerate(counts)
            ]
            family.add_metric(labels, buckets, of.total)
        return [family]


@dataclass(slots=True)
class _Buckets:
    counts: list[int]
    total: float = 0.0
    exemplars: dict[int, tuple[Exemplar, float, float]] = field(default_factory=dict)
    """With their value and the time, in seconds of Unix time, by the bucket's place: no more than there are buckets."""


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


class Rate(Protocol):
    """Of calls (`extproc.turn.call_quality.CallRate`)."""

    @property
    def valid(self) -> int: ...
    @property
    def calls(self) -> int: ...


class Quality(Protocol):
    """How well models call lately (`extproc.turn.call_quality`)."""

    def rates(self) -> Mapping[tuple[str, str], Rate]: ...


class OfQuality:
    """The numbers of one, if there is one. They are gauges that add up, which a ratio doesn't."""

    def __init__(self) -> None:
        self.source: Quality | None = None

    def collect(self) -> Sequence[Metric]:
        from prometheus_client.metrics_core import GaugeMetricFamily

        family = GaugeMetricFamily(
            "extproc_recent_calls", "The last 200 calls of each model, by mode.", labels=("model", "mode", "result")
        )
        for (model, mode), rate in self.source.rates().items() if self.source is not None else ():
            family.add_metric((model, mode, "valid"), rate.valid)
            family.add_metric((model, mode, "invalid"), rate.calls - rate.valid)
        return [family]


class OfProcess:
    """What prometheus-client knows of any process: memory, processor time, descriptors, the garbage collector."""

    def collect(self) -> Sequence[Metric]:
        from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

        unused = CollectorRegistry()
        return [*ProcessCollector(registry=unused).collect(), *GCCollector(registry=unused).collect()]


class Read:
    """Numbers that are asked for when the metrics are read."""

    def __init__(self, *gauges: tuple[str, str]) -> None:
        """Names and meanings."""
        self._described = gauges
        self.source: Callable[[], Sequence[float]] | None = None
        """Their values, in the same order."""

    def collect(self) -> Sequence[Metric]:
        from prometheus_client.metrics_core import GaugeMetricFamily

        values = self.source() if self.source is not None else [0.0] * len(self._described)
        return [GaugeMetricFamily(*each, value=value) for each, value in zip(self._described, values, strict=True)]

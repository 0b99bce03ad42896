"""The metrics of several processes as if one process had counted.

Samples of counters and histograms are added, by name and labels, and keep an exemplar if one of them has any. What a
gauge comes to, GAUGES says; of all others, and of what is merely told, those of the first process hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.samples import Sample

GAUGES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "extproc_running_exchanges": sum,
    "extproc_memory_bytes": sum,
    "extproc_host_follows_overrides": min,
    "extproc_recent_calls": sum,
    "extproc_steering_step": sum,
    "extproc_transport_connections": sum,
    "extproc_transport_streams": sum,
    "extproc_transport_unsent_bytes": sum,
    "extproc_reading_queue": sum,
    "extproc_reading_queue_bytes": sum,
    "process_virtual_memory_bytes": sum,
    "process_resident_memory_bytes": sum,
    "process_open_fds": sum,
}
"""What the values of several processes come to together."""

_ADDED = frozenset({"counter", "histogram", "summary"})

Metrics: TypeAlias = "Sequence[Metric]"
_Key: TypeAlias = tuple[str, frozenset[tuple[str, str]]]


@dataclass(slots=True)
class _Family:
    like: Metric
    samples: dict[_Key, list[Sample]] = field(default_factory=dict)
    """By name and labels: those of all processes that have it."""


def added(own: Metrics, others: Iterable[Metrics], over: Metrics = ()) -> list[Metric]:
    """`own` is of the process that answers for all, `others` are of the rest.

    `over` is what `counted` made of the metrics of processes that are no more.
    """
    families: dict[str, _Family] = {}
    _take(own, families, lambda *_: True)
    for each in others:
        _take(each, families, lambda name, kind: kind in _ADDED or name in GAUGES)
    _take(over, families, _is_added)
    return [_together(family) for family in families.values()]


def counted(over: Metrics, metrics: Metrics) -> list[Metric]:
    """`over` with what the process of these metrics has counted, which is no more."""
    families: dict[str, _Family] = {}
    for each in (over, metrics):
        _take(each, families, _is_added)
    return [_together(family) for family in families.values()]


def _take(metrics: Metrics, families: dict[str, _Family], wanted: Callable[[str, str], bool]) -> None:
    """Put these beside those that are there already, as far as they are wanted by name and kind."""
    for metric in metrics:
        if wanted(metric.name, metric.type):
            family = families.setdefault(metric.name, _Family(metric))
            for sample in metric.samples:
                family.samples.setdefault((sample.name, frozenset(sample.labels.items())), []).append(sample)


def _together(family: _Family) -> Metric:
    from prometheus_client.metrics_core import Metric

    like = family.like
    made = Metric(like.name, like.documentation, like.type, like.unit)
    together = sum if like.type in _ADDED else GAUGES.get(like.name, _first)
    for samples in family.samples.values():
        value = together([sample.value for sample in samples])
        exemplar = next((sample.exemplar for sample in samples if sample.exemplar is not None), None)
        made.samples.append(samples[0]._replace(value=value, exemplar=exemplar))
    return made


def _is_added(_: str, kind: str) -> bool:
    return kind in _ADDED


def _first(values: Sequence[float]) -> float:
    return values[0]

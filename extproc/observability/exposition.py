"""A page of metrics in Prometheus' text format, or OpenMetrics' with exemplars, a piece for each metric: some hundred
models make all of it milliseconds of work, in which exchanges have to have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from extproc.observability.series import Series

_EOF = b"# EOF\n"


def registry_of(every: Iterable[Series]) -> CollectorRegistry:
    """In this order. Raises ValueError where two have one name."""
    registry = CollectorRegistry()
    for series in every:
        registry.register(cast(Collector, series))  # which asks for `collect` alone
    return registry


def pieces_of(metrics: Iterable[Metric], *, openmetrics: bool = False) -> Iterator[bytes]:
    """The page, in its order."""
    for metric in metrics:
        if openmetrics:
            page: bytes = generate_openmetrics(_Alone(metric))  # type: ignore[no-untyped-call]
            yield page.removesuffix(_EOF)
        else:
            yield generate_latest(_Alone(metric))
    if openmetrics:
        yield _EOF


async def collected(registry: CollectorRegistry) -> list[Metric]:
    """All metrics; others have their turn between any two."""
    found = []
    for metric in registry.collect():
        found.append(metric)
        await asyncio.sleep(0)
    return found


class _Alone(CollectorRegistry):
    """A registry of one, which is collected already."""

    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


async def whole(pieces: Iterable[bytes]) -> bytes:
    """The page that is made of these; others have their turn between any two."""
    made = []
    for piece in pieces:
        made.append(piece)
        await asyncio.sleep(0)
    return b"".join(made)

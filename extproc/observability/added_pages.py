"""One page of metrics from those of several processes, as if one process had counted.

It is done on the text (https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4), whoever wrote it:
samples of counters and histograms are added, by name and labels. What a gauge comes to, GAUGES says; of all others, and
of what a page merely tells, the first page's holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

GAUGES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "extproc_running_exchanges": sum,
    "extproc_memory_bytes": sum,
    "extproc_host_follows_overrides": min,
}
"""What the values of several processes come to together."""

_ADDED = frozenset({"counter", "histogram", "summary"})


@dataclass(slots=True)
class _Family:
    head: list[str] = field(default_factory=list)
    """Its HELP and its TYPE."""
    kind: str = "untyped"
    samples: dict[str, list[float]] = field(default_factory=dict)
    """By name and labels, as they are written: the values of all pages that have it."""


def added(own: bytes, others: Iterable[bytes], over: bytes = b"") -> bytes:
    """`own` is the page of the process that answers for all, `others` are those of the rest.

    `over` is what `counted` made of the pages of processes that are no more.
    """
    families: dict[str, _Family] = {}
    _read(own, families, lambda *_: True)
    for page in others:
        _read(page, families, lambda name, kind: kind in _ADDED or name in GAUGES)
    _read(over, families, _is_added)
    return "".join(_written(name, family) for name, family in families.items()).encode()


def counted(over: bytes, page: bytes) -> bytes:
    """`over` with what the process of this page has counted, which is no more."""
    families: dict[str, _Family] = {}
    for each in (over, page):
        _read(each, families, _is_added)
    return "".join(_written(name, family) for name, family in families.items()).encode()


def _read(page: bytes, families: dict[str, _Family], wanted: Callable[[str, str], bool]) -> None:
    """Put what is on a page beside what is there already, as far as it is wanted by its name and kind."""
    name, head, family = "", "", None
    for line in page.decode().split("\n"):  # names of models may have other ends of lines in them
        if line.startswith("# HELP "):
            name, head, family = line.split(" ", 3)[2], line, None
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ", 3)
            family = None
            if wanted(name, kind):
                family = families.setdefault(name, _Family(kind=kind))
                family.head = family.head or [head, line]
        elif line and not line.startswith("#") and family is not None:
            sample, _, value = line.rpartition(" ")
            family.samples.setdefault(sample, []).append(float(value))


def _written(name: str, family: _Family) -> str:
    together = sum if family.kind in _ADDED else GAUGES.get(name, _first)
    samples = (f"{sample} {together(values)}" for sample, values in family.samples.items())
    return "".join(f"{line}\n" for line in (*family.head, *samples))


def _is_added(_: str, kind: str) -> bool:
    return kind in _ADDED


def _first(values: Sequence[float]) -> float:
    return values[0]

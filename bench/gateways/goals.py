"""What has to hold, as ratios within one run: no number of one machine says anything on another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.gateways.plan import FIRST, TENTH
from bench.gateways.results import Results, Row, ratio

_MODES = ("native", "template", "prompt")


@dataclass(frozen=True, slots=True)
class Goal:
    said: str
    limit: float
    least: bool
    """Whether the ratio has to be at least that, and not at most."""
    measured: Callable[[Results], float | None]
    """None if it wasn't measured."""

    def held(self, value: float) -> bool:
        return value >= self.limit if self.least else value <= self.limit


def _largest(ratios: list[float | None]) -> float | None:
    known = [one for one in ratios if one is not None]
    return max(known) if len(known) == len(ratios) else None


def _streams(results: Results) -> int:
    return int(max(results.counts("streams", "streams", way="native"), default=0))


def _token(results: Results) -> float | None:
    many = _streams(results)
    return _largest([ratio(results.streams(m, many), results.streams("echo", many), "processor us") for m in _MODES])


def _times_fastapi(shape: str, request: str, *ways: str, connections: int = 1) -> Callable[[Results], float | None]:
    def measured(results: Results) -> float | None:
        fastapi = results.whole("fastapi", shape, request, connections)
        return _largest([ratio(results.whole(way, shape, request, connections), fastapi, "p50") for way in ways])

    return measured


def _throughput(results: Results) -> float | None:
    plain, fastapi = (results.whole(way, "17k", FIRST, 16) for way in ("plain", "fastapi"))
    slower = ratio(fastapi, plain, "rate")
    return None if slower is None else 1 / slower


def _workers(results: Results) -> float | None:
    each = _streams(results)
    return ratio(results.streams("prompt", each), results.streams("workers-2", 2 * each), "busiest us")


def _tail(results: Results) -> float | None:
    rows: list[Row | None] = [results.whole(way, "41k", TENTH, 16) for way in _MODES]
    return _largest([ratio(row, row, "p99_9", "p50") for row in rows])


GOALS = (
    Goal("a token of a stream with tools, in processor time: times what grpc.aio's echo takes", 0.4, False, _token),
    Goal("17 kB, no tools: p50, times FastAPI's", 1.0, False, _times_fastapi("17k", FIRST, "plain")),
    Goal("17 kB, no tools, 16 connections, one worker: answers a second, times FastAPI's", 5.0, True, _throughput),
    Goal("41 kB, 25 tools, tenth request: p50, times FastAPI's", 1.0, False, _times_fastapi("41k", TENTH, *_MODES)),
    Goal(
        "the same at 16 connections",
        1.0,
        False,
        _times_fastapi("41k", TENTH, *_MODES, connections=16),
    ),
    Goal("41 kB, 25 tools, first request: p50, times FastAPI's", 2.0, False, _times_fastapi("41k", FIRST, *_MODES)),
    Goal("streams with tools that fill the busiest worker, 64 for each: two workers, times one", 1.8, True, _workers),
    Goal("41 kB, 25 tools, tenth request, 16 connections: p99.9, times p50", 10.0, False, _tail),
)
"""Where there are three modes, it is the worst of them that counts."""

"""What is counted of runs and of the tools that run on our side."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric

from extproc.observability.exposition import collected, pieces_of, whole
from extproc.observability.model_metrics import SECONDS

_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_ROUNDS = (1, 2, 3, 4, 5, 6, 8, 10, 20, 50, 100)


class RunMetrics:
    """Those of one process. Labels are names of the configuration, never a client's words."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._runs = Counter(
            "extproc_runs",
            "Requests answered by runs, by how they ended",
            ["model", "dialect", "end"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "extproc_run_duration_seconds",
            "From a request to the end of its answer",
            ["model"],
            buckets=_QUICK,
            registry=self._registry,
        )
        self._rounds = Histogram(
            "extproc_run_rounds", "Model rounds of a run", ["model"], buckets=_ROUNDS, registry=self._registry
        )
        self._under_way = Gauge("extproc_runs_under_way", "Runs that have not ended", registry=self._registry)
        self._tools = Histogram(
            "gen_ai_execute_tool_duration_seconds",
            "How long a tool ran, by what went wrong",
            ["gen_ai_tool_name", "extproc_tool_source", "error_type"],
            buckets=(0.00125, 0.0025, 0.005, *SECONDS),  # a character's own take a millisecond
            registry=self._registry,
        )
        self._deferred = Counter(
            "extproc_deferred_tool_calls",
            "Calls not run because the client's tools were called beside them",
            ["model"],
            registry=self._registry,
        )
        self._characters = Gauge("extproc_characters", "Characters, by state", ["state"], registry=self._registry)
        self._servers = Gauge(
            "extproc_tool_server_up", "Whether an MCP server is connected", ["server"], registry=self._registry
        )

    def began(self) -> None:
        self._under_way.inc()

    def left(self) -> None:
        self._under_way.dec()

    def ended(self, model: str, dialect: str, end: str, *, seconds: float, rounds: int, deferred: int) -> None:
        """`end` is `complete`, `client_left`, or an error's code."""
        self._runs.labels(model, dialect, end).inc()
        self._seconds.labels(model).observe(seconds)
        self._rounds.labels(model).observe(rounds)
        if deferred:
            self._deferred.labels(model).inc(deferred)

    def refused(self, dialect: str, code: str) -> None:
        """A request of which no run came: its model may be anything."""
        self._runs.labels("", dialect, code).inc()

    def tool(self, source: str, tool: str, outcome: str, seconds: float) -> None:
        self._tools.labels(tool, source, "" if outcome == "ok" else outcome).observe(seconds)

    def show_characters(self, by_state: dict[str, int]) -> None:
        for state, count in by_state.items():
            self._characters.labels(state).set(count)

    def show_servers(self, up: dict[str, bool]) -> None:
        self._servers.clear()
        for name, is_up in up.items():
            self._servers.labels(name).set(is_up)

    def page(self) -> bytes:
        """In Prometheus' text format."""
        return b"".join(pieces_of(self._registry.collect()))

    async def page_in_turns(self, *, openmetrics: bool = False) -> bytes:
        """The same, while others have their turn; in OpenMetrics' format, if so."""
        return await whole(pieces_of(self._registry.collect(), openmetrics=openmetrics))

    async def metrics_in_turns(self) -> list[Metric]:
        """All of them, while others have their turn."""
        return await collected(self._registry)

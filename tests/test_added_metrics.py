"""The metrics of several processes on one page."""

from __future__ import annotations

import pytest

from extproc.config import parse
from extproc.contract.errors import ApiError
from extproc.observability.added_metrics import GAUGES, Metrics, added, counted
from extproc.observability.exposition import pieces_of
from extproc.observability.series import Histogram
from extproc.observability.telemetry import Telemetry

CONFIG = parse("""
models: [{name: coder, backend: gpu, tools: prompt}]
backends: [{name: gpu, address: "127.0.0.1:1"}]
""")
TELLS_OF_ALL = {
    "extproc_build_info",
    "extproc_config_info",
    "extproc_config_valid",
    "extproc_api_keys_valid",
    "extproc_api_keys_unreadable_lines",
    "extproc_api_keys_missing",
    "extproc_api_keys_closed",
    "process_start_time_seconds",
    "process_max_fds",
}
"""Gauges that the first page alone knows."""


def samples(metrics: Metrics) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value for metric in metrics for sample in metric.samples
    }


def worker(requests: int, running: int = 0, *, follows: bool = True) -> Metrics:
    telemetry = Telemetry(CONFIG, "worker")
    telemetry.watch(lambda: running)
    telemetry.show_host(follows=follows)
    for _ in range(requests):
        telemetry.accepted("coder", ("seed",), 0)
    return telemetry.metrics


def test_what_is_counted_adds_up() -> None:
    page = samples(added(worker(0), [worker(2), worker(3)]))
    assert page["extproc_requests_total[('model', 'coder')]"] == 5
    assert page["extproc_dropped_parameters_total[('parameter', 'seed')]"] == 5


def test_histograms_add_up_and_keep_an_exemplar() -> None:
    lags = [Histogram("lag_seconds", "Lag.", (0.1,), "of") for _ in range(2)]
    lags[0].observe(0.05, "a", exemplar={"trace_id": "1"})
    lags[1].observe(0.05, "a")
    lags[1].observe(0.5, "a", exemplar={"trace_id": "2"})
    (metric,) = added(lags[0].collect(), [lags[1].collect()])
    assert {(sample.name, sample.labels.get("le")): sample.value for sample in metric.samples} == {
        ("lag_seconds_bucket", "0.1"): 2,
        ("lag_seconds_bucket", "+Inf"): 3,
        ("lag_seconds_count", None): 3,
        ("lag_seconds_sum", None): pytest.approx(0.6),
    }
    exemplars = [sample.exemplar for sample in metric.samples if sample.exemplar is not None]
    assert [(exemplar.labels, exemplar.value) for exemplar in exemplars] == [
        ({"trace_id": "1"}, 0.05),
        ({"trace_id": "2"}, 0.5),
    ]


def test_gauges_come_to_what_the_table_says() -> None:
    page = samples(added(worker(0), [worker(0, 2), worker(0, 3, follows=False)]))
    assert page["extproc_running_exchanges[]"] == 5
    assert page["extproc_host_follows_overrides[]"] == 0


def test_every_gauge_is_in_the_table_or_the_first_page_tells_it() -> None:
    page = Telemetry(CONFIG).page().decode()
    gauges = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE") and line.endswith(" gauge")}
    assert gauges == TELLS_OF_ALL | set(GAUGES)


def test_what_is_told_of_all_is_the_first_pages() -> None:
    telemetry = Telemetry(CONFIG, "ours")
    telemetry.show_validity("config", valid=False)
    page = samples(added(telemetry.metrics, [worker(1)]))
    assert page["extproc_config_valid[]"] == 0
    assert page["extproc_config_info[('hash', 'ours')]"] == 1
    assert not [sample for sample in page if "'worker'" in sample]


def test_what_the_dead_have_counted_still_counts_and_nothing_else_of_them() -> None:
    gone = counted(counted((), worker(2, 7)), worker(3, 7, follows=False))
    page = samples(added(worker(0), [worker(1, 1)], gone))
    assert page["extproc_requests_total[('model', 'coder')]"] == 6
    assert page["extproc_running_exchanges[]"] == 1
    assert page["extproc_host_follows_overrides[]"] == 1


def test_a_series_that_only_one_has_is_there_with_its_help_and_type() -> None:
    telemetry = Telemetry(CONFIG)
    telemetry.refused(ApiError(401, "no", code="invalid_api_key"))
    together = added(worker(0), [telemetry.metrics])
    page = b"".join(pieces_of(together))
    assert samples(together)["extproc_refused_requests_total[('code', 'invalid_api_key')]"] == 1
    assert page.count(b"# TYPE extproc_refused_requests_total counter\n") == 1
    assert page.count(b"# HELP extproc_refused_requests_total ") == 1

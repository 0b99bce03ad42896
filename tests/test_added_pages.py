"""The metrics of several processes on one page."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from extproc.config import parse
from extproc.contract.errors import ApiError
from extproc.observability.added_pages import GAUGES, added, counted
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
}
"""Gauges that the first page alone knows."""
HISTOGRAM = b"""\
# HELP lag_seconds Lag.
# TYPE lag_seconds histogram
lag_seconds_bucket{le="0.1"} %d.0
lag_seconds_bucket{le="+Inf"} %d.0
lag_seconds_sum 0.5
lag_seconds_count %d.0
"""


def samples(page: bytes) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def worker(requests: int, running: int = 0, *, follows: bool = True) -> bytes:
    telemetry = Telemetry(CONFIG, "worker")
    telemetry.watch(lambda: running)
    telemetry.show_host(follows=follows)
    for _ in range(requests):
        telemetry.accepted("coder", ("seed",), 0)
    return telemetry.page()


def test_what_is_counted_adds_up() -> None:
    page = samples(added(worker(0), [worker(2), worker(3)]))
    assert page["extproc_requests_total[('model', 'coder')]"] == 5
    assert page["extproc_dropped_parameters_total[('parameter', 'seed')]"] == 5
    histograms = samples(added(HISTOGRAM % (1, 2, 2), [HISTOGRAM % (3, 4, 4)]))
    assert histograms["lag_seconds_bucket[('le', '0.1')]"] == 4
    assert histograms["lag_seconds_sum[]"] == 1
    assert histograms["lag_seconds_count[]"] == 6


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
    page = samples(added(telemetry.page(), [worker(1)]))
    assert page["extproc_config_valid[]"] == 0
    assert page["extproc_config_info[('hash', 'ours')]"] == 1
    assert not [sample for sample in page if "'worker'" in sample]


def test_what_the_dead_have_counted_still_counts_and_nothing_else_of_them() -> None:
    gone = counted(counted(b"", worker(2, 7)), worker(3, 7, follows=False))
    page = samples(added(worker(0), [worker(1, 1)], gone))
    assert page["extproc_requests_total[('model', 'coder')]"] == 6
    assert page["extproc_running_exchanges[]"] == 1
    assert page["extproc_host_follows_overrides[]"] == 1


def test_a_series_that_only_one_has_is_there_with_its_help_and_type() -> None:
    telemetry = Telemetry(CONFIG)
    telemetry.refused(ApiError(401, "no", code="invalid_api_key"))
    page = added(worker(0), [telemetry.page()])
    assert samples(page)["extproc_refused_requests_total[('code', 'invalid_api_key')]"] == 1
    assert page.count(b"# TYPE extproc_refused_requests_total counter\n") == 1
    assert page.count(b"# HELP extproc_refused_requests_total ") == 1


@pytest.mark.parametrize("odd", ["\u2028", "\x0c", "\x1c", "\x85", "\\n", '\\"', " "])
def test_names_with_odd_characters_are_no_ends_of_lines(odd: str) -> None:
    page = f'# HELP a_total A.\n# TYPE a_total counter\na_total{{model="x{odd}y"}} 2.0\n'.encode()
    assert added(b"", [page, page]) == page.replace(b"2.0", b"4.0")
    assert counted(page, page) == page.replace(b"2.0", b"4.0")

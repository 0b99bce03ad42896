"""Metrics by OTLP: they say what the page says, and a collector that doesn't take them harms nobody."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
)
from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric as Family

from extproc.config import ConfigError
from extproc.config.metrics import Metrics as Settings
from extproc.control import reloading
from extproc.control.reloading import Source
from extproc.control.watched import Watched
from extproc.observability import export, otlp_sender
from extproc.observability.export import MetricsExport
from extproc.observability.exposition import pieces_of
from extproc.observability.otlp import ATTRIBUTES, NAMES, translated
from extproc.observability.otlp_sender import Sender
from extproc.observability.run_metrics import RunMetrics
from extproc.observability.telemetry import Telemetry
from extproc.turn.asked import Asked
from extproc.turn.tally import Tally
from tests.collector import Batch, Collector, numbers_of
from tests.gateway import wait_until
from tests.test_request import CONFIG

PAGE = (Path(__file__).parent.parent / "docs/observability.md").read_text(encoding="utf-8")
TRACE = "0af7651916cd43dd8448eb211c80319c"


def processor() -> Telemetry:
    """One that has counted something of each kind."""
    telemetry = Telemetry(CONFIG, "d1ge57")
    asked = Asked("native", "", "chat", stream=True)
    telemetry.accepted("coder", ("seed",), 2, with_tools=True)
    for seconds in (0.003, 0.003, 0.2, 3000.0):
        telemetry.models.ended("coder", asked, seconds, "" if seconds < 1 else "504", {"trace_id": TRACE})
        telemetry.models.first_token("coder", asked, seconds, None)
        telemetry.models.per_token("coder", asked, seconds, None)
        telemetry.lagged(seconds)
    telemetry.models.answered("coder", asked, Tally(), {"prompt_tokens": 70}, None, offered=True)
    telemetry.watch(lambda: 3)
    return telemetry


def runner() -> RunMetrics:
    metrics = RunMetrics()
    metrics.began()
    metrics.ended("coder", "chat", "complete", seconds=0.5, rounds=2, deferred=1)
    metrics.tool("box", "add", "ok", 0.01)
    metrics.tool("box", "add", "timeout", 30)
    metrics.show_servers({"box": True})
    metrics.show_characters({"READY": 2})
    return metrics


def collected(metrics: Telemetry | RunMetrics) -> list[Family]:
    return asyncio.run(metrics.metrics_in_turns())


def sent(families: list[Family], since: int = 5, now: int = 7) -> Batch:
    """As a collector gets them."""
    collector = Collector()
    scope = ScopeMetrics(InstrumentationScope("test"), translated(families, since, now), "")
    body = encode_metrics(MetricsData([ResourceMetrics(Resource({}), [scope], "")])).SerializeToString()
    collector.take("/v1/metrics", body)
    [batch] = collector.batches
    return batch


def named(batch: Batch, name: str) -> Metric:
    [metric] = [each for each in batch.metrics if each.name == name]
    return metric


class TestOneTruth:
    @pytest.mark.parametrize("of", [processor, runner])
    def test_every_number_of_the_page_is_sent_and_no_other(self, of: Callable[[], Telemetry | RunMetrics]) -> None:
        families = collected(of())
        page = numbers_of(b"".join(pieces_of(families)).decode())
        numbers = sent(families).numbers
        assert len(numbers) > 50
        assert numbers == page

    def test_what_is_counted_is_cumulative_from_a_time_on(self) -> None:
        batch = sent(collected(processor()))
        requests = named(batch, "extproc_requests")
        assert requests.sum.is_monotonic
        assert requests.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        lags = named(batch, "extproc_loop_lag_seconds").histogram.data_points
        points: list[NumberDataPoint | HistogramDataPoint] = [*requests.sum.data_points, *lags]
        for point in points:
            assert (point.start_time_unix_nano, point.time_unix_nano) == (5, 7)
        told = named(batch, "extproc_build_info")
        assert (told.HasField("sum"), told.sum.is_monotonic) == (True, False)
        assert named(batch, "extproc_running_exchanges").HasField("gauge")

    def test_what_opentelemetry_names_has_its_names_and_units(self) -> None:
        batches = [sent(collected(of())) for of in (processor, runner)]
        named_by_it = [metric for batch in batches for metric in batch.metrics if metric.name.startswith("gen_ai")]
        assert {(metric.name, metric.unit) for metric in named_by_it} == set(NAMES.values())
        attributes = {
            each.key for metric in named_by_it for point in metric.histogram.data_points for each in point.attributes
        }
        assert attributes == set(ATTRIBUTES.values()) - {"extproc.format"}  # which is empty here
        [usage] = named(batches[0], "gen_ai.client.token.usage").histogram.data_points
        assert {"gen_ai.request.model", "gen_ai.token.type", "extproc.mode"} <= {each.key for each in usage.attributes}
        assert list(usage.explicit_bounds) == [4.0**power for power in range(14)]
        assert (usage.count, usage.sum, usage.HasField("min"), usage.HasField("max")) == (1, 70, False, False)

    def test_the_units_of_the_others_are_in_their_names(self) -> None:
        units = {metric.name: metric.unit for metric in sent(collected(processor())).metrics}
        assert (units["extproc_loop_lag_seconds"], units["extproc_answer_bytes"]) == ("s", "By")
        assert (units["extproc_memory_bytes"], units["extproc_requests"]) == ("By", "")

    def test_an_exemplar_has_its_time_and_its_trace(self) -> None:
        points = named(sent(collected(processor())), "gen_ai.client.operation.duration").histogram.data_points
        shown = [each for point in points for each in point.exemplars]
        assert sorted(each.as_double for each in shown) == [0.003, 0.2, 3000.0]
        assert {pair.value.string_value for each in shown for pair in each.filtered_attributes} == {TRACE}
        assert all(each.time_unix_nano > 1_700_000_000 * 10**9 for each in shown)

    def test_the_page_tells_opentelemetrys_names(self) -> None:
        section = PAGE.partition("\n### By OTLP\n")[2].partition("\n### ")[0]
        assert set(re.findall(r"`(gen_ai\.[a-z_.]+)`", section)) >= {name for name, _ in NAMES.values()}


class TestSending:
    def test_who_tells_and_by_which_headers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=ours")
        with Collector().running() as collector:
            sender = Sender(f"127.0.0.1:{collector.port}", "extproc", since=5)
            sender.send(collected(processor()))
            sender.close()
        [batch] = collector.batches
        assert batch.resource["service.name"] == "extproc"
        assert batch.resource["service.instance.id"]
        assert collector.headers[0]["x-tenant"] == "ours"
        assert collector.headers[0]["content-type"] == "application/x-protobuf"

    def test_a_refusal_is_told_once_and_so_is_its_end(self, caplog: pytest.LogCaptureFixture) -> None:
        families = collected(runner())
        with Collector().running() as collector, caplog.at_level(logging.INFO):
            sender = Sender(f"127.0.0.1:{collector.port}", "extproc-runner", since=5)
            for collector.status in (400, 403, 400, 200, 200):
                sender.send(families)
            sender.close()
        address = f"127.0.0.1:{collector.port}"
        assert [(record.levelname, record.message) for record in caplog.records] == [
            ("ERROR", f"metrics can't be sent to {address}"),
            ("INFO", f"metrics are taken by {address} again"),
        ]
        assert len(collector.batches) == 2


class Exported:
    """What a process counts, and where the settings have it sent."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.telemetry = processor()
        self.settings = settings

    async def during(self, act: Callable[[], Awaitable[None]]) -> None:
        exported = MetricsExport("extproc", self.telemetry.metrics_in_turns, lambda: self.settings)
        async with exported.running():
            await act()


def requests_in(batch: Batch) -> float:
    return batch.numbers["extproc_requests_total", frozenset({("model", "coder")})]


class TestWhen:
    def test_what_is_left_is_sent_at_the_end(self) -> None:
        with Collector().running() as collector:
            exported = Exported(Settings(collector=f"127.0.0.1:{collector.port}", interval_seconds=3600))

            async def count() -> None:
                exported.telemetry.accepted("coder", (), 0)

            asyncio.run(exported.during(count))
        assert [requests_in(batch) for batch in collector.batches] == [2]

    def test_nothing_is_made_unless_it_is_asked_for(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        made: list[tuple[object, ...]] = []
        monkeypatch.setattr(export, "_sender", lambda *of: made.append(of))
        monkeypatch.setattr(export, "_LOOK", 0.001)
        exported = Exported()
        asyncio.run(exported.during(partial(asyncio.sleep, 0.01)))
        assert (made, caplog.records) == ([], [])

    def test_without_the_sdk_it_cant_be_asked_for(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        file = tmp_path / "extproc.yaml"
        file.write_text(
            "models: [{name: m, backend: b, tools: prompt}]\n"
            'backends: [{name: b, address: "127.0.0.1:1"}]\n'
            'metrics: {collector: "127.0.0.1:1"}\n'
        )
        source = Source(Watched(file))
        source.check_installed(source.read())
        monkeypatch.setattr(reloading, "is_installed", lambda: False)
        with pytest.raises(ConfigError, match=r"metrics: it needs OpenTelemetry's SDK: `pip install .*\[otel\]'`"):
            source.check_installed(source.read())

    def test_they_follow_the_settings(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(export, "_LOOK", 0.01)
        with Collector().running() as first, Collector().running() as second:
            exported = Exported()

            async def change() -> None:
                for collector in (first, second):
                    address = f"127.0.0.1:{collector.port}"
                    exported.settings = Settings.model_construct(collector=address, interval_seconds=0.01)
                    await asyncio.to_thread(wait_until, lambda: len(collector.batches) > 1)  # noqa: B023
                exported.settings = None

            asyncio.run(exported.during(change))
        instances = {batch.resource["service.instance.id"] for batch in (*first.batches, *second.batches)}
        assert len(instances) == 1
        starts = {
            point.start_time_unix_nano
            for batch in (*first.batches, *second.batches)
            for point in named(batch, "extproc_requests").sum.data_points
        }
        assert len(starts) == 1

    def test_a_collector_that_hangs_holds_up_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(otlp_sender, "EXPORT_SECONDS", 60.0)
        monkeypatch.setattr(export, "LEAVING_SECONDS", 0.05)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.settimeout(20)
            exported = Exported()
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            exported.settings = Settings.model_construct(collector=address, interval_seconds=0.0)

            taken: list[socket.socket] = []

            async def hang() -> None:
                async def until_asked() -> None:
                    taken.append((await asyncio.to_thread(silent.accept))[0])

                await exported.during(until_asked)  # and it ends, although there is no answer
                silent.close()
                taken[0].close()

            asyncio.run(hang())
        assert len(taken) == 1

"""Traces at the front door: one trace from the client by Envoy, processor, runner and tool to the backend. And
what both processes count, at the same collector."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extproc.names import CHAT_PATH
from extproc.wire import SERVICE
from scripted_vllm import Reply
from tests.collector import Collector, Series, Span, numbers_of
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway, wait_until
from tests.test_runs import call

TRACE = "4bf92f3577b34da6a3ce929d0e0e47"
PARENT = "00f067aa0ba902b7"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
FLUSHED = (
    "http.max_requests_per_io_cycle: 1",
    "http.max_requests_per_io_cycle: 1\n      tracing.opentelemetry.min_flush_spans: 1",
)
SETTINGS = """
models:
  - {{name: coder, upstream_model: {model}, backend: qwen, tools: prompt, retry: true}}
  - {{name: tools/coder, upstream_model: {model}, backend: qwen, tools: prompt, tool_servers: [box]}}
backends:
  - {{name: qwen, address: "127.0.0.1:{port}", health_check: false, structured_outputs: false}}
tool_servers:
  - name: box
    command: ["{python}", -m, tests.mcp_server]
    environment: {{PYTHONPATH: "{root}"}}
    allowed_tools: [add]
tracing: {{collector: "127.0.0.1:{collector}", sampling: 0.0}}
metrics: {{collector: "127.0.0.1:{collector}", interval_seconds: 1}}
"""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector().running() as collector:
        yield collector


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("traces")
    with AskedVLLM().running() as backend, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        settings = SETTINGS.format(
            model=MODEL,
            port=backend.port,
            python=sys.executable,
            root=Path(__file__).parents[1],
            collector=collector.port,
        )
        with configured_gateway(folder, settings, backend, envoy=dict([FLUSHED])) as gateway:
            up = 'extproc_tool_server_up{server="box"} 1.0'
            wait_until(lambda: up in gateway.http.get(gateway.runner_metrics).text)
            yield gateway


def ask(gateway: Gateway, number: int, flags: str = "01", **fields: Any) -> str:
    """Returns the trace's id."""
    trace = f"{TRACE}{number:02}"
    body = {"model": "coder", "messages": [{"role": "user", "content": "Paris?"}], "tools": [WEATHER], **fields}
    headers = {"traceparent": f"00-{trace}-{PARENT}-{flags}"}
    assert gateway.http.post(CHAT_PATH, json=body, headers=headers).status_code == 200
    return trace


def above(span: Span, spans: list[Span]) -> list[str]:
    """The names of what it is below, from the top; the last is its own."""
    by_id = {each.id: each for each in spans}
    found = [span]
    while found[0].parent in by_id:
        found.insert(0, by_id[found[0].parent])
    return [each.name for each in found]


def named(spans: list[Span], name: str) -> Span:
    [span] = [each for each in spans if each.name == name]
    return span


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_is_one_trace(gateway: Gateway, collector: Collector, *, stream: bool) -> None:
    gateway.backend.play(Reply(call("get_weather", city="Paris")))
    spans = collector.of(ask(gateway, int(stream), stream=stream), "ingress", "chat coder")
    chat = named(spans, "chat coder")
    assert {span.service for span in spans} == {"envoy", "extproc"}
    ways = {" > ".join(above(span, spans)) for span in spans}
    [top] = [span for span in spans if span.parent == PARENT]
    assert top.service == "envoy"
    assert f"{top.name} > async {SERVICE}.Process egress > chat coder > write the answer" in ways
    assert sum("chat coder" in way for way in ways) == 4
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "coder",
        "extproc.backend": "qwen",
    }
    assert expected.items() <= chat.attributes.items()
    assert chat.attributes["gen_ai.usage.input_tokens"] > 0
    assert chat.attributes["gen_ai.usage.output_tokens"] > 0
    parts = [named(spans, name) for name in ("read the request", "wait for the backend", "write the answer")]
    assert [part.begin for part in parts] == sorted(part.begin for part in parts)
    assert all(chat.begin <= part.begin <= part.end <= chat.end for part in parts)
    assert parts[-1].events == ("first output",)
    # The backend is told of Envoy's span of it, so that its own come below.
    [told] = [value for name, value in gateway.backend.requests[-1].headers if name == "traceparent"]
    wait_until(lambda: told.split("-")[2] in {span.id for span in collector.spans})


def test_a_second_try_is_below_the_first(gateway: Gateway, collector: Collector) -> None:
    gateway.backend.forget()
    gateway.backend.play(Reply("I would rather not."), Reply(call("get_weather", city="Paris")))
    trace = ask(gateway, 2, tool_choice="required")
    spans = collector.of(trace, "ingress", "chat coder", "retry")
    retry = named(spans, "retry")
    assert above(retry, spans)[-2:] == ["chat coder", "retry"]
    # Envoy and the processor send in their own time.
    wait_until(lambda: any(span.service == "envoy" and span.parent == retry.id for span in collector.spans))


def test_tools_and_rounds_of_a_run_are_below_it(gateway: Gateway, collector: Collector) -> None:
    gateway.backend.forget()
    gateway.backend.play(Reply(call("box__add", a=1, b=2)), Reply("It is 3."))
    trace = ask(gateway, 3, model="tools/coder", tools=[])
    # Three exchanges: the client's, and a round each.
    wait_until(lambda: sum(span.trace == trace and span.name == "chat tools/coder" for span in collector.spans) == 3)
    wait_until(lambda: sum(span.trace == trace and span.name == "egress gateway" for span in collector.spans) == 2)
    spans = collector.of(trace, "invoke_agent tools/coder")
    run, tool = named(spans, "invoke_agent tools/coder"), named(spans, "execute_tool add")
    assert (run.service, tool.parent) == ("extproc-runner", run.id)
    expected = {"gen_ai.tool.name": "add", "extproc.tool.source": "box", "extproc.tool.outcome": "ok"}
    assert expected.items() <= tool.attributes.items()
    rounds = [span for span in spans if "extproc.round" in span.attributes]
    assert sorted(span.attributes["extproc.round"] for span in rounds) == ["1", "2"]
    assert all("invoke_agent tools/coder" in above(span, spans) for span in rounds)


def test_who_decides_is_the_client_and_then_the_settings(gateway: Gateway, collector: Collector) -> None:
    gateway.backend.forget()
    gateway.backend.play(*[Reply(call("get_weather", city="Paris"))] * 3)
    left_out = ask(gateway, 4, flags="00")
    body = {"model": "coder", "messages": [{"role": "user", "content": "Paris?"}], "tools": [WEATHER]}
    gateway.http.post(CHAT_PATH, json=body)  # sampling is 0
    last = ask(gateway, 5)
    collector.of(last, "ingress", "chat coder")
    assert not [span for span in collector.spans if span.trace == left_out]
    assert {span.trace[:30] for span in collector.spans} == {TRACE}


def test_what_was_said_is_in_no_span(gateway: Gateway, collector: Collector) -> None:
    words = ("prompt", "tool", "argument", "field", "key", "header", "said", "model", "query")
    secrets = [f"sEcReT{word}" for word in words]
    prompt, tool, argument, field, key, header, said, model, query = secrets
    gateway.backend.forget()
    gateway.backend.play(Reply(f"{said}\n{call('get_weather', city=argument)}"), Reply(call(tool, **{field: argument})))
    headers = {"authorization": f"Bearer {key}", "x-tenant": header}
    trace = f"{TRACE}66"
    body: dict[str, Any] = {"model": "coder", "messages": [{"role": "user", "content": prompt}], "tools": [WEATHER]}
    for more in ({}, {field: 1}, {"tools": [{"type": "function", "function": {"name": tool}}]}, {"model": model}):
        told = {**headers, "traceparent": f"00-{trace}-{PARENT}-01"}
        gateway.http.post(f"{CHAT_PATH}?key={query}", json={**body, **more}, headers=told)
    wait_until(lambda: sum(span.trace == trace and span.name == "chat" for span in collector.spans) == 1)
    collector.of(trace, "ingress", "chat coder")
    found = [secret for secret in secrets if secret.encode() in collector.raw]
    assert not found


def test_the_backend_stays_unnamed_where_a_request_is_wrong(gateway: Gateway, collector: Collector) -> None:
    trace = f"{TRACE}77"
    headers = {"traceparent": f"00-{trace}-{PARENT}-01"}
    answer = gateway.http.post(CHAT_PATH, json={"model": "coder", "messages": "none"}, headers=headers)
    assert answer.status_code == 400
    chat = named(collector.of(trace, "ingress", "chat"), "chat")
    assert (chat.failed, chat.attributes["error.type"]) == (True, json.loads(answer.text)["error"]["code"])
    assert "gen_ai.request.model" not in chat.attributes


@pytest.mark.parametrize("service", ["extproc", "extproc-runner"])
def test_what_is_sent_is_what_the_page_shows(gateway: Gateway, collector: Collector, service: str) -> None:
    gateway.backend.forget()
    gateway.backend.play(Reply(call("box__add", a=1, b=2)), Reply("It is 3."))
    ask(gateway, 8, model="tools/coder", tools=[])
    page = gateway.metrics if service == "extproc" else gateway.runner_metrics
    counted = ("extproc_requests", "extproc_tokens", "extproc_runs_total", "extproc_answers", "gen_ai", "extproc_run_")

    def shown() -> dict[Series, float]:
        """What changes with requests alone."""
        return _of_requests(numbers_of(gateway.http.get(page).text), counted)

    def sent() -> dict[Series, float]:
        batches = [batch for batch in collector.batches if batch.resource["service.name"] == service]
        return _of_requests(batches[-1].numbers, counted) if batches else {}

    wait_until(lambda: sent() == shown())  # Envoy's log, by which answers' ends are known, comes a second later
    assert len(shown()) > 30
    sums = {name for (name, _), value in sent().items() if value > 0 and name.endswith(("_total", "_count"))}
    assert (
        sums
        >= {
            "extproc": {"extproc_requests_total", "gen_ai_client_operation_duration_seconds_count"},
            "extproc-runner": {"extproc_runs_total", "gen_ai_execute_tool_duration_seconds_count"},
        }[service]
    )


def _of_requests(numbers: dict[Series, float], names: tuple[str, ...]) -> dict[Series, float]:
    return {series: value for series, value in numbers.items() if series[0].startswith(names)}

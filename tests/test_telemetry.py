"""What the processor counts, where it can be read, and that the documentation tells all of it and nothing else."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from openai.types.chat import completion_create_params as openai_parameters
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from extproc.config import Choice, Config, parse
from extproc.contract.errors import ANSWER_VIOLATIONS, ApiError, backend_error, backend_garbage, invalid_request
from extproc.contract.parameters import TOOL_PARAMETERS
from extproc.envoy.listener import ACCESS_LOG
from extproc.names import DROPPED_HEADER
from extproc.observability.metrics_page import Page, metrics_served
from extproc.observability.model_metrics import Passed
from extproc.observability.run_metrics import RunMetrics
from extproc.observability.telemetry import KNOWN_PARAMETERS, Telemetry
from extproc.runner.tools import Outcome
from extproc.turn.asked import Asked
from extproc.turn.call_quality import CallQuality, CallRate
from extproc.turn.memory import Memory
from extproc.turn.steering import Change, Steering
from extproc.turn.tally import Tally
from scripted_vllm import Received, Reply, ScriptedVLLM, Usage
from scripted_vllm.script import Answer
from tests.gateway import MODEL, Gateway, free_port, running_gateway
from tests.test_request import CONFIG

DOCUMENT = (Path(__file__).parent.parent / "docs/observability.md").read_text(encoding="utf-8")


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry(CONFIG)


def value(telemetry: Telemetry, name: str, **labels: str) -> float | None:
    """One sample; None when there is no such series."""
    return telemetry.registry.get_sample_value(f"extproc_{name}", labels)


def series(families: Iterable[Metric]) -> set[tuple[str, frozenset[str]]]:
    """The names of all series, with the names of their labels. A histogram is told by the name of its family, without
    what Prometheus makes of it.
    """
    return {
        (sample.name.removesuffix("_bucket"), frozenset(sample.labels.keys() - {"le"}))
        for family in families
        for sample in family.samples
        if not (family.name.startswith(("process_", "python_")) or sample.name.endswith(("_count", "_sum", "_created")))
    }


FIELDS = {
    "model": "coder",
    "backend": "qwen",
    "mode": "prompt",
    "format": "hermes",
    "dialect": "chat",
    "stream": False,
    "rewritten": False,
}
"""What Envoy's metadata has of a plain request."""
STEERED = parse("""
models: [{name: coder, backend: qwen, tools: auto}]
backends: [{name: qwen, address: "127.0.0.1:8000"}]
""")
ASKED = Asked("prompt", "hermes", "chat", stream=True, offers_tools=True, forced=True)


def everything_happens(telemetry: Telemetry) -> None:
    models, quality = telemetry.models, CallQuality()
    tally = Tally(valid=1, finish_reasons=["tool_calls"], confidence=0.9, unsure_of="get_weather")
    quality.learn("coder", "prompt", tally)
    steering = Steering()
    steering.at(STEERED)
    telemetry.shows(Memory(), quality, steering)
    telemetry.steering.changed(Change("coder", "template", "prompt", "up", CallRate(1, 30)))
    models.forced("coder", ASKED)
    models.first_token("coder", ASKED, 0.1, {"trace_id": "0af7651916cd43dd8448eb211c80319c"})
    models.per_token("coder", ASKED, 0.02, None)
    models.answered("coder", ASKED, tally, {"prompt_tokens": 3, "completion_tokens": 2}, None, offered=True)
    models.ended("coder", ASKED, 1.0, "", None)
    models.logged(Passed("coder", "prompt", "hermes", "chat", "chat", True, False, "complete", 200, 1.0, 0.5, 10, 20))
    telemetry.accepted("coder", ["store"], repaired=1)
    telemetry.refused(invalid_request("No.", code="invalid_json"))
    telemetry.backend_error("coder", backend_garbage("no."))
    telemetry.stream_error("coder", backend_garbage("no."))
    telemetry.asked_by("search")
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    telemetry.answered("coder", usage, dict.fromkeys(ANSWER_VIOLATIONS, 1), team="search")
    telemetry.choices.chosen(Choice("coder", "small", "large", "full"))
    telemetry.unfinished("response_stream")
    telemetry.diagnosed("coder", "other_format")
    telemetry.aborted("bug")
    telemetry.reloaded("config", valid=True)
    telemetry.reloaded("api_keys", valid=False)


class TestReloading:
    def test_the_models_of_a_new_configuration_begin_at_0_and_those_that_are_gone_keep_their_numbers(self) -> None:
        telemetry = Telemetry(CONFIG, "one")
        telemetry.accepted("coder", (), 0)
        new = CONFIG.models[0].model_copy(update={"name": "new"})
        telemetry.configured(Config(models=(new,), backends=CONFIG.backends), "two")
        assert value(telemetry, "requests_total", model="new") == 0
        assert value(telemetry, "requests_total", model="coder") == 1
        assert value(telemetry, "config_info", hash="two") == 1
        assert value(telemetry, "config_info", hash="one") is None

    def test_its_backends_parameters_are_named(self, telemetry: Telemetry) -> None:
        backend = CONFIG.backends[0].model_copy(update={"parameters": ("of_its_own",)})
        telemetry.configured(Config(models=CONFIG.models[:1], backends=(backend,)), "two")
        telemetry.accepted("coder", ["of_its_own"], 0)
        assert value(telemetry, "dropped_parameters_total", parameter="of_its_own") == 1

    def test_each_change_is_counted_and_what_lies_there_now_is_shown(self, telemetry: Telemetry) -> None:
        for file in ("config", "api_keys"):
            assert value(telemetry, f"{file}_valid") == 1
            assert value(telemetry, f"{file}_reloads_total", result="refused") == 0
        telemetry.reloaded("config", valid=False)
        telemetry.show_validity("config", valid=False)
        assert value(telemetry, "config_valid") == 0
        assert value(telemetry, "config_reloads_total", result="refused") == 1
        assert value(telemetry, "config_reloads_total", result="ok") == 0
        assert value(telemetry, "api_keys_valid") == 1


class TestCounting:
    def test_a_request_is_counted_under_its_model(self, telemetry: Telemetry) -> None:
        telemetry.accepted("coder", (), 0)
        telemetry.accepted("coder", (), 2)
        assert value(telemetry, "requests_total", model="coder") == 2
        assert value(telemetry, "requests_total", model="alias") == 0
        assert value(telemetry, "requests_with_tools_total", model="coder") == 0
        telemetry.accepted("coder", (), 0, with_tools=True)
        assert value(telemetry, "requests_with_tools_total", model="coder") == 1
        assert value(telemetry, "repaired_arguments_total", model="coder") == 2

    def test_what_can_be_known_beforehand_begins_at_0(self, telemetry: Telemetry) -> None:
        for violation in ANSWER_VIOLATIONS:
            assert value(telemetry, "invalid_calls_total", model="alias", fault=violation) == 0
        for kind in ("prompt", "completion"):
            assert value(telemetry, "tokens_total", model="alias", kind=kind) == 0
        assert value(telemetry, "aborted_exchanges_total", reason="bug") == 0

    def test_the_faults_of_calls_are_counted_apart(self, telemetry: Telemetry) -> None:
        telemetry.answered("coder", {}, {"unknown_tool_call": 2, "invalid_tool_arguments": 1})
        found = {
            violation: value(telemetry, "invalid_calls_total", model="coder", fault=violation)
            for violation in ANSWER_VIOLATIONS
        }
        assert {violation: count for violation, count in found.items() if count} == {
            "unknown_tool_call": 2,
            "invalid_tool_arguments": 1,
        }

    @pytest.mark.parametrize("nonsense", [None, -5, "many", 1.5, {}])
    def test_a_usage_that_is_none_counts_nothing(self, telemetry: Telemetry, nonsense: Any) -> None:
        telemetry.answered("coder", {"prompt_tokens": nonsense, "completion_tokens": 7}, {})
        assert value(telemetry, "tokens_total", model="coder", kind="prompt") == 0
        assert value(telemetry, "tokens_total", model="coder", kind="completion") == 7

    def test_exchanges_under_way_are_asked_for_when_the_page_is_read(self, telemetry: Telemetry) -> None:
        running = [1, 2, 3]
        telemetry.watch(lambda: len(running))
        assert value(telemetry, "running_exchanges") == 3
        running.pop()
        assert value(telemetry, "running_exchanges") == 2

    def test_two_processors_share_nothing(self, telemetry: Telemetry) -> None:
        Telemetry(CONFIG).accepted("coder", (), 0)
        assert value(telemetry, "requests_total", model="coder") == 0


class TestLabels:
    """Clients and backends write what they like; the number of series stays what it is."""

    def test_known_parameters_are_named_and_all_others_are_one(self, telemetry: Telemetry) -> None:
        telemetry.accepted("coder", ["store", "prediction", "hello", "x" * 1_000_000, '"\n'], 0)
        for name, count in {"store": 1, "prediction": 1, "other": 3, "hello": None}.items():
            assert value(telemetry, "dropped_parameters_total", parameter=name) == count

    def test_every_parameter_of_openais_client_is_known(self) -> None:
        offered = {
            name
            for kind in ("CompletionCreateParamsBase", "CompletionCreateParamsStreaming")
            for name in getattr(openai_parameters, kind).__annotations__
        }
        assert offered - KNOWN_PARAMETERS - TOOL_PARAMETERS == {"model", "messages"}

    def test_a_parameter_that_another_backend_takes_is_known(self) -> None:
        telemetry = Telemetry(
            parse("""
models: [{name: coder, backend: plain, tools: prompt}]
backends:
  - {name: plain, address: "a:1"}
  - {name: other, address: "b:1", parameters: [num_ctx]}
""")
        )
        telemetry.accepted("coder", ["num_ctx"], 0)
        assert value(telemetry, "dropped_parameters_total", parameter="num_ctx") == 1

    @pytest.mark.parametrize(
        ("error", "label"),
        [
            (invalid_request("No.", code="invalid_value"), "invalid_value"),
            (ApiError(418, "No.", code="a word of its own"), "418"),
            (ApiError(500, "No.", type="InternalServerError"), "500"),
            (ApiError(599, "No.", code="x" * 1_000_000), "other"),
        ],
    )
    def test_an_error_is_counted_by_a_known_word_or_by_its_status(
        self, telemetry: Telemetry, error: ApiError, label: str
    ) -> None:
        telemetry.refused(error)
        telemetry.stream_error("coder", error)
        assert value(telemetry, "refused_requests_total", code=label) == 1
        assert value(telemetry, "stream_errors_total", model="coder", code=label) == 1

    def test_whatever_happens_the_number_of_series_is_bounded(self, telemetry: Telemetry) -> None:
        for number in range(2000):
            word = f"word{number}"
            telemetry.accepted("coder", [word], 0)
            error = backend_error(number, b'{"error": {"message": "No.", "code": "%s"}}' % word.encode())
            telemetry.refused(error)
            telemetry.backend_error("coder", error)
            telemetry.stream_error("coder", error)
        assert not re.search(rb"word\d", telemetry.page())
        assert len(telemetry.page().splitlines()) < 450


def rows(*sections: str) -> list[str]:
    """The first cells of the document's tables under these headings."""
    cells = []
    for section in sections:
        text = re.split(r"^#+ ", DOCUMENT.partition(f"# {section}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
        cells += re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    assert cells
    return cells


class TestDocumentation:
    def test_it_tells_every_metric_with_its_labels_and_invents_none(self, telemetry: Telemetry) -> None:
        everything_happens(telemetry)
        told = {
            (name, frozenset(labels.split(",") if labels else ()))
            for cell in rows("Metrics")
            for name, labels in re.findall(r"^`(\w+)(?:\{(.*)\})?`$", cell)
        }
        assert told == series(telemetry.registry.collect())

    def test_it_tells_every_metric_of_the_runner_too(self) -> None:
        metrics = RunMetrics()
        metrics.ended("coder", "chat", "complete", seconds=1, rounds=2, deferred=1)
        metrics.tool("clock", "get_time", "ok", 0.1)
        metrics.show_characters({"LOADED_WITH_TOOLS": 1})
        metrics.show_servers({"clock": True})
        families = text_string_to_metric_families(metrics.page().decode())
        told = {
            (name, frozenset(labels.split(",") if labels else ()))
            for cell in rows("Runs and tools")
            for name, labels in re.findall(r"^`(\w+)(?:\{(.*)\})?`$", cell)
        }
        assert told == series(families)

    def test_it_tells_every_outcome_of_a_tool(self) -> None:
        row = next(line for line in DOCUMENT.splitlines() if line.startswith("| `gen_ai_execute_tool_duration"))
        assert [outcome for outcome in get_args(Outcome) if outcome != "ok" and f"`{outcome}`" not in row] == []

    def test_it_tells_every_fault(self) -> None:
        assert {cell.strip("`") for cell in rows("Invalid calls")} == ANSWER_VIOLATIONS

    def test_it_tells_every_field_of_the_access_log(self) -> None:
        named = re.findall(r"`(\w+)`", " ".join(rows("Access log")))
        learned = {
            "client",
            "team",
            "priority",
            "model",
            "alias",
            "instead_of",
            "because",
            "mode",
            "step",
            "format",
            "dialect",
            "operation",
            "stream",
            "rewritten",
            "dropped",
            "error",
            "calls",
            "finish_reason",
            "invalid_calls",
            "round",
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
        }
        assert set(named) == ACCESS_LOG.keys() | learned


# Over HTTP


async def small_page(*, openmetrics: bool = False) -> bytes:  # noqa: ARG001  # as `Page` has it
    return b"page"


def asked(question: Callable[[str], httpx.Response], page: Page) -> httpx.Response:
    """One request to a running page, sent from another thread."""

    async def main() -> httpx.Response:
        address = f"127.0.0.1:{free_port()}"
        async with metrics_served(address, page):
            return await asyncio.to_thread(question, f"http://{address}")

    return asyncio.run(main())


class TestPage:
    def test_prometheus_can_read_it(self, telemetry: Telemetry) -> None:
        everything_happens(telemetry)
        answer = asked(lambda url: httpx.get(f"{url}/metrics"), telemetry.page_in_turns)
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert series(text_string_to_metric_families(answer.text)) == series(telemetry.registry.collect())

    @pytest.mark.parametrize(
        ("method", "path", "status", "body"),
        [
            ("HEAD", "/metrics", 200, ""),
            ("GET", "/metrics?name[]=x", 200, "page"),
            ("POST", "/metrics", 405, "Metrics can be read with GET, and nothing else.\n"),
            ("GET", "/", 404, "The metrics are at /metrics.\n"),
        ],
    )
    def test_it_is_all_there_is(self, method: str, path: str, status: int, body: str) -> None:
        answer = asked(lambda url: httpx.request(method, url + path), small_page)
        assert (answer.status_code, answer.text) == (status, body)
        assert answer.headers["connection"] == "close"

    @pytest.mark.parametrize("nonsense", [b"\r\n\r\n", b"\x16\x03\x01" + b"\r\n\r\n", b"x" * 100_000, b"GET /metrics"])
    def test_nonsense_does_no_harm(self, nonsense: bytes) -> None:
        def question(url: str) -> httpx.Response:
            address = httpx.URL(url)
            with socket.create_connection((address.host, address.port or 0), timeout=20) as client:
                with suppress(OSError):  # who sends more than anybody wants to read is cut off
                    client.sendall(nonsense)
                    client.shutdown(socket.SHUT_WR)
                with suppress(ConnectionError):
                    assert client.recv(65536)[:13] in (b"HTTP/1.1 404 ", b"")
            return httpx.get(f"{url}/metrics")

        assert asked(question, small_page).text == "page"

    def test_an_address_of_ipv6(self) -> None:
        async def main() -> str:
            address = f"[::1]:{free_port()}"
            async with metrics_served(address, small_page):
                return (await asyncio.to_thread(httpx.get, f"http://{address}/metrics")).text

        assert asyncio.run(main()) == "page"

    def test_when_it_is_over_nothing_listens_and_clients_that_stayed_are_sent_away(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def main() -> None:
            port = free_port()
            async with metrics_served(f"127.0.0.1:{port}", small_page):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /metr")
                await asyncio.to_thread(httpx.get, f"http://127.0.0.1:{port}/metrics")
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            writer.close()

        asyncio.run(asyncio.wait_for(main(), 20))
        assert [record for record in caplog.records if record.name == "asyncio"] == []

    def test_an_address_that_can_not_be_had_is_named_with_the_reason(self) -> None:
        async def main(address: str) -> None:
            async with metrics_served(address, small_page):
                pass

        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(OSError, match=f"^can't serve metrics on {address}: Address already in use$"):
                asyncio.run(main(address))
        with pytest.raises(OSError, match=r"^can't serve metrics on 203\.0\.113\.1:9: Cannot assign "):
            asyncio.run(main("203.0.113.1:9"))


# At the front door


CHAT = "/v1/chat/completions"
PLAIN = {"model": "coder", "messages": [{"role": "user", "content": "Hello"}]}


class Boaster(ScriptedVLLM):
    """A backend that sets our header on all that it says."""

    def _answer(self, request: Received) -> Answer:
        answer = super()._answer(request)
        return replace(answer, headers=(*answer.headers, (DROPPED_HEADER, "everything")))


class TestFrontDoor:
    def test_what_the_backend_did_not_get_is_named_on_the_answer_and_counted(self, gateway: Gateway) -> None:
        counted = [
            'extproc_requests_total{model="coder"}',
            'extproc_dropped_parameters_total{parameter="store"}',
            'extproc_dropped_parameters_total{parameter="other"}',
        ]
        before = [gateway.metric(name) for name in counted]
        gateway.backend.play(Reply("Hello."))
        fields = {"store": True, "x-trace": {"id": 1}, "evil\r\nset-cookie: a=b": 1}
        reply = gateway.http.post(CHAT, json=PLAIN | fields, headers={"x-request-id": "dropped-1"})
        assert reply.status_code == 200
        assert reply.headers[DROPPED_HEADER] == "store, x-trace, +1 more"
        assert "set-cookie" not in reply.headers
        assert json.loads(gateway.backend.requests[-1].body).keys() == PLAIN.keys()
        assert [gateway.metric(name) for name in counted] == [before[0] + 1, before[1] + 1, before[2] + 2]
        assert gateway.access_log("dropped-1")["extproc"] == FIELDS | {"dropped": 3}

    def test_a_stream_with_tools_has_the_header_too_and_its_tokens_are_counted(self, gateway: Gateway) -> None:
        tools = [{"type": "function", "function": {"name": "look"}}]
        before = gateway.metric('extproc_tokens_total{kind="completion",model="coder"}')
        gateway.backend.play(Reply("Hello.", usage=Usage(100, 20)))
        reply = gateway.http.post(CHAT, json=PLAIN | {"tools": tools, "stream": True, "store": True})
        assert reply.headers[DROPPED_HEADER] == "store"
        assert reply.text.endswith("data: [DONE]\n\n")
        assert gateway.metric('extproc_tokens_total{kind="completion",model="coder"}') == before + 20

    def test_where_nothing_was_dropped_nothing_is_said(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply("Hello."))
        assert DROPPED_HEADER not in gateway.http.post(CHAT, json=PLAIN).headers
        refused = gateway.http.post(CHAT, json={"model": "coder", "store": True})
        assert refused.status_code == 400
        assert DROPPED_HEADER not in refused.headers

    def test_a_backend_can_not_say_what_was_dropped(self, tmp_path: Path) -> None:
        with Boaster(model=MODEL).running() as backend, running_gateway(tmp_path, backend) as gateway:
            direct = httpx.post(f"{backend.url}{CHAT}", json=PLAIN | {"model": MODEL})
            assert direct.headers[DROPPED_HEADER] == "everything"
            assert DROPPED_HEADER not in gateway.http.post(CHAT, json=PLAIN).headers
            reply = gateway.http.post(CHAT, json=PLAIN | {"store": True})
            assert reply.headers.get_list(DROPPED_HEADER) == ["store"]

    def test_a_refusal_is_counted_by_its_code(self, gateway: Gateway) -> None:
        name = 'extproc_refused_requests_total{code="model_not_found"}'
        before = gateway.metric(name)
        assert gateway.http.post(CHAT, json=PLAIN | {"model": "gpt-4"}).status_code == 404
        assert gateway.metric(name) == before + 1

    def test_a_request_that_is_too_large_is_counted_as_refused(self, gateway: Gateway) -> None:
        name = 'extproc_refused_requests_total{code="request_too_large"}'
        before = gateway.metric(name)
        assert gateway.http.post(CHAT, content=b" " * (33 * 1024 * 1024)).status_code == 413
        assert gateway.metric(name) == before + 1

    def test_a_backend_that_is_not_there_is_a_backends_error(self, gateway: Gateway) -> None:
        name = 'extproc_backend_errors_total{model="absent",status="503"}'
        before = gateway.metric(name)
        reply = gateway.http.post(CHAT, json=PLAIN | {"model": "absent", "store": True})
        assert reply.status_code == 503
        assert reply.headers[DROPPED_HEADER] == "store"
        assert gateway.metric(name) == before + 1

"""A real Envoy that is configured by somebody else: no model's raw text passes for an answer."""

from __future__ import annotations

import copy
import logging
import re
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from extproc.config import Config, load
from extproc.envoy.bootstrap import bootstrap, to_yaml
from extproc.exchange.context import ExchangeContext
from extproc.observability.telemetry import Telemetry
from extproc.server.processor import Processor
from scripted_vllm import Reply, ScriptedVLLM
from tests.gateway import ENVOY, MODEL, free_port, until_ready, wait_until
from tests.in_thread import in_thread
from tests.test_answer import CALL

TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
ASKED = {"model": MODEL, "messages": [{"role": "user", "content": "Hello!"}], "tools": [TOOL]}


def ignoring(filter_: dict[str, Any]) -> None:
    filter_["allow_mode_override"] = False
    filter_["processing_mode"]["response_header_mode"] = "SEND"


def ignoring_and_hiding(filter_: dict[str, Any]) -> None:
    filter_["allow_mode_override"] = False


def following(filter_: dict[str, Any]) -> None:
    """As we'd have it, but nothing says so."""


def listed(filter_: dict[str, Any]) -> None:
    filter_["processing_mode"]["response_header_mode"] = "SEND"
    filter_["allowed_override_modes"] = [{"response_body_mode": "BUFFERED"}]


def hiding_the_path(filter_: dict[str, Any]) -> None:
    filter_["forward_rules"] = {"disallowed_headers": {"patterns": [{"exact": ":path"}]}}


def watching(filter_: dict[str, Any]) -> None:
    filter_["observability_mode"] = True


def pinging(filter_: dict[str, Any]) -> None:
    """Its cluster does (see below)."""


HOSTS: tuple[Callable[[dict[str, Any]], None], ...] = (
    ignoring,
    ignoring_and_hiding,
    following,
    listed,
    hiding_the_path,
    watching,
    pinging,
)


@dataclass
class Foreign:
    """One of the hosts: what a client sees, and its processor's numbers."""

    url: str
    telemetry: Telemetry
    backend: ScriptedVLLM

    def ask(self, *, stream: bool = False, **fields: Any) -> httpx.Response:
        return httpx.post(f"{self.url}/v1/chat/completions", json={**ASKED, "stream": stream, **fields}, timeout=30)

    def metric(self, sample: str) -> float:
        lines = self.telemetry.page().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{sample} "))


@asynccontextmanager
async def processors(folder: Path, config: Config, telemetry: dict[str, Telemetry]) -> AsyncIterator[None]:
    """A processor for each host, at its name's socket."""
    async with AsyncExitStack() as stack:
        for name, numbers in telemetry.items():
            await stack.enter_async_context(
                Processor(ExchangeContext(config), numbers).running(f"unix:{folder}/{name}.sock")
            )
        yield


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Foreign]]:
    folder = tmp_path_factory.mktemp("hosts")
    with ScriptedVLLM(model=MODEL).running() as backend, pytest.MonkeyPatch.context() as patch:
        # However late the processor hears of a call's end: no client leaves here, nor any backend.
        patch.setattr("extproc.exchange.host.AT_ONCE", 30.0)
        settings = folder / "extproc.yaml"
        settings.write_text(
            f"models: [{{name: {MODEL}, backend: qwen, tools: prompt}}]\n"
            f'backends: [{{name: qwen, address: "127.0.0.1:{backend.port}", health_check: false}}]\n'
        )
        config = load(settings)
        made = yaml.safe_load(to_yaml(bootstrap(config, processor="/SOCKET", admin=str(folder / "admin.sock"))))
        resources = made["static_resources"]
        (listener,) = resources["listeners"]
        cluster = next(each for each in resources["clusters"] if each["name"] == "_processor")
        resources["listeners"], ports = [], {}
        resources["clusters"].remove(cluster)
        for host in HOSTS:
            name = host.__name__
            ports[name] = free_port()
            its = copy.deepcopy(listener)
            its["name"] = name
            its["address"]["socket_address"]["port_value"] = ports[name]
            manager = its["filter_chains"][0]["filters"][0]["typed_config"]
            (filter_,) = (each for each in manager["http_filters"] if "ext_proc" in each["name"])
            service = filter_["typed_config"]["grpc_service"]
            assert service.pop("initial_metadata"), "by this a host tells that it is one of ours"
            service["envoy_grpc"]["cluster_name"] = name
            host(filter_["typed_config"])
            for route in manager["route_config"]["virtual_hosts"][0]["routes"]:
                if host is watching and route.get("route", {}).pop("cluster_header", None):
                    route["route"]["cluster"] = "qwen"  # else nobody would name a backend
            resources["listeners"].append(its)
            text = yaml.safe_dump({**copy.deepcopy(cluster), "name": name}).replace("/SOCKET", f"{folder}/{name}.sock")
            resources["clusters"].append(yaml.safe_load(text))
        options = resources["clusters"][-1]["typed_extension_protocol_options"]
        (http,) = options.values()
        keepalive = {"interval": "0.2s", "timeout": "5s"}
        http["explicit_http_config"]["http2_protocol_options"]["connection_keepalive"] = keepalive
        (folder / "envoy.yaml").write_text(yaml.safe_dump(made))
        telemetry = {host.__name__: Telemetry(config) for host in HOSTS}
        with in_thread(processors(folder, config, telemetry)), (folder / "envoy.log").open("wb") as log:
            command = [
                str(ENVOY),
                "-c",
                str(folder / "envoy.yaml"),
                "--use-dynamic-base-id",
                "--concurrency",
                "1",
                "-l",
                "error",
            ]
            envoy = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                until_ready(folder, envoy)
                yield {
                    name: Foreign(f"http://127.0.0.1:{port}", telemetry[name], backend) for name, port in ports.items()
                }
            finally:
                envoy.terminate()
                envoy.wait(30)


@pytest.mark.parametrize("name", ["ignoring", "listed"])
def test_where_overrides_are_ignored_raw_text_is_an_error_and_then_refused(
    hosts: dict[str, Foreign], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    host = hosts[name]
    caplog.set_level(logging.ERROR, "extproc.server.processor")
    host.backend.play(Reply(CALL), Reply(CALL), Reply("Hello!"))
    assert host.ask().status_code == 502, "nobody takes it for an answer"
    assert host.ask(stream=True).status_code == 502
    wait_until(lambda: host.metric("extproc_host_follows_overrides") == 0)
    refusal = host.ask()
    assert refusal.status_code == 503
    assert refusal.json()["error"]["code"] == "host_ignores_overrides"
    assert host.metric("extproc_ignored_overrides_total") == 2
    assert "allow_mode_override: true" in caplog.text
    plain = host.ask(tools=None)
    assert plain.status_code == 200
    assert plain.json()["choices"][0]["message"]["content"] == "Hello!"


def ignored(host: Foreign, times: int) -> bool:
    """Whether so many exchanges have ended in which the override was."""
    return host.metric("extproc_ignored_overrides_total") == times


def test_where_not_even_heads_are_shown_it_is_noticed_and_then_refused(hosts: dict[str, Foreign]) -> None:
    host = hosts["ignoring_and_hiding"]
    host.backend.play(*[Reply(CALL)] * 3)
    for before in range(3):
        raw = host.ask(stream=before == 1)
        said = "".join(re.findall(r'"content": ?"((?:[^"\\]|\\.)*)"', raw.text))
        assert (raw.status_code, "tool_call>" in said) == (200, True), "there is nothing to put a status on"
        wait_until(partial(ignored, host, before + 1))
    assert host.metric("extproc_host_follows_overrides") == 0
    for stream in (False, True):
        refusal = host.ask(stream=stream)
        assert refusal.status_code == 503
        assert refusal.json()["error"]["code"] == "host_ignores_overrides"


def test_a_host_that_follows_is_known_by_its_first_answer(hosts: dict[str, Foreign]) -> None:
    host = hosts["following"]
    host.backend.play(Reply(CALL), Reply(CALL), Reply(CALL))
    for stream in (True, True, False):
        answer = host.ask(stream=stream)
        assert answer.status_code == 200
        assert '"tool_calls"' in answer.text
        assert "tool_call>" not in answer.text
    assert host.metric("extproc_host_follows_overrides") == 1
    assert host.metric("extproc_ignored_overrides_total") == 0


def test_its_streams_stay_streams_once_it_is_known(hosts: dict[str, Foreign]) -> None:
    host = hosts["following"]
    host.backend.play(Reply(CALL), Reply("one two three " + CALL, pace=0.03))
    assert host.ask().status_code == 200
    with httpx.stream("POST", f"{host.url}/v1/chat/completions", json={**ASKED, "stream": True}, timeout=30) as answer:
        assert len([piece for piece in answer.iter_raw() if piece]) > 2


def test_a_hidden_path_is_an_error_and_passes_nothing(hosts: dict[str, Foreign]) -> None:
    host = hosts["hiding_the_path"]
    before = len(host.backend.requests)
    assert host.ask().status_code == 500
    assert len(host.backend.requests) == before


def test_an_observer_disturbs_nobody(hosts: dict[str, Foreign]) -> None:
    host = hosts["watching"]
    host.backend.play(Reply("Hello!"))
    answer = host.ask(tools=None)
    assert (answer.status_code, answer.json()["choices"][0]["message"]["content"]) == (200, "Hello!")
    wait_until(lambda: host.metric('extproc_aborted_exchanges_total{reason="observability_mode"}') == 1)
    assert host.metric('extproc_aborted_exchanges_total{reason="bug"}') == 0


def test_a_host_may_ping_as_often_as_it_likes(hosts: dict[str, Foreign]) -> None:
    host = hosts["pinging"]
    host.backend.play(Reply("one two three four five six", pace=0.3))
    answer = host.ask(stream=True)
    assert answer.elapsed.total_seconds() > 1, "long enough for many pings"
    assert answer.text.endswith("data: [DONE]\n\n")

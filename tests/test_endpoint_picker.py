"""An endpoint picker behind the gateway, in an Envoy of its own: the layout of deploy/k8s/README.md for llm-d.

In the same filter chain as ours it would lose ends of answers (docs/envoy.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from scripted_vllm import Reply
from scripted_vllm.checks import ChatRequest
from tests.endpoint_picker import CHOICE, Picker, inference_gateway
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway, free_port
from tests.in_thread import in_thread
from tests.played_vllm import TAGGED, config_of
from tests.played_vllm import ask as probed
from tests.test_probe_servers import is_told

CHAT = "/v1/chat/completions"
REQUESTS = 80
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
WORDS = "word " * 2000
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "it"}}\n</tool_call>'


@asynccontextmanager
async def served(picker: Picker, socket: Path) -> AsyncIterator[None]:
    server = picker.served()
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    yield
    await server.stop(None)


def spoken(request: ChatRequest) -> Reply:
    """A call where there are tools, and many words where there are none."""
    shown = f"{request.messages}{request.tools}"
    called = TAGGED if "get_weather" in shown else CALL if "look" in shown else None
    return Reply(called or WORDS, pieces=500)


@pytest.fixture(scope="module")
def hops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Picker, str]]:
    """The gateway, the picker behind it, and the URL of the other gateway, which has the picker: a second listener of
    the same Envoy."""
    folder = tmp_path_factory.mktemp("hops")
    backend = AskedVLLM(model=MODEL, speak=spoken)
    with backend.running():
        picker, port = Picker(f"127.0.0.1:{backend.port}"), free_port()
        configuration = f"""
models: [{{name: coder, backend: pool, upstream_model: {MODEL}, tools: prompt}}]
backends: [{{name: pool, address: "127.0.0.1:{port}", health_check: false}}]
"""
        second = ["--config-yaml", yaml.safe_dump(inference_gateway(port, f"{folder}/picker.sock"))]
        with (
            in_thread(served(picker, folder / "picker.sock")),
            configured_gateway(folder, configuration, backend, arguments=second) as gateway,
        ):
            yield gateway, picker, f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tools", [False, True])
def test_every_answer_is_whole(hops: tuple[Gateway, Picker, str], stream: bool, tools: bool) -> None:
    gateway, picker, _ = hops
    body = {"model": "coder", "stream": stream, "messages": [{"role": "user", "content": "Hello!"}]}
    more = {"tools": TOOLS} if tools else {}

    def ask(_: int) -> str:
        if stream:
            events = gateway.openai.chat.completions.create(**body, **more)  # type: ignore[call-overload]
            ends = [choice.finish_reason for event in events for choice in event.choices if choice.finish_reason]
            return str(ends[0])
        answer = gateway.http.post(CHAT, json={**body, **more}, headers={CHOICE: "127.0.0.1:1"})
        return str(answer.json()["choices"][0]["finish_reason"])

    with ThreadPoolExecutor(8) as threads:
        ends = Counter(threads.map(ask, range(REQUESTS if not stream else REQUESTS // 4)))
    assert ends.keys() == {"tool_calls" if tools else "stop"}
    assert picker.models == {MODEL}, "it picks by the model that the processor has put there"


def test_the_pools_server_is_probed_through_its_gateway(hops: tuple[Gateway, Picker, str]) -> None:
    report = probed(hops[2])
    assert is_told("an InferencePool, all paths", report), (report.identity, report.yaml())
    assert config_of(report).models[0].name == MODEL


def test_of_the_gateway_itself_probe_finds_what_it_makes_of_the_server(hops: tuple[Gateway, Picker, str]) -> None:
    report = probed(hops[0].url)
    assert is_told("this gateway", report), (report.identity, report.yaml())
    assert not config_of(report).backends[0].can_force

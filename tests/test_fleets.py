"""Several models behind one name, as docs/fleets.md tells it: the steps of its walks, with a real Envoy and a reload
between them; and what is asked instead of a backend that fails or is full."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import yaml

from extproc.config import parse
from extproc.names import FALLBACK_HEADER, MODEL_HEADER
from extproc.surfaces import prepare
from scripted_vllm import Reply, ScriptedVLLM
from scripted_vllm.checks import ChatRequest
from tests.gateway import MODEL, Gateway, configured_gateway, free_port, wait_until
from tests.reloadable import CHAT, PATIENCE, TOOLS, request, running, text_of
from tests.reloadable import Gateway as Reloadable

PAGE = Path("docs/fleets.md").read_text("utf-8")


def steps(heading: str) -> list[Any]:
    """The YAML of the page under this heading, block by block."""
    _, _, behind = PAGE.partition(f"\n## {heading}\n")
    return [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", behind.partition("\n## ")[0], re.S)]


# ---- the walks


STREAMED = "word " * 20


def speak(asked: ChatRequest) -> Reply:
    return Reply(STREAMED, pace=0.02) if asked.stream else Reply("Yes.")


@dataclass
class Streaming:
    """Clients that stream one answer with tools after the other, until they are told to stop."""

    url: str
    stopped: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    of: Counter[str | None] = field(default_factory=Counter)
    """Whole answers, by their model."""
    refused: Counter[int] = field(default_factory=Counter)
    """Errors in the place of an answer, by status."""
    broken: int = 0
    """Streams that had begun, and were cut or ended with an error event: none as if all were well."""
    wrong: list[str] = field(default_factory=list)
    """What should never be."""

    def wait_for(self, model: str, more: int) -> None:
        """Until so many more answers are this model's."""
        enough = self.of[model] + more
        wait_until(lambda: self.of[model] >= enough)

    def client(self, number: int) -> None:
        with httpx.Client(base_url=self.url, timeout=PATIENCE) as http:
            for count in range(100_000):
                if self.stopped.is_set():
                    return
                body = request("coder", f"Agent {number}.{count}", stream=True, tools=TOOLS)
                try:
                    with http.stream("POST", CHAT, json=body) as answer:
                        lines = list(answer.iter_lines())
                except httpx.TransportError:
                    with self.lock:
                        self.broken += 1
                    continue
                self._judge(answer, lines)

    def _judge(self, answer: httpx.Response, lines: list[str]) -> None:
        with self.lock:
            if answer.status_code != 200:
                self.refused[answer.status_code] += 1
            elif '"error"' in "".join(lines):
                self.broken += 1
            elif text_of(lines) == STREAMED:
                self.of[answer.headers.get(MODEL_HEADER)] += 1
            else:
                self.wrong.append(str(lines[-3:]))


CONVERSATIONS = 1_500


def shares(url: str) -> Counter[str | None]:
    """Whose so many conversations are, by what their answers say."""
    left = iter(range(CONVERSATIONS))
    lock, found = threading.Lock(), Counter[str | None]()

    def client() -> None:
        with httpx.Client(base_url=url, timeout=PATIENCE) as http:
            while True:
                with lock:
                    if (count := next(left, None)) is None:
                        return
                answer = http.post(CHAT, json=request("coder", f"Conversation {count}"))
                assert answer.status_code == 200
                with lock:
                    found[answer.headers.get(MODEL_HEADER)] += 1

    with ThreadPoolExecutor(8) as clients:
        for done in [clients.submit(client) for _ in range(8)]:
            done.result()
    return found


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, ScriptedVLLM]]:
    old, new = (ScriptedVLLM(model=MODEL, speak=speak) for _ in range(2))
    with old.running(), new.running():
        yield {"coder-blue": old, "coder-green": new}


def settings(gateway: Reloadable, servers: dict[str, ScriptedVLLM], page: dict[str, Any]) -> dict[str, Any]:
    """The page's, but that servers are where these are."""
    models = [
        each | {"upstream_model": MODEL} for each in steps("What it takes")[0]["models"] if each["name"] in servers
    ]
    backends = [
        {"name": each["backend"], "address": f"127.0.0.1:{servers[each['name']].port}", "health_check": False}
        for each in models
    ]
    return {"listen": gateway.listen, "models": models, "backends": backends} | page


@pytest.mark.long
@pytest.mark.parametrize("walk", ["A canary", "Blue and green"])
def test_a_walk_breaks_no_stream_and_has_the_shares_it_names(
    walk: str, servers: dict[str, ScriptedVLLM], tmp_path: Path
) -> None:
    """Within 2 % of the weights, of 1,500 conversations at each step; and none goes elsewhere than is worked out."""
    gateway = Reloadable(tmp_path, servers["coder-blue"])
    pages = steps(walk)
    gateway.write(settings(gateway, servers, pages[0]))
    with running(gateway), ThreadPoolExecutor(4) as clients:
        streaming = Streaming(f"http://{gateway.listen}")
        done = [clients.submit(streaming.client, number) for number in range(4)]
        try:
            for page in pages:
                config = settings(gateway, servers, page)
                gateway.reload(config)
                wanted = page["aliases"]["coder"]["split"]
                whole = sum(share["weight"] for share in wanted)
                found = shares(f"http://{gateway.listen}")
                for share in wanted:
                    assert abs(found[share["model"]] / CONVERSATIONS - share["weight"] / whole) < 0.02
                known = parse(yaml.safe_dump(config))
                told = [
                    prepare(
                        httpx.Request("POST", "http://x", json=request("coder", f"Conversation {count}")).content, known
                    )
                    for count in range(CONVERSATIONS)
                ]
                assert found == Counter(each.model for each in told)
        finally:
            streaming.stopped.set()
        for each in done:
            each.result()
        assert (streaming.wrong, streaming.broken, streaming.refused) == ([], 0, {})
        assert streaming.of.total() > 20
        assert streaming.of.keys() == {"coder-blue", "coder-green"}


def test_the_walk_of_blue_and_green_ends_with_green() -> None:
    *_, last = steps("Blue and green")
    assert last["aliases"]["coder"]["split"][-1] == {"model": "coder-green", "weight": 100}


# ---- what is asked instead


class Server:
    """A vLLM that can go and come back where it was."""

    def __init__(self, speak: Callable[[ChatRequest], Reply] | None = None) -> None:
        self.port = free_port()
        self._speak = speak
        self._running: Any = None
        self.start()

    def start(self) -> None:
        self.vllm = ScriptedVLLM(model=MODEL, port=self.port, speak=self._speak)
        self._running = self.vllm.running()
        self._running.__enter__()

    def stop(self) -> None:
        if self._running is not None:
            self._running.__exit__(None, None, None)
        self._running = None


@dataclass
class Fallbacks:
    gateway: Gateway
    coder: Server
    small: Server

    def ask(self, alias: str = "coder") -> tuple[int, str | None, str | None]:
        answer = self.gateway.chat(alias)
        return answer.status_code, answer.headers.get(MODEL_HEADER), answer.headers.get(FALLBACK_HEADER)


@pytest.fixture(scope="module")
def fallbacks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fallbacks]:
    coder, small = Server(), Server()
    told = f"""
models:
  - {{name: big, backend: big, upstream_model: {MODEL}, tools: prompt}}
  - {{name: small, backend: small, upstream_model: {MODEL}, tools: prompt}}
  - {{name: narrow, backend: narrow, upstream_model: {MODEL}, tools: prompt}}
aliases:
  coder: {{split: [{{model: big}}], fallback: [small]}}
  one-at-a-time: {{split: [{{model: narrow}}], fallback: [small]}}
backends:
  - {{name: big, address: "127.0.0.1:{coder.port}", health_check: false}}
  - {{name: narrow, address: "127.0.0.1:{coder.port}", health_check: false, max_requests: 1}}
  - {{name: small, address: "127.0.0.1:{small.port}", health_check: false}}
"""
    try:
        with configured_gateway(tmp_path_factory.mktemp("fallbacks"), told, live=True) as gateway:
            yield Fallbacks(gateway, coder, small)
    finally:
        coder.stop()
        small.stop()


def test_a_request_that_meets_a_dead_backend_fails_and_the_next_are_answered(fallbacks: Fallbacks) -> None:
    assert fallbacks.ask() == (200, "big", None)
    fallbacks.coder.stop()
    failed = fallbacks.gateway.chat("coder")
    assert (failed.status_code, failed.json()["error"]["code"]) == (503, "backend_unreachable")
    assert failed.headers[MODEL_HEADER] == "big"
    assert fallbacks.ask() == (200, "small", "big failing")
    line = fallbacks.gateway.access_log(fallbacks.gateway.chat("coder").headers["x-request-id"])
    told = line["extproc"]
    assert (told["alias"], told["model"], told["instead_of"], told["because"]) == ("coder", "small", "big", "failing")
    assert fallbacks.gateway.metric('extproc_fallbacks_total{alias="coder",model="big",reason="failing"}') >= 2
    fallbacks.coder.start()
    wait_until(lambda: fallbacks.ask() == (200, "big", None))


def test_a_client_that_tries_again_as_openais_do_notices_nothing(fallbacks: Fallbacks) -> None:
    wait_until(lambda: fallbacks.ask() == (200, "big", None))
    fallbacks.coder.stop()
    client = openai.OpenAI(base_url=f"{fallbacks.gateway.url}/v1", api_key="none", timeout=PATIENCE)
    said = [{"role": "user", "content": "Hello!"}]
    answer = client.chat.completions.with_raw_response.create(model="coder", messages=said)  # type: ignore[arg-type]
    client.close()
    assert answer.headers[FALLBACK_HEADER] == "big failing"
    assert answer.retries_taken == 1
    fallbacks.coder.start()
    wait_until(lambda: fallbacks.ask() == (200, "big", None))


def test_a_full_backend_is_passed_by_without_an_error(fallbacks: Fallbacks) -> None:
    fallbacks.coder.vllm.play(Reply("word " * 30, pace=0.05))
    body = request("one-at-a-time", stream=True)
    with fallbacks.gateway.http.stream("POST", CHAT, json=body) as answer:
        assert answer.headers[MODEL_HEADER] == "narrow"
        for _ in range(3):
            assert fallbacks.ask("one-at-a-time") == (200, "small", "narrow full")
        lines = list(answer.iter_lines())
    assert text_of(lines) == "word " * 30
    wait_until(lambda: fallbacks.ask("one-at-a-time") == (200, "narrow", None))


TIMES = 2
"""How often the backend goes and comes back."""


@pytest.mark.long
def test_under_load_a_backend_that_goes_costs_a_few_requests_and_no_stream_lies(tmp_path: Path) -> None:
    coder, small = (Server(speak) for _ in range(2))
    told = f"""
models:
  - {{name: big, backend: big, upstream_model: {MODEL}, tools: prompt}}
  - {{name: small, backend: small, upstream_model: {MODEL}, tools: prompt}}
aliases:
  coder: {{split: [{{model: big}}], fallback: [small]}}
backends:
  - {{name: big, address: "127.0.0.1:{coder.port}", health_check: false}}
  - {{name: small, address: "127.0.0.1:{small.port}", health_check: false}}
"""
    clients = 6
    try:
        with configured_gateway(tmp_path, told, live=True) as gateway, ThreadPoolExecutor(clients) as threads:
            streaming = Streaming(gateway.url)
            done = [threads.submit(streaming.client, number) for number in range(clients)]
            try:
                for _ in range(TIMES):
                    streaming.wait_for("big", 20)
                    coder.stop()
                    streaming.wait_for("small", 40)
                    coder.start()
            finally:
                streaming.stopped.set()
            for each in done:
                each.result()
    finally:
        coder.stop()
        small.stop()
    assert streaming.wrong == []
    # Each time at most those that were under way when it went, and one that tried whether it is back.
    assert streaming.broken <= TIMES * clients
    assert set(streaming.refused) <= {502, 503}
    assert sum(streaming.refused.values()) <= TIMES * (clients + 3)
    assert streaming.of["small"] >= TIMES * 40

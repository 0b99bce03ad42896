"""Several models behind one name, as docs/fleets.md tells it: the steps of its walks, with a real Envoy and a reload
between them; and what is asked instead of a backend that fails or is full."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import yaml

from extproc.config import Config, parse
from extproc.config.alias import Alias
from extproc.names import FALLBACK_HEADER, MODEL_HEADER
from extproc.surfaces.choosing import NOBODY, choice_of
from scripted_vllm import Reply
from tests.fleet_load import Server, Streaming, speak, trials
from tests.gateway import MODEL, Gateway, configured_gateway, wait_until
from tests.reloadable import CHAT, PATIENCE, Stream, eventually, request, running, text_of
from tests.reloadable import Gateway as Reloadable

PAGE = Path("docs/fleets.md").read_text("utf-8")


def steps(heading: str) -> list[Any]:
    """The YAML of the page under this heading, block by block."""
    _, _, behind = PAGE.partition(f"\n## {heading}\n")
    return [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", behind.partition("\n## ")[0], re.S)]


# ---- the walks


CONVERSATIONS = 1_500
"""Asked at each step."""
MANY = 200_000
"""Worked out."""


def asked_of(url: str, conversations: int) -> dict[str, str | None]:
    """Whose each of so many conversations is, by what its answer says."""
    left = iter(range(conversations))
    lock, found = threading.Lock(), dict[str, str | None]()

    def client() -> None:
        with httpx.Client(base_url=url, timeout=PATIENCE) as http:
            while True:
                with lock:
                    if (count := next(left, None)) is None:
                        return
                answer = http.post(CHAT, json=request("coder", f"Conversation {count}"))
                assert answer.status_code == 200
                found[f"Conversation {count}"] = answer.headers.get(MODEL_HEADER)

    with ThreadPoolExecutor(8) as clients:
        for done in [clients.submit(client) for _ in range(8)]:
            done.result()
    return found


@pytest.fixture
def servers() -> Iterator[dict[str, Server]]:
    there = {name: Server(speak) for name in ("coder-blue", "coder-green")}
    try:
        yield there
    finally:
        for server in there.values():
            server.stop()


def settings(gateway: Reloadable, servers: dict[str, Server], page: dict[str, Any]) -> dict[str, Any]:
    """The page's, with the models that it leads to, but that servers are where these are."""
    led = set(leads_to(page))
    models = [each | {"upstream_model": MODEL} for each in steps("What it takes")[0]["models"] if each["name"] in led]
    backends = [
        {"name": each["backend"], "address": f"127.0.0.1:{servers[each['name']].port}", "health_check": False}
        for each in models
    ]
    return {"listen": gateway.listen, "models": models, "backends": backends} | page


def leads_to(page: dict[str, Any]) -> dict[str, int]:
    """The models behind the page's alias, and their weights."""
    alias = page["aliases"]["coder"]
    return {alias: 1} if isinstance(alias, str) else {share["model"]: share["weight"] for share in alias["split"]}


def told(config: Config, text: str) -> str | None:
    """Whose the conversation that begins so is, worked out without asking; None where there is no choice."""
    choice = choice_of(request("coder", text), config, CHAT, NOBODY)
    return choice.model if choice is not None else None


def until_forgotten(gateway: Reloadable, port: int) -> None:
    """Until Envoy has no server there any more."""
    eventually(lambda: f":{port}::" not in gateway.admin.get("/clusters").text)


@pytest.mark.long
@pytest.mark.parametrize("walk", ["A canary", "Blue and green"])
def test_a_walk_breaks_no_stream_and_asks_whom_it_should(walk: str, servers: dict[str, Server], tmp_path: Path) -> None:
    """Which model is worked out for each conversation. One that leaves has a stream under way; then its server goes."""
    gateway = Reloadable(tmp_path, servers["coder-blue"].vllm)
    pages = steps(walk)
    written = [settings(gateway, servers, page) for page in pages]
    configs = [parse(yaml.safe_dump(each)) for each in written]
    begun, done, left = list[float](), list[float](), set[str]()
    gateway.write(written[0])
    with running(gateway):
        streaming = Streaming(f"http://{gateway.listen}")
        with streaming.clients(*["coder"] * 4):
            for number, page in enumerate(pages):
                leaving = set(leads_to(pages[max(number - 1, 0)])) - set(leads_to(page))
                staying = [Stream(gateway, model, words=90) for model in leaving]
                begun.append(time.monotonic())
                gateway.reload(written[number])
                done.append(time.monotonic())
                for model in leaving:
                    assert gateway.ask(model).json()["error"]["code"] == "model_not_found"
                    assert f":{servers[model].port}::" in gateway.admin.get("/clusters").text
                assert not any(each.ended for each in staying)
                for each in staying:
                    assert each.text() == "word " * 90
                for model in leaving:
                    until_forgotten(gateway, servers[model].port)
                    servers[model].stop()
                left |= leaving
                shared = {model for model, weight in leads_to(page).items() if weight}
                asked = CONVERSATIONS if len(shared) > 1 else CONVERSATIONS // 10
                found = asked_of(streaming.url, asked)
                assert len(found) == asked
                assert found == {text: told(configs[number], text) for text in found}
                wait_until(lambda: sum(each.began > done[-1] for each in streaming.streams) >= 8, 2 * PATIENCE)
                # A name that stands for one model alone tells of none: there it is the only one that is left.
                assert set(found.values()) == (shared if "split" in page["aliases"]["coder"] else {None})
    assert {each.outcome for each in streaming.streams} == {"whole"}
    assert streaming.whole().keys() - {None} == {"coder-blue", "coder-green"}
    until = [*done[1:], float("inf")]
    for streamed in streaming.streams:
        in_force = [at for at in range(len(pages)) if begun[at] <= streamed.ended and streamed.began <= until[at]]
        assert streamed.model in {told(configs[at], streamed.text) for at in in_force}
    assert left == ({"coder-blue"} if walk == "A canary" else set())


@pytest.mark.long
def test_shares_are_within_two_percent_of_the_weights_where_there_are_many_conversations() -> None:
    """A share is what so many draws make of it: of few conversations it may be further off."""
    alias = Alias.model_validate(steps("A canary")[1]["aliases"]["coder"])
    assert [share.weight for share in alias.split] == [95, 5]
    found = Counter(alias.model_of(f"Conversation {count}".encode()) for count in range(MANY))
    for share in alias.split:
        assert abs(found[share.model] / MANY / (share.weight / 100) - 1) < 0.02


def test_the_walk_of_blue_and_green_ends_with_green() -> None:
    *_, last = steps("Blue and green")
    assert last["aliases"]["coder"]["split"][-1] == {"model": "coder-green", "weight": 100}


# ---- what is asked instead


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
    stopped = time.monotonic()
    fallbacks.coder.stop()
    failed = fallbacks.gateway.chat("coder")
    assert (failed.status_code, failed.json()["error"]["code"]) == (503, "backend_unreachable")
    assert failed.headers[MODEL_HEADER] == "big"
    answers, tried = list[httpx.Response](), 0
    while len(answers) < 2:
        answer = fallbacks.gateway.chat("coder")
        if answer.status_code == 503:  # it tried whether the backend is back
            tried += 1
            assert tried <= trials(time.monotonic() - stopped)
        else:
            answers.append(answer)
    shown = [(each.status_code, each.headers[MODEL_HEADER], each.headers[FALLBACK_HEADER]) for each in answers]
    assert shown == [(200, "small", "big failing")] * 2
    line = fallbacks.gateway.access_log(answers[-1].headers["x-request-id"])
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
    assert answer.retries_taken in (1, 2), "the second may be the one that tries whether it is back"
    fallbacks.coder.start()
    wait_until(lambda: fallbacks.ask() == (200, "big", None))


def test_a_full_backend_is_passed_by_without_an_error(fallbacks: Fallbacks) -> None:
    fallbacks.coder.vllm.play(Reply("word " * 15, pace=0.2))
    body = request("one-at-a-time", stream=True)
    with fallbacks.gateway.http.stream("POST", CHAT, json=body) as answer:
        assert answer.headers[MODEL_HEADER] == "narrow"
        for _ in range(3):
            assert fallbacks.ask("one-at-a-time") == (200, "small", "narrow full")
        lines = list(answer.iter_lines())
    assert text_of(lines) == "word " * 15
    wait_until(lambda: fallbacks.ask("one-at-a-time") == (200, "narrow", None))

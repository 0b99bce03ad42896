"""The second request for a demanded call goes through Envoy, as the first one did: to a replica that is well, to the
one that has the conversation, with the backend's key, and where there is room. A real Envoy, scripted vLLMs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from extproc.names import CHAT_PATH
from scripted_vllm import Fail, Received, Reply, Stall
from tests.gateway import MODEL, Gateway, configured_gateway, wait_until
from tests.test_answer import CALL
from tests.test_retry import DEMAND, TRACE, WORDS
from tests.test_routing import Replica, Replicas
from tests.tls_ends import tls_in_front_of

SOONER = {"interval: 5s": "interval: 0.2s", "interval: 1s": "interval: 0.2s"}
"""Health checks, and the look for those that may come back."""

BACKENDS = {
    # name: number of replicas, further settings
    "checked": (2, ""),
    "passive": (2, "health_check: false"),
    "single": (1, "health_check: false"),
    "narrow": (1, "health_check: false, max_requests: 1"),
    "sticky": (4, "affinity: true"),
}


class Retrying:
    """The gateway, and the replicas of each of its backends. There is a model named as each backend."""

    def __init__(self, gateway: Gateway, replicas: dict[str, Replicas], folder: Path) -> None:
        self.gateway = gateway
        self.replicas = replicas
        self.inner = folder / "inner.sock"

    def demand(self, model: str, headers: dict[str, str] | None = None, *, stream: bool = False) -> httpx.Response:
        body = {**DEMAND, "model": model, "stream": stream}
        response = self.gateway.http.post(CHAT_PATH, json=body, headers=headers)
        assert response.status_code == 200, response.text
        return response

    def play(self, model: str, *replies: Reply) -> None:
        for replica in self.replicas[model]:
            replica.vllm.play(*replies)

    def chats(self, model: str) -> list[Received]:
        return [request for replica in self.replicas[model] for request in replica.chats]


def is_second(request: Received) -> bool:
    return "Your last answer was rejected" in request.body.decode()


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retrying]:
    folder = tmp_path_factory.mktemp("retrying")
    replicas = {name: [Replica() for _ in range(number)] for name, (number, _) in BACKENDS.items()}
    replicas["secured"] = [Replica()]
    authority = trustme.CA()
    (folder / "ca.pem").write_bytes(authority.cert_pem.bytes())
    (folder / "key").write_text("sk-backend-1\n")
    with ExitStack() as stack:
        for replica in (each for those in replicas.values() for each in those):
            stack.callback(replica.stop)
        [secured] = replicas["secured"]
        end = stack.enter_context(tls_in_front_of(secured.vllm, authority.issue_cert("localhost")))
        lines = ["backends:"]
        for name, (_, settings) in BACKENDS.items():
            addresses = ", ".join(f'"{replica.address}"' for replica in replicas[name])
            lines.append(f"  - {{name: {name}, structured_outputs: false, address: [{addresses}], {settings}}}")
        tls = f"tls: {{ca: {folder}/ca.pem}}, api_key: {folder}/key"
        lines.append(f'  - {{name: secured, structured_outputs: false, address: "localhost:{end.port}", {tls}}}')
        model = f"upstream_model: {MODEL}, tools: prompt, retry: true"
        lines += ["models:", *(f"  - {{name: {name}, backend: {name}, {model}}}" for name in replicas)]
        gateway = stack.enter_context(configured_gateway(folder, "\n".join(lines), envoy=SOONER))
        yield Retrying(gateway, replicas, folder)


@pytest.fixture
def retrying(everything: Retrying) -> Retrying:
    for replica in (each for those in everything.replicas.values() for each in those):
        replica.vllm.forget()
    return everything


def test_a_replica_that_is_down_gets_no_second_request(retrying: Retrying) -> None:
    gone, other = retrying.replicas["checked"]
    retries = retrying.gateway.stat("cluster.checked.upstream_rq_retry")
    gone.stop()
    try:
        wait_until(lambda: retrying.gateway.stat("cluster.checked.membership_healthy") == 1)
        other.vllm.play(*[Reply(WORDS), Reply(CALL)] * 5)
        assert all("get_weather" in retrying.demand("checked").text for _ in range(5))
        assert [is_second(request) for request in other.chats] == [False, True] * 5
        assert retrying.gateway.stat("cluster.checked.upstream_rq_retry") == retries, "nobody tried it"
    finally:
        gone.start()


def test_a_replica_that_has_just_gone_is_passed_over(retrying: Retrying) -> None:
    """Whichever of the two requests meets it."""
    gone, other = retrying.replicas["passive"]
    gone.stop()
    try:
        other.vllm.play(*[Reply(WORDS), Reply(CALL)] * 5)
        assert all("get_weather" in retrying.demand("passive").text for _ in range(5))
        assert len(other.chats) == 10
    finally:
        gone.start()


def test_a_503_of_one_replica_is_asked_of_the_other(retrying: Retrying) -> None:
    full, other = retrying.replicas["checked"]
    wait_until(lambda: retrying.gateway.stat("cluster.checked.membership_healthy") == 2)
    full.play(Reply(trouble=Fail(503)), 20)
    other.vllm.play(*[Reply(WORDS), Reply(CALL)] * 5)
    assert all("get_weather" in retrying.demand("checked").text for _ in range(5))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_it_goes_where_the_conversation_is(retrying: Retrying, *, stream: bool) -> None:
    wait_until(lambda: retrying.gateway.stat("cluster.sticky.membership_healthy") == 4)
    homes = set()
    for number in range(12):
        retrying.play("sticky", Reply(WORDS), Reply(CALL))
        body = {**DEMAND, "model": "sticky", "stream": stream}
        body["messages"] = [{"role": "user", "content": f"Conversation {number}"}]
        assert "get_weather" in retrying.gateway.http.post(CHAT_PATH, json=body).text
        asked = [len(replica.chats) for replica in retrying.replicas["sticky"]]
        assert sorted(asked) == [0, 0, 0, 2]
        homes.add(asked.index(2))
        for replica in retrying.replicas["sticky"]:
            replica.vllm.forget()
    assert len(homes) > 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_first_answer_has_left_its_place_to_it(retrying: Retrying, *, stream: bool) -> None:
    retrying.play("narrow", Reply(WORDS), Reply(CALL))
    assert "get_weather" in retrying.demand("narrow", stream=stream).text


def test_where_there_is_no_room_for_it_the_first_answer_counts(retrying: Retrying) -> None:
    gateway, [narrow] = retrying.gateway, retrying.replicas["narrow"]
    in_vain = 'extproc_retries_total{format="hermes",mode="prompt",model="narrow",result="in_vain"}'
    before = gateway.metric(in_vain)
    narrow.vllm.play(Reply(WORDS, trouble=Stall(after=None, seconds=2)), Reply("...", trouble=Stall(seconds=60)))
    with ThreadPoolExecutor() as threads, httpx.Client(transport=httpx.HTTPTransport(uds=str(retrying.inner))) as http:
        demanded = threads.submit(retrying.demand, "narrow")
        wait_until(lambda: narrow.chats)
        os.kill(gateway.processor, signal.SIGSTOP)  # so that somebody else is faster when the first answer is over
        try:
            with ExitStack() as held:
                wait_until(lambda: held.enter_context(occupying(http, "narrow")).status_code == 200)
                os.kill(gateway.processor, signal.SIGCONT)
                assert WORDS in demanded.result(30).text
        finally:
            os.kill(gateway.processor, signal.SIGCONT)
    assert [is_second(request) for request in narrow.chats] == [False, False]
    assert gateway.metric(in_vain) == before + 1


def occupying(http: httpx.Client, backend: str) -> Any:
    """A streamed answer that has begun, or a refusal."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Go on!"}], "stream": True}
    headers = {"x-extproc-again": "1", "x-extproc-backend": backend}
    return http.stream("POST", f"http://inner{CHAT_PATH}", json=body, headers=headers)


def test_it_carries_the_clients_trace_and_nothing_of_the_gateways_own(retrying: Retrying) -> None:
    trace = {"x-request-id": "again-1", "traceparent": TRACE, "tracestate": "a=1,b=2"}
    retrying.play("single", Reply(WORDS), Reply(CALL))
    assert "get_weather" in retrying.demand("single", trace).text
    first, second = retrying.chats("single")
    assert is_second(second)
    for request in (first, second):
        assert {name: request.header(name) for name in trace} == trace
        assert [name for name, _ in request.headers if name.startswith(("x-extproc", "x-envoy", "x-forwarded"))] == []
    assert second.header("host") == first.header("host")


def test_it_has_a_line_of_its_own_in_the_access_log(retrying: Retrying) -> None:
    retrying.play("single", Reply(WORDS), Reply(CALL))
    retrying.demand("single", {"x-request-id": "again-2", "traceparent": TRACE})
    second, whole = retrying.gateway.access_lines("again-2", 2)  # by the end of each
    assert (second["route"], whole["route"]) == ("again", "chat-completions")
    for line in (whole, second):
        assert (line["backend"], line["status"], line["traceparent"]) == ("single", 200, TRACE)
        assert line["upstream"] == retrying.replicas["single"][0].address
    assert whole["extproc"]["model"] == "single"
    assert second["extproc"] is None


def test_it_goes_by_tls_with_the_backends_key(retrying: Retrying) -> None:
    retrying.play("secured", Reply(WORDS), Reply(CALL))
    assert "get_weather" in retrying.demand("secured", {"authorization": "Bearer sk-client"}).text
    first, second = retrying.chats("secured")
    assert is_second(second)
    assert first.header("authorization") == second.header("authorization") == "Bearer sk-backend-1"


def test_clients_cant_come_that_way(retrying: Retrying) -> None:
    """Nor do they get past the processor by the headers."""
    body = {"model": "single", "messages": [{"role": "user", "content": "Hi!"}]}
    claims = {"x-extproc-again": "1", "x-extproc-backend": "narrow"}
    assert retrying.gateway.http.post(CHAT_PATH, json=body, headers=claims).status_code == 200
    assert [request.json["model"] for request in retrying.chats("single")] == [MODEL]
    assert retrying.chats("narrow") == []

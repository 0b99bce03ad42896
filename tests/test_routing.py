"""Several backends with several replicas behind one listener: which of them gets a request, and which gets the next one
when the first one can't. A real Envoy, a real processor, scripted vLLMs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from extproc.names import CHAT_PATH
from scripted_vllm import Fail, Received, Reply, ScriptedVLLM, Stall
from tests.gateway import MODEL, Gateway, configured_gateway, free_port, wait_until

SOONER = {
    "interval: 5s": "interval: 0.2s",  # of health checks, and of the look for those that may come back
    "interval: 1s": "interval: 0.2s",
    "base_ejection_time: 30s": "base_ejection_time: 4s",
}

Replicas = list["Replica"]


class Replica:
    """A vLLM that can go and come back where it was."""

    def __init__(self) -> None:
        self.port = free_port()
        self._running = ExitStack()
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.vllm = self._running.enter_context(ScriptedVLLM(model=MODEL, port=self.port).running())

    def stop(self) -> None:
        self._running.close()

    def play(self, reply: Reply, times: int) -> None:
        self.vllm.play(*[reply] * times)

    @property
    def chats(self) -> list[Received]:
        """Without the questions for its health and its models."""
        return [request for request in self.vllm.requests if request.route == CHAT_PATH]


class Routed:
    """The gateway, and the replicas of each of its backends. There is a model named as each backend."""

    def __init__(self, gateway: Gateway, replicas: dict[str, Replicas]) -> None:
        self.gateway = gateway
        self.replicas = replicas

    def healthy(self, backend: str) -> int:
        return self.gateway.stat(f"cluster.{backend}.membership_healthy")

    def ejected(self, backend: str) -> int:
        return self.gateway.stat(f"cluster.{backend}.outlier_detection.ejections_active")

    @contextmanager
    def stream(self, model: str) -> Iterator[httpx.Response]:
        """A streamed answer that has begun, and is going on as long as its script says."""
        body = {"model": model, "messages": [{"role": "user", "content": "Go on!"}], "stream": True}
        with self.gateway.http.stream("POST", CHAT_PATH, json=body) as response:
            assert response.status_code == 200
            yield response


BACKENDS = {
    # name: number of replicas, further settings
    "spread": (3, ""),
    "passive": (2, "health_check: false"),
    "single": (1, "health_check: false"),
    "checked": (2, ""),
    "narrow": (1, "max_requests: 2"),
    "sticky": (4, "affinity: true"),
}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Routed]:
    replicas = {name: [Replica() for _ in range(number)] for name, (number, _) in BACKENDS.items()}
    lines = [
        "models:",
        *(f"  - {{name: {name}, backend: {name}, upstream_model: {MODEL}, tools: prompt}}" for name in BACKENDS),
        "backends:",
    ]
    for name, (_, settings) in BACKENDS.items():
        addresses = ", ".join(f'"{replica.address}"' for replica in replicas[name])
        lines.append(f"  - {{name: {name}, address: [{addresses}], {settings}}}")
    folder = tmp_path_factory.mktemp("routing")
    with ExitStack() as stack:
        for replica in (each for those in replicas.values() for each in those):
            stack.callback(replica.stop)
        yield Routed(stack.enter_context(configured_gateway(folder, "\n".join(lines), envoy=SOONER)), replicas)


@pytest.fixture
def routed(everything: Routed) -> Routed:
    for replica in (each for those in everything.replicas.values() for each in those):
        replica.vllm.forget()
    return everything


def answers(routed: Routed, model: str, number: int) -> Counter[int]:
    """The statuses of so many requests, one after the other."""
    return Counter(routed.gateway.chat(model).status_code for _ in range(number))


def loads(replicas: Iterable[Replica]) -> list[int]:
    return [len(replica.chats) for replica in replicas]


def assert_gets_requests_again(routed: Routed, model: str, replica: Replica) -> None:
    wait_until(lambda: answers(routed, model, 1) == {200: 1} and replica.chats)


def error(response: httpx.Response, status: int) -> dict[str, str]:
    assert response.status_code == status, response.text
    return dict(response.json()["error"])


# ---- which backend


def test_the_model_decides_which_backend_gets_a_request(routed: Routed) -> None:
    assert routed.gateway.chat("single").status_code == 200
    assert {name: sum(loads(those)) for name, those in routed.replicas.items()} == {
        **dict.fromkeys(BACKENDS, 0),
        "single": 1,
    }


def test_a_client_can_choose_no_backend_and_no_replica(routed: Routed) -> None:
    claims = {"x-extproc-backend": "narrow", "x-extproc-affinity": "1", "x-extproc-dropped": "x", "x-extproc-new": "y"}
    assert routed.gateway.chat("single", **claims).status_code == 200
    [request] = routed.replicas["single"][0].chats
    assert [name for name, _ in request.headers if name.startswith("x-extproc")] == []


def test_a_clients_key_goes_to_no_backend(routed: Routed) -> None:
    keys = {"authorization": "Bearer sk-client", "api-key": "sk-client", "x-api-key": "sk-client"}
    assert routed.gateway.chat("single", **keys).status_code == 200
    completion = {"model": "single", "prompt": "Hello!"}
    assert routed.gateway.http.post("/v1/completions", json=completion, headers=keys).status_code == 200
    requests = [request for those in routed.replicas.values() for each in those for request in each.vllm.requests]
    assert {"/v1/completions", CHAT_PATH} <= {request.route for request in requests}
    assert not any("sk-client" in value for request in requests for _, value in request.headers)


def test_a_backend_is_asked_by_its_own_name(routed: Routed) -> None:
    assert routed.gateway.chat("single", host="gateway.example").status_code == 200
    assert routed.replicas["single"][0].chats[0].header("host") == "127.0.0.1"


# ---- which replica


RETRIES, EJECTIONS = "cluster.passive.upstream_rq_retry", "passive.outlier_detection.ejections_enforced_total"


def test_every_replica_gets_its_share(routed: Routed) -> None:
    assert answers(routed, "spread", 40) == {200: 40}
    assert min(loads(routed.replicas["spread"])) > 0


def test_a_busy_replica_gets_less(routed: Routed) -> None:
    for replica in routed.replicas["spread"]:
        replica.play(Reply("...", trouble=Stall(seconds=60)), 1)
    with routed.stream("spread"):
        [busy] = [replica for replica in routed.replicas["spread"] if replica.chats]
        for replica in routed.replicas["spread"]:
            replica.vllm.forget()
        assert answers(routed, "spread", 60) == {200: 60}
        # Two are drawn, and the one with less to do is taken: one time in nine that is the busy one, drawn twice.
        assert len(busy.chats) < 60 / 3


# ---- when a replica fails


def assert_is_left_alone(failures: int, ejections: int) -> None:
    """After three failures; and again, if the requests take longer than an ejection lasts.

    A few more may fail before all of Envoy knows.
    """
    assert 0 < 3 * ejections <= failures < 3 * (ejections + 1) + 4


def test_a_replica_that_is_gone_costs_no_request_and_is_left_alone_until_it_is_back(routed: Routed) -> None:
    gone, other = routed.replicas["passive"]
    retries, ejections = (routed.gateway.stat(name) for name in (RETRIES, EJECTIONS))
    gone.stop()
    try:
        assert answers(routed, "passive", 40) == {200: 40}
        assert len(other.chats) == 40
        assert_is_left_alone(routed.gateway.stat(RETRIES) - retries, routed.gateway.stat(EJECTIONS) - ejections)
    finally:
        gone.start()
    assert_gets_requests_again(routed, "passive", gone)


def test_a_503_is_tried_elsewhere_with_all_that_was_asked(routed: Routed) -> None:
    overloaded, other = routed.replicas["passive"]
    before = routed.gateway.stat(EJECTIONS)
    overloaded.play(Reply(trouble=Fail(503)), 50)
    long = "It was a dark and stormy night. " * 100
    assert {routed.gateway.chat("passive", long).status_code for _ in range(40)} == {200}
    assert {request.json["messages"][-1]["content"] for request in other.chats} == {long}
    assert_is_left_alone(len(overloaded.chats), routed.gateway.stat(EJECTIONS) - before)
    overloaded.vllm.forget()
    assert_gets_requests_again(routed, "passive", overloaded)


def test_a_503_of_the_only_replica_is_the_clients_to_wait_for(routed: Routed) -> None:
    [only] = routed.replicas["single"]
    only.play(Reply(trouble=Fail(503, retry_after=7)), 3)
    response = routed.gateway.chat("single")
    assert response.status_code == 503
    assert response.headers["retry-after"] == "7"
    assert len(only.chats) == 1


@pytest.mark.parametrize("status", [429, 500])
def test_what_may_have_cost_work_is_not_tried_again(routed: Routed, status: int) -> None:
    for replica in routed.replicas["spread"]:
        replica.play(Reply(trouble=Fail(status)), 1)
    assert routed.gateway.chat("spread").status_code == status
    assert sum(loads(routed.replicas["spread"])) == 1


def test_a_clients_bad_luck_with_500s_ejects_nobody(routed: Routed) -> None:
    for replica in routed.replicas["spread"]:
        replica.play(Reply(trouble=Fail(500)), 9)
    assert answers(routed, "spread", 9) == {500: 9}
    assert routed.ejected("spread") == 0


def test_health_checks_find_out_who_is_gone_and_who_is_back(routed: Routed) -> None:
    gone, other = routed.replicas["checked"]
    gone.stop()
    try:
        wait_until(lambda: routed.healthy("checked") == 1)
        retries = routed.gateway.stat("cluster.checked.upstream_rq_retry")
        assert answers(routed, "checked", 10) == {200: 10}
        assert routed.gateway.stat("cluster.checked.upstream_rq_retry") == retries, "nobody tried it"
        assert len(other.chats) == 10
    finally:
        gone.start()
    assert_gets_requests_again(routed, "checked", gone)


def test_when_no_replica_seems_well_all_are_tried(routed: Routed) -> None:
    replicas = routed.replicas["checked"]
    for replica in replicas:
        replica.stop()
    try:
        wait_until(lambda: routed.healthy("checked") == 0)
        said = error(routed.gateway.chat("checked"), 503)
        assert said["code"] == "backend_unreachable"
        assert "127.0.0.1" not in said["message"]
    finally:
        for replica in replicas:
            replica.start()
    wait_until(lambda: routed.gateway.chat("checked").status_code == 200)
    wait_until(lambda: routed.healthy("checked") == 2)


def test_a_backend_that_has_all_it_may_have_says_so_at_once(routed: Routed) -> None:
    [narrow] = routed.replicas["narrow"]
    narrow.play(Reply("...", trouble=Stall(seconds=60)), 2)
    with routed.stream("narrow"), routed.stream("narrow"):
        said = error(routed.gateway.chat("narrow"), 503)
        assert said["code"] == "backend_overloaded"
        assert said["type"] == "server_error"
        assert "'narrow'" in said["message"]
        assert "max_requests" in said["message"]
        assert routed.gateway.chat("single").status_code == 200, "the other backends have their own limits"
    wait_until(lambda: routed.gateway.chat("narrow").status_code == 200)


# ---- which conversation


def homes(routed: Routed, conversations: int, then: Callable[[int], list[dict[str, str]]]) -> dict[int, Replica]:
    """The replica that each conversation went to with its next turn."""
    found = {}
    for number in range(conversations):
        before = loads(routed.replicas["sticky"])
        messages = [{"role": "user", "content": f"Conversation {number}"}, *then(number)]
        body = {"model": "sticky", "messages": messages}
        assert routed.gateway.http.post(CHAT_PATH, json=body).status_code == 200
        after = loads(routed.replicas["sticky"])
        [found[number]] = [
            replica for replica, old, new in zip(routed.replicas["sticky"], before, after, strict=True) if new > old
        ]
    return found


def later(turn: int) -> Callable[[int], list[dict[str, str]]]:
    return lambda number: [
        {"role": "assistant", "content": f"Answer to {number}"},
        {"role": "user", "content": f"Turn {turn}"},
    ]


def test_a_conversation_stays_where_it_began(routed: Routed) -> None:
    first = homes(routed, 40, lambda _: [])
    assert set(first.values()) == set(routed.replicas["sticky"]), "and all replicas have some"
    assert homes(routed, 40, later(2)) == first
    assert homes(routed, 40, later(3)) == first
    requests = [request for replica in routed.replicas["sticky"] for request in replica.chats]
    assert all(request.header("x-extproc-affinity") is None for request in requests)


def test_when_a_replica_goes_the_conversations_of_the_others_stay(routed: Routed) -> None:
    before = homes(routed, 60, lambda _: [])
    gone = routed.replicas["sticky"][0]
    gone.stop()
    try:
        during = homes(routed, 60, later(2))
        staying = [number for number, home in before.items() if home is not gone]
        assert sum(during[number] is not before[number] for number in staying) <= 3
    finally:
        gone.start()
    wait_until(lambda: homes(routed, 60, later(3)) == before)


def test_a_conversation_whose_replica_fails_is_answered_by_another(routed: Routed) -> None:
    [home] = homes(routed, 1, lambda _: []).values()
    home.play(Reply(trouble=Fail(503)), 1)
    [other] = [replica for replica in homes_of_retry(routed) if replica is not home]
    assert len(other.chats) == 1


def homes_of_retry(routed: Routed) -> list[Replica]:
    before = loads(routed.replicas["sticky"])
    body = {"model": "sticky", "messages": [{"role": "user", "content": "Conversation 0"}]}
    assert routed.gateway.http.post(CHAT_PATH, json=body).status_code == 200
    after = loads(routed.replicas["sticky"])
    return [r for r, old, new in zip(routed.replicas["sticky"], before, after, strict=True) if new > old]


def test_one_that_asks_for_much_at_once_is_spread(routed: Routed) -> None:
    for replica in routed.replicas["sticky"]:
        replica.play(Reply("...", trouble=Stall(seconds=60)), 12)
    with ExitStack() as running:
        for _ in range(12):
            running.enter_context(routed.stream("sticky"))
        assert 12 > max(loads(routed.replicas["sticky"])) >= 3

"""The gateway's pods in a real cluster: they answer, and are rolled, drained, configured anew and killed under load."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.cluster.kubectl import Kubectl
from tests.cluster.node import NODE
from tests.gateway import wait_until
from tests.k8s.rendered import K8S, Object, of_kind, one, rendered
from tests.pods.clients import CHAT, MODEL, TEXT, Load, Verdict

pytestmark = pytest.mark.cluster

NAMESPACE = "pods"
LOCAL = K8S / "overlays/local"
CLIENTS = 10
CALL = {"name": "read_file", "arguments": '{"path": "main.py"}'}
RELOAD = 180
"""Seconds until pods have a changed ConfigMap or Secret: the kubelet looks each minute or so."""
PODS = "app.kubernetes.io/name=extproc"
TOOL = {
    "type": "function",
    "function": {"name": "read_file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
}

_ABOUT_ITSELF = """
import json
told = {name: value.split() for name, _, value in (line.partition(":") for line in open("/proc/self/status"))}
try:
    open("/etc/extproc/new", "w")
    wrote = True
except OSError:
    wrote = False
print(json.dumps([told["Uid"], *(told[name][0] for name in ("CapEff", "NoNewPrivs", "Seccomp")), wrote]))
"""
"""What a container has printed of its own process."""


def objects(**settings: str) -> list[Object]:
    """The overlay `local`, on a node that has few cores, with a model that says what is asked for."""
    made = [copy.deepcopy(each) for each in rendered(LOCAL)]
    for each in of_kind(made, "Deployment"):
        pod = each["spec"]["template"]["spec"]
        for container in (*pod.get("initContainers", []), *pod["containers"]):
            container["resources"]["requests"]["cpu"] = "20m"
    (model,) = one(made, "Deployment", "vllm")["spec"]["template"]["spec"]["containers"]
    model["args"] += ["--answers", "/answers/answers.jsonl"]
    model["volumeMounts"] = [{"name": "answers", "mountPath": "/answers"}]
    one(made, "Deployment", "vllm")["spec"]["template"]["spec"]["volumes"] = [
        {"name": "answers", "configMap": {"name": "answers"}}
    ]
    call = json.dumps(CALL | {"arguments": json.loads(CALL["arguments"])})
    said = [
        {"to": "Count.", "text": TEXT, "pace": 0.1},
        {"to": "main.py", "text": f"<tool_call>\n{call}\n</tool_call>"},
    ]
    answers = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "answers"},
        "data": {"answers.jsonl": "".join(f"{json.dumps(each)}\n" for each in said)},
    }
    configuration = one(made, "ConfigMap", "extproc")["data"]
    for before, after in settings.items():
        assert before in configuration["extproc.yaml"]
        configuration["extproc.yaml"] = configuration["extproc.yaml"].replace(before, after)
    return [*made, answers]


@dataclass(frozen=True, slots=True)
class Gateway:
    kubectl: Kubectl
    url: str

    def pods(self) -> list[Object]:
        """Those that aren't about to go."""
        found = self.kubectl.get("pods", f"--namespace={NAMESPACE}", f"--selector={PODS}")["items"]
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    def names(self) -> set[str]:
        return {each["metadata"]["name"] for each in self.pods()}

    def are_ready(self) -> bool:
        """Both pods are, and no third."""
        states = [each["status"].get("containerStatuses", []) for each in self.pods()]
        return len(states) == 2 and all(len(them) == 2 and all(one["ready"] for one in them) for them in states)

    def is_settled(self) -> bool:
        """Both are ready, and no other is on its way out."""
        found = self.kubectl.get("pods", f"--namespace={NAMESPACE}", f"--selector={PODS}")["items"]
        return len(found) == 2 and self.are_ready()

    def restarts(self) -> dict[str, int]:
        """By container, of both pods."""
        counts: dict[str, int] = {}
        for pod in self.pods():
            for each in pod["status"]["containerStatuses"]:
                counts[each["name"]] = counts.get(each["name"], 0) + each["restartCount"]
        return counts

    def models(self, key: str = "") -> list[tuple[int, list[str]]]:
        """The status, and the models, that each pod answers with."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        urls = [f"http://{each['status']['podIP']}:10000/v1/models" for each in self.pods()]
        answers = [httpx.get(url, headers=headers, timeout=30) for url in urls]
        return [(each.status_code, [model["id"] for model in each.json().get("data", [])]) for each in answers]


@pytest.fixture(scope="module")
def gateway(kubectl: Kubectl) -> Iterator[Gateway]:
    kubectl("create", "namespace", NAMESPACE)
    kubectl.apply(objects(), NAMESPACE)
    for name in ("vllm", "extproc"):
        kubectl("rollout", "status", f"--namespace={NAMESPACE}", f"deployment/{name}", "--timeout=300s")
    address = kubectl.get("service", "extproc", f"--namespace={NAMESPACE}")["spec"]["clusterIP"]
    made = Gateway(kubectl, f"http://{address}")
    wait_until(made.is_settled, 300)
    yield made
    print(kubectl("logs", f"--namespace={NAMESPACE}", f"--selector={PODS}", "--container=processor", "--tail=20"))


def test_the_service_answers_with_a_tool_call(gateway: Gateway) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Read the file main.py"}], "tools": [TOOL]}
    answer = httpx.post(f"{gateway.url}{CHAT}", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    (choice,) = answer.json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert [call["function"] for call in choice["message"]["tool_calls"]] == [CALL]


def test_the_containers_are_nobody_and_can_write_nowhere_else(gateway: Gateway) -> None:
    (pod, _) = sorted(gateway.names())
    words = ("exec", f"--namespace={NAMESPACE}", pod, "--container=processor", "--", "python", "-c", _ABOUT_ITSELF)
    uids, capabilities, locked, filtered, wrote = json.loads(gateway.kubectl(*words))
    assert (set(uids), int(capabilities, 16), locked, filtered, wrote) == ({"65532"}, 0, "1", "2", False)


def test_a_rollout_under_load_cuts_no_answer(gateway: Gateway) -> None:
    before, load = gateway.names(), Load()
    with load.from_clients(CLIENTS, lambda: gateway.url):
        gateway.kubectl("rollout", "restart", f"--namespace={NAMESPACE}", "deployment/extproc")
        gateway.kubectl("rollout", "status", f"--namespace={NAMESPACE}", "deployment/extproc", "--timeout=300s")
        wait_until(gateway.is_settled, 300)
    assert not gateway.names() & before
    verdicts = load.verdicts()
    print(f"a rollout under load: {dict(verdicts)}")
    assert set(verdicts) == {Verdict.WHOLE}


def test_a_node_that_is_drained_takes_one_pod_at_a_time_and_cuts_no_answer(gateway: Gateway) -> None:
    before, load = gateway.names(), Load()
    words = ("--ignore-daemonsets", "--delete-emptydir-data", f"--pod-selector={PODS}", "--timeout=300s")
    with load.from_clients(CLIENTS, lambda: gateway.url):
        drain = gateway.kubectl.begin("drain", NODE, *words)
        assert drain.stdout is not None
        said: list[str] = []
        for line in drain.stdout:
            said.append(line)
            if "violate the pod's disruption budget" in line:
                break
        # One has gone, the other stays until there is a new one; where it could run, the node is again.
        assert len(gateway.names() & before) == 1, said
        time.sleep(10)
        assert len(gateway.names() & before) == 1
        gateway.kubectl("uncordon", NODE)
        rest, _ = drain.communicate(timeout=300)
        assert drain.returncode == 0, rest
        gateway.kubectl("uncordon", NODE)
        wait_until(gateway.is_settled, 300)
    assert not gateway.names() & before
    verdicts = load.verdicts()
    print(f"a drain under load: {dict(verdicts)}")
    assert set(verdicts) == {Verdict.WHOLE}


def test_a_changed_configmap_reaches_the_pods_that_run(gateway: Gateway) -> None:
    pods, restarts = gateway.names(), gateway.restarts()
    began = time.monotonic()
    gateway.kubectl.apply(objects(**{"name: qwen-coder": "name: renamed   "}), NAMESPACE)
    wait_until(lambda: gateway.models() == [(200, ["renamed"])] * 2, RELOAD)
    print(f"a changed ConfigMap was in force after {time.monotonic() - began:.0f} s")
    gateway.kubectl.apply(objects(), NAMESPACE)
    wait_until(lambda: gateway.models() == [(200, [MODEL])] * 2, RELOAD)
    assert (gateway.names(), gateway.restarts()) == (pods, restarts)


def test_keys_of_a_secret_are_taken_and_replaced_in_the_pods_that_run(gateway: Gateway) -> None:
    pods = gateway.names()

    def secret(key: str) -> Object:
        line = f"alice: {hashlib.sha256(key.encode()).hexdigest()}\n"
        metadata = {"name": "extproc-api-keys"}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"api-keys": line}}

    def answered(key: str) -> set[int]:
        return {status for status, _ in gateway.models(key)}

    gateway.kubectl.apply([secret("first")], NAMESPACE)
    listen = "listen: 0.0.0.0:10000"
    gateway.kubectl.apply(objects(**{listen: f"{listen}\napi_keys: /etc/api-keys/api-keys"}), NAMESPACE)
    wait_until(lambda: answered("") == {401} and answered("first") == {200}, 2 * RELOAD)
    gateway.kubectl.apply([secret("second")], NAMESPACE)
    wait_until(lambda: answered("second") == {200}, RELOAD)
    assert answered("first") == {401}
    gateway.kubectl.apply(objects(), NAMESPACE)
    wait_until(lambda: answered("") == {200}, RELOAD)
    assert gateway.names() == pods


def test_a_processor_that_is_killed_is_started_again_and_nobody_takes_half_an_answer_for_a_whole(
    gateway: Gateway,
) -> None:
    before, load = gateway.restarts(), Load()
    (pod, _) = sorted(gateway.names())
    with load.from_clients(CLIENTS, lambda: gateway.url):
        kill = "import os, signal; os.kill(1, signal.SIGTERM)"
        words = ("exec", f"--namespace={NAMESPACE}", pod, "--container=processor", "--", "python", "-c", kill)
        gateway.kubectl.run(*words)
        wait_until(lambda: gateway.restarts()["processor"] == before["processor"] + 1, 300)
        wait_until(gateway.are_ready, 300)
    verdicts = load.verdicts()
    print(f"a processor that was told to end: {dict(verdicts)}")
    assert Verdict.MISTAKABLE not in verdicts
    assert verdicts[Verdict.WHOLE] > CLIENTS
    assert gateway.restarts()["envoy"] == before["envoy"]

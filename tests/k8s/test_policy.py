"""What holds for all pods of all overlays: they may do little, reach little, and nobody comes in unasked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from extproc.config import parse
from tests.k8s.rendered import (
    EVERYTHING,
    K8S,
    OVERLAYS,
    ROOT,
    Object,
    Pod,
    named,
    of_kind,
    one,
    pods,
    rendered,
    settings,
)

PODS = {f"{folder.name}-{pod.name}": pod for folder in EVERYTHING for pod in pods(rendered(folder))}
CONTAINERS = {f"{of}-{name}": each for of, pod in PODS.items() for name, each in pod.containers.items()}
POLICIES = {
    f"{folder.name}-{policy['metadata']['name']}": policy
    for folder in EVERYTHING
    for policy in of_kind(rendered(folder), "NetworkPolicy")
}

each_pod = pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
each_container = pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
each_kustomization = pytest.mark.parametrize("folder", EVERYTHING, ids=named)
each_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)

WRITABLE = {"counters", "shared", "sockets", "home", "tmp", "shared-memory", "models"}
"""Volumes that somebody writes into; all others are mounted to be read."""


# ---- pods and containers


@each_pod
def test_a_pod_runs_as_nobody_in_particular(pod: Pod) -> None:
    context = pod.spec["securityContext"]
    assert context["runAsNonRoot"] is True
    assert min(context["runAsUser"], context["runAsGroup"]) > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


@each_pod
def test_a_pod_has_nothing_of_its_node(pod: Pod) -> None:
    assert not {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} & pod.spec.keys()
    sources = {source for volume in pod.spec.get("volumes", []) for source in volume.keys() - {"name"}}
    assert sources <= {"configMap", "secret", "emptyDir", "persistentVolumeClaim"}


@each_pod
def test_a_pod_has_no_token_and_no_other_services_addresses(pod: Pod) -> None:
    assert pod.spec["automountServiceAccountToken"] is False
    assert pod.spec["enableServiceLinks"] is False


@each_kustomization
def test_no_account_has_a_token_or_rights(folder: Path) -> None:
    objects = rendered(folder)
    assert all(each["automountServiceAccountToken"] is False for each in of_kind(objects, "ServiceAccount"))
    assert not {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} & {each["kind"] for each in objects}


@each_kustomization
def test_no_secret_is_written_down(folder: Path) -> None:
    assert of_kind(rendered(folder), "Secret") == []


@each_container
def test_a_container_may_do_nothing_and_write_nothing_else(container: Object) -> None:
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = {mount["name"] for mount in container.get("volumeMounts", []) if not mount.get("readOnly")}
    assert writable <= WRITABLE
    assert all("hostPort" not in port for port in container["ports"])


@each_pod
def test_memory_that_is_written_to_is_bounded(pod: Pod) -> None:
    assert all("sizeLimit" in volume["emptyDir"] for volume in pod.spec.get("volumes", []) if "emptyDir" in volume)


@each_container
def test_a_container_says_what_it_needs(container: Object) -> None:
    resources = container["resources"]
    assert {"cpu", "memory"} <= resources["requests"].keys()
    assert "memory" in resources["limits"]
    assert "cpu" not in resources["limits"], "being throttled would delay every token"


@each_container
def test_an_image_has_a_version_or_a_digest(container: Object) -> None:
    # Or its commit, where nothing is released (envoyproxy/ratelimit).
    assert re.search(r":(v?\d+\.\d+\.\d+|[0-9a-f]{8})(@sha256:[0-9a-f]{64})?$", container["image"])


@pytest.mark.parametrize(
    ("image", "file"), [("extproc", "deploy/Dockerfile"), ("scripted-vllm", "deploy/scripted-vllm.Dockerfile")]
)
def test_the_image_is_not_roots(image: str, file: str) -> None:
    last_stage = (ROOT / file).read_text(encoding="utf-8").split("\nFROM ")[-1].splitlines()
    ours = [pod for pod in PODS.values() if any(c["image"].startswith(f"{image}:") for c in pod.containers.values())]
    assert ours
    for pod in ours:
        context = pod.spec["securityContext"]
        assert f"USER {context['runAsUser']}:{context['runAsGroup']}" in last_stage


# ---- the network


@each_kustomization
def test_every_pod_is_under_a_policy_for_both_directions(folder: Path) -> None:
    objects = rendered(folder)
    for pod in pods(objects):
        policies = [each["spec"] for each in of_kind(objects, "NetworkPolicy")]
        selecting = [policy for policy in policies if pod.selected_by(policy["podSelector"])]
        assert {direction for policy in selecting for direction in policy["policyTypes"]} == {"Ingress", "Egress"}


@each_policy
def test_a_policy_names_peers_and_ports(policy: Object) -> None:
    spec = policy["spec"]
    for rule in spec.get("ingress", []):
        assert rule["from"]
        assert rule["ports"]
        assert all(peer for peer in rule["from"]), "an empty peer is everybody"
        assert {"namespaceSelector": {}} not in rule["from"]
    for rule in spec.get("egress", []):
        assert rule["to"]
        # DNS, others' gateways, HTTPS, counters, vLLM, other servers (8080, 11434, 30000), what counts tokens.
        assert all(port["port"] in (53, 80, 443, 6379, 8000, 8080, 8081, 11434, 30000) for port in rule["ports"])


@each_policy
def test_only_vllm_may_leave_the_cluster_and_never_for_another_pod_or_a_nodes_metadata(policy: Object) -> None:
    blocks = [peer["ipBlock"] for rule in policy["spec"].get("egress", []) for peer in rule["to"] if "ipBlock" in peer]
    if not policy["metadata"]["name"].startswith("vllm"):
        assert blocks == []
    for block in blocks:
        assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"} <= set(block["except"])


def ports_into(policy: Object) -> set[int]:
    return {port["port"] for rule in policy["spec"].get("ingress", []) for port in rule["ports"]}


GATEWAYS = [K8S / "base", *(path for path in OVERLAYS if path.name not in ("envoy-gateway", "istio"))]


@pytest.mark.parametrize("folder", GATEWAYS, ids=named)
def test_clients_come_in_by_envoys_listener_and_nothing_else_is_open(folder: Path) -> None:
    objects = rendered(folder)
    listen = parse(settings(objects)).listen_address.port
    metrics = {9002, 9003, 9102} if folder.name in ("keda", "monitoring") else set()
    assert ports_into(one(objects, "NetworkPolicy", "extproc")) == {listen} | metrics


@each_kustomization
def test_the_gateway_may_go_to_its_backends(folder: Path) -> None:
    objects = rendered(folder)
    name = "extproc" if folder in GATEWAYS else "extproc-processor"
    policy = one(objects, "NetworkPolicy", name)
    allowed = [
        (peer["podSelector"]["matchLabels"], port["port"])
        for rule in policy["spec"]["egress"]
        for peer in rule["to"]
        for port in rule["ports"]
        if "namespaceSelector" not in peer
    ]
    elsewhere = {
        peer["namespaceSelector"]["matchLabels"].get("kubernetes.io/metadata.name")
        for rule in policy["spec"]["egress"]
        for peer in rule["to"]
        if "namespaceSelector" in peer and "podSelector" in peer
    }
    for backend in parse(settings(objects)).backends:
        for to in backend.endpoints:
            _, _, rest = to.host.partition(".")
            if rest:  # NAME.NAMESPACE.svc: by which label and port its pods go, only who runs them knows
                assert rest.partition(".")[0] in elsewhere
            else:
                assert ({"app.kubernetes.io/name": "vllm"}, to.port) in allowed


@pytest.mark.parametrize("folder", [path for path in OVERLAYS if path.name in ("local", "vllm")], ids=named)
def test_only_the_gateway_comes_to_vllm(folder: Path) -> None:
    objects = rendered(folder)
    (policy,) = (each for each in of_kind(objects, "NetworkPolicy") if each["metadata"]["name"].startswith("vllm"))
    (rule,) = policy["spec"]["ingress"]
    (peer,) = rule["from"]
    (gateway,) = (pod for pod in pods(objects) if pod.name == "extproc")
    assert peer.keys() == {"podSelector"}
    assert gateway.selected_by(peer["podSelector"])

"""The overlay with limits for all pods (docs/configuration.md): what the service reads, and who reaches whom."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from extproc.cli import main
from extproc.config import Address, parse
from extproc.envoy.rate_limit_service import ENVIRONMENT
from tests.k8s.rendered import K8S, ROOT, Object, Pod, of_kind, one, render, rendered, settings
from tests.k8s.test_readmes import blocks

OVERLAY = K8S / "overlays/rate-limit"
OBJECTS = rendered(OVERLAY)
PODS = {name: Pod(one(OBJECTS, "Deployment", name)) for name in ("extproc", "extproc-ratelimit", "extproc-counters")}
SERVICE = PODS["extproc-ratelimit"].containers["ratelimit"]
VARIABLES = {each["name"]: each["value"] for each in SERVICE["env"]}


def reached(policy: Object, direction: str, peers: str) -> set[tuple[str, int]]:
    """Which pods, at which ports, as the policy of a pod has it."""
    return {
        (name, port["port"])
        for rule in policy["spec"].get(direction, [])
        for peer in rule[peers]
        if "namespaceSelector" not in peer
        for port in rule["ports"]
        for name, pod in PODS.items()
        if peer["podSelector"] and pod.selected_by(peer["podSelector"])
    }


def test_its_file_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["limits", str(OVERLAY / "extproc.yaml")]) == 0
    (mounted,) = (each for each in of_kind(OBJECTS, "ConfigMap") if "ratelimit.yaml" in each["data"])
    assert mounted["data"]["ratelimit.yaml"] == capsys.readouterr().out
    (volume,) = PODS["extproc-ratelimit"].spec["volumes"]
    assert volume["configMap"]["name"] == mounted["metadata"]["name"]
    (mount,) = SERVICE["volumeMounts"]
    read = f"{VARIABLES['RUNTIME_ROOT']}/{VARIABLES['RUNTIME_SUBDIRECTORY']}/config"
    assert (mount["name"], mount["mountPath"]) == (volume["name"], read)


def test_it_is_told_what_clients_are_promised() -> None:
    assert VARIABLES.items() >= ENVIRONMENT.items()
    # Envoy does: what the service says itself doesn't tell requests from tokens.
    assert not [name for name in VARIABLES if name.startswith("LIMIT_")]


def test_each_is_where_the_other_looks_for_it() -> None:
    config = parse(settings(OBJECTS))
    assert config.rate_limit_service is not None
    assert {limit.of for limit in config.global_limits} == {"tokens", "requests"}
    for address, container in (
        (config.rate_limit_service.address, SERVICE),
        (VARIABLES["REDIS_URL"], PODS["extproc-counters"].containers["valkey"]),
    ):
        at = Address.parse(address)
        (port,) = one(OBJECTS, "Service", at.host)["spec"]["ports"]
        assert port["port"] == at.port
        assert {"name": port["targetPort"], "containerPort": at.port} in container["ports"]


def test_only_the_gateway_asks_it_and_only_it_reaches_the_counters() -> None:
    gateway, service, counters = (one(OBJECTS, "NetworkPolicy", name) for name in PODS)
    assert reached(gateway, "egress", "to") == {("extproc-ratelimit", 8081)}
    assert reached(service, "ingress", "from") == {("extproc", 8081)}
    assert reached(service, "egress", "to") == {("extproc-counters", 6379)}
    assert reached(counters, "ingress", "from") == {("extproc-ratelimit", 6379)}
    assert "egress" not in counters["spec"]


def test_without_limits_there_is_nothing_to_print(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["limits", str(K8S / "base/extproc.yaml")]) == 1
    assert "no service that counts" in capsys.readouterr().err


def test_limits_of_ones_own_come_in_by_the_component(tmp_path: Path) -> None:
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "ratelimit.yaml").write_text("domain: mine\n", encoding="utf-8")
    (printed,) = blocks(OVERLAY / "README.md", "yaml")
    kustomization = {"resources": ["../deploy/k8s/base"], **yaml.safe_load(printed)}
    (mine / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    objects = render(mine)
    (mounted,) = (each for each in of_kind(objects, "ConfigMap") if "ratelimit.yaml" in each["data"])
    assert mounted["data"] == {"ratelimit.yaml": "domain: mine\n"}
    (volume,) = Pod(one(objects, "Deployment", "extproc-ratelimit")).spec["volumes"]
    assert volume["configMap"]["name"] == mounted["metadata"]["name"]

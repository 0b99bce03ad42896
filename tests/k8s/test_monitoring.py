"""Prometheus finds the metrics, and alerts speak of metrics that are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from extproc.config import parse
from extproc.contract.errors import ApiError
from extproc.observability.metrics_page import PATH
from extproc.observability.model_metrics import Passed
from extproc.observability.run_metrics import RunMetrics
from extproc.observability.telemetry import Telemetry
from extproc.turn.asked import Asked
from tests.k8s.envoy_container import METRICS, running
from tests.k8s.rendered import BASE, K8S, ROOT, Object, Pod, of_kind, one, pods, render, rendered, settings

OBJECTS = rendered(K8S / "overlays/monitoring")
POD = Pod(one(OBJECTS, "Deployment", "extproc"))
RULES: list[Object] = [
    rule for rules in of_kind(OBJECTS, "PrometheusRule") for group in rules["spec"]["groups"] for rule in group["rules"]
]
ALERTS: dict[str, Object] = {rule["alert"]: rule for rule in RULES if "alert" in rule}
each_alert = pytest.mark.parametrize("alert", ALERTS.values(), ids=ALERTS)

RUNNER = "runner-metrics"
"""The port of a container that only some pods have."""

Metrics = dict[str, set[str]]
"""Labels by the name of a sample."""
FOUND = {"namespace", "pod", "container", "instance", "job"}
"""Labels that Prometheus gives to whatever it reads from a pod."""
ITS_OWN: Metrics = {"up": set(), "ALERTS": {"alertname", "alertstate"}}
"""Series that Prometheus makes itself."""
RECORDED: Metrics = {rule["record"]: {"namespace", "model", "objective"} for rule in RULES if "record" in rule}
"""Series that rules make."""
WITH_TLS: Metrics = {
    "envoy_listener_server_ssl_socket_factory_ssl_context_update_by_sds": {"envoy_listener_address"},
    "envoy_cluster_client_ssl_socket_factory_ssl_context_update_by_sds": {"envoy_cluster_name"},
}
"""What an Envoy shows that has certificates, as `tests/alerts` has seen it."""
WITH_LIMITS: Metrics = {"envoy_cluster_ratelimit_error": {"envoy_cluster_name"}}
"""What one shows that has asked a rate limit service in vain, as `tests/alerts` has seen it."""


def labels_of(page: str) -> Metrics:
    found: Metrics = {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? ", page, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def processors() -> Metrics:
    """What a processor shows that has seen everything once."""
    telemetry = Telemetry(parse(settings(OBJECTS)), "digest")
    error = ApiError(502, "It broke.", code="bad_gateway")
    telemetry.refused(error)
    telemetry.backend_error("qwen-coder", error)
    telemetry.stream_error("qwen-coder", error)
    telemetry.unfinished("response_stream")
    telemetry.accepted("qwen-coder", ["logit_bias"], 1)
    asked = Asked("prompt", "hermes", "chat")
    telemetry.models.first_token("qwen-coder", asked, 0.5, None)
    of_it = ("qwen-coder", asked.mode, asked.format, asked.dialect, asked.operation)
    telemetry.models.logged(Passed(*of_it, True, False, "complete", 200, 1.0, 0.5, 10, 20))
    return labels_of(telemetry.page().decode())


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Metrics:
    """All that Prometheus gets, by the name of the sample."""
    with running(OBJECTS, tmp_path_factory.mktemp("envoy")) as envoy:
        with envoy.request_under_way() as (client, upstream):
            upstream.sendall(b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n")
            assert client.getresponse().status == 500
        page = httpx.get(f"http://127.0.0.1:{envoy.metrics}/metrics").raise_for_status().text
    return labels_of(page) | processors() | ITS_OWN | RECORDED | WITH_TLS | WITH_LIMITS


def test_the_port_for_envoys_statistics_shows_nothing_else(tmp_path: Path) -> None:
    with running(OBJECTS, tmp_path) as envoy:
        url = f"http://127.0.0.1:{envoy.metrics}"
        assert httpx.get(f"{url}/metrics").status_code == 200
        for path in ("/", "/config_dump", "/stats", "/metrics/../config_dump", "/quitquitquit"):
            assert httpx.get(f"{url}{path}").status_code == 404
        assert httpx.post(f"{url}/metrics").status_code == 404


def test_prometheus_is_sent_to_ports_that_are_there() -> None:
    ports = {port["name"]: port["containerPort"] for each in POD.containers.values() for port in each["ports"]}
    monitor = one(OBJECTS, "PodMonitor", "extproc")["spec"]
    assert POD.selected_by(monitor["selector"])
    watched = {endpoint["port"] for endpoint in monitor["podMetricsEndpoints"]}
    assert {ports[name] for name in watched - {RUNNER}} == {9002, METRICS}


@pytest.mark.parametrize("components", [["runner", "monitoring"], ["monitoring", "runner"]])
def test_a_runner_is_watched_where_there_is_one(components: list[str], tmp_path: Path) -> None:
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    made = {
        "resources": ["../deploy/k8s/base"],
        "components": [f"../deploy/k8s/components/{component}" for component in components],
    }
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/kustomization.yaml").write_text(yaml.safe_dump(made), encoding="utf-8")
    objects = render(tmp_path / "mine")
    (port,) = Pod(one(objects, "Deployment", "extproc")).containers["runner"]["ports"]
    watched = {
        each["port"]: each["path"] for each in one(objects, "PodMonitor", "extproc")["spec"]["podMetricsEndpoints"]
    }
    assert watched[port["name"]] == PATH
    rules = one(objects, "NetworkPolicy", "extproc")["spec"]["ingress"]
    (open_to_it,) = (rule["ports"] for rule in rules if PROMETHEUS in rule["from"])
    assert {"port": port["containerPort"], "protocol": "TCP"} in open_to_it


def test_every_metric_of_a_runner_is_named() -> None:
    readme = (K8S / "overlays/monitoring/README.md").read_text(encoding="utf-8")
    for family in text_string_to_metric_families(RunMetrics().page().decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert name.endswith("_created") or f"`{name}`" in readme


def test_the_overlay_adds_to_the_base_and_changes_nothing_in_it() -> None:
    before = Pod(one(rendered(BASE), "Deployment", "extproc")).containers["envoy"]
    after = POD.containers["envoy"]
    assert after["args"][: len(before["args"])] == before["args"]
    assert after["args"][len(before["args"])] == "--config-yaml"
    assert {**after, "args": None, "ports": None} == {**before, "args": None, "ports": None}


# ---- without an Envoy of its own, and with vLLM


@pytest.fixture(scope="module", params=["envoy-gateway", "istio"])
def foreign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Object, ...]:
    """The processor of another gateway, with a vLLM, watched."""
    folder = tmp_path_factory.mktemp("kustomization")
    (folder / "deploy").symlink_to(ROOT / "deploy")
    made = {
        "resources": [f"../deploy/k8s/overlays/{request.param}", "../deploy/k8s/overlays/vllm/coder"],
        "components": ["../deploy/k8s/components/monitoring-processor"],
    }
    (folder / "mine").mkdir()
    (folder / "mine/kustomization.yaml").write_text(yaml.safe_dump(made), encoding="utf-8")
    return render(folder / "mine")


PROMETHEUS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
}


@pytest.mark.parametrize(("name", "monitor"), [("extproc-processor", "extproc-processor"), ("vllm-coder", "vllm")])
def test_prometheus_may_go_where_it_is_sent(foreign: tuple[Object, ...], name: str, monitor: str) -> None:
    (pod,) = (pod for pod in pods(foreign) if pod.name == name)
    watch = one(foreign, "PodMonitor", monitor)["spec"]
    assert pod.selected_by(watch["selector"])
    ports = {port["name"]: port["containerPort"] for each in pod.containers.values() for port in each["ports"]}
    (endpoint,) = watch["podMetricsEndpoints"]
    open_to_it = {
        port["port"]
        for policy in of_kind(foreign, "NetworkPolicy")
        if pod.selected_by(policy["spec"]["podSelector"])
        for rule in policy["spec"]["ingress"]
        if PROMETHEUS in rule["from"]
        for port in rule["ports"]
    }
    assert open_to_it == {ports[endpoint["port"]]}


def test_alerts_without_an_envoy_are_those_on_the_processors_metrics(foreign: tuple[Object, ...]) -> None:
    rules = of_kind(foreign, "PrometheusRule")
    assert len(rules) == 2
    for name in ("extproc", "extproc-objectives"):
        assert one(foreign, "PrometheusRule", name) == one(OBJECTS, "PrometheusRule", name)
    assert "envoy_" not in yaml.safe_dump(rules)


def test_the_other_gateways_envoys_and_the_processor_may_go_to_vllm(foreign: tuple[Object, ...]) -> None:
    (into_processor, _) = one(foreign, "NetworkPolicy", "extproc-processor")["spec"]["ingress"]
    policy = one(foreign, "NetworkPolicy", "vllm-from-gateway")["spec"]
    (vllm,) = (pod for pod in pods(foreign) if pod.name == "vllm-coder")
    assert vllm.selected_by(policy["podSelector"])
    processor = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "extproc-processor"}}}
    assert policy["ingress"][0]["from"] == [*into_processor["from"], processor]


# ---- alerts


def selectors(node: Any) -> Iterator[Any]:
    """The metrics that an expression asks for."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for part in ("expr", "lhs", "rhs", "vector_selector", "vs", "args"):
        inner = getattr(node, part, None)
        if inner is not None:
            for each in inner if isinstance(inner, list) else [inner]:
                yield from selectors(each)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert", rule.get("record")))
def test_a_rule_speaks_of_metrics_and_labels_that_exist(rule: Object, metrics: Metrics) -> None:
    if rule.get("record") == "extproc:objective:ratio":
        return  # a number
    asked = list(selectors(promql_parser.parse(rule["expr"])))
    assert asked
    for selector in asked:
        assert selector.name in metrics
        matched = {matcher.name for matcher in selector.matchers.matchers}
        assert matched <= metrics[selector.name] | FOUND
    renamed = set(re.findall(r'label_replace\(.*, "(\w+)", "\$1"', rule["expr"]))
    grouped = {name for group in re.findall(r"\bby \(([^)]*)\)", rule["expr"]) for name in group.split(", ")} - renamed
    assert grouped <= set.union(*(metrics[selector.name] for selector in asked)) | FOUND


@each_alert
def test_an_alert_says_how_bad_it_is_and_what_to_do(alert: Object) -> None:
    assert alert["labels"]["severity"] in ("warning", "critical")
    said = alert["annotations"]
    assert said.keys() == {"summary", "description"}
    named = {name for text in said.values() for name in re.findall(r"\$labels\.(\w+)", text)}
    grouped = {name for group in re.findall(r"\bby \(([^)]*)\)", alert["expr"]) for name in group.split(", ")}
    recorded = set.union(set(), *(RECORDED[name] for name in RECORDED if name in alert["expr"]))
    assert named <= grouped | recorded, "a label that the expression leaves out would be empty"


@each_alert
def test_an_alert_about_the_processor_is_explained(alert: Object) -> None:
    explained = (K8S.parent.parent / "docs/observability.md").read_text(encoding="utf-8")
    for name in re.findall(r"extproc_\w+", alert["expr"]):
        assert f"`{name}" in explained


def test_goals_are_those_of_the_page_and_where_its_patch_looks_for_them() -> None:
    rules = one(OBJECTS, "PrometheusRule", "extproc-objectives")["spec"]["groups"][0]["rules"]
    page = (ROOT / "docs/observability.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(\w+)` \| (\d+) % \|", page, re.MULTILINE)
    assert len(told) == 3
    assert [(rule["labels"]["objective"], rule["expr"]) for rule in rules[:3]] == [
        (name, f"vector({int(percent) / 100:g})") for name, percent in told
    ]
    assert "path: /spec/groups/0/rules/0/expr" in page


def test_what_is_counted_is_counted_at_one_moment() -> None:
    """A scrape between two rules would make a difference of what they record less than nothing."""
    counted = [rule for rule in RULES if rule.get("record", "").endswith(":sum")]
    assert counted
    assert [rule["record"] for rule in counted if "extproc:" in rule["expr"]] == []

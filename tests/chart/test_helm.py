"""The chart in Helm's own engine makes what kustomize makes."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from extproc.config import parse
from tests.chart import helm
from tests.chart.made import LIMITS, PARTS, with_components
from tests.chart.values import VALUES
from tests.generate_chart import CHART
from tests.k8s.rendered import BASE, K8S, OF_OTHERS, Object, of_kind, one, rendered, settings
from tests.k8s.test_digests import DIGEST, check
from tests.k8s.test_rendering import NEWEST, OLDEST
from tests.k8s.test_rendering import check as kubernetes_takes

pytestmark = pytest.mark.chart

OVERLAYS = {path.name.removesuffix("-values.yaml"): path for path in sorted((CHART / "ci").iterdir())}
TLS = {"certificate": "/etc/tls/tls.crt", "key": "/etc/tls/tls.key"}
SERVICE = {"address": "extproc-ratelimit:8081"}
API_KEYS = "/etc/api-keys/api-keys"


def told(objects: Iterable[Object]) -> dict[tuple[str, str], Object]:
    """By kinds and names; the settings as what they say, since the values have no comments."""
    made = {(each["kind"], each["metadata"]["name"]): json.loads(json.dumps(each)) for each in objects}
    assert all(made.values())
    for (kind, _), each in made.items():
        if kind == "ConfigMap" and "extproc.yaml" in each["data"]:
            each["data"]["extproc.yaml"] = yaml.safe_load(each["data"]["extproc.yaml"])
    return made


def test_it_is_the_base_object_by_object() -> None:
    objects = helm.objects({})
    assert told(objects) == told(rendered(BASE))
    assert len(objects) == len(rendered(BASE))
    assert parse(settings(objects)) == parse(settings(rendered(BASE)))


def test_the_name_of_the_release_changes_nothing() -> None:
    assert helm.objects({}, release="some-other") == helm.objects({})


@pytest.mark.parametrize(
    "conditions", [some for number in range(1, len(PARTS) + 1) for some in combinations(PARTS, number)], ids=" ".join
)
def test_with_any_switches_it_is_the_base_with_the_same_components(conditions: Sequence[str]) -> None:
    switches = nested({when.removeprefix(".Values."): True for when in conditions})
    if "rateLimit" in switches:  # which kustomize leaves to an overlay, too
        switches["rateLimit"]["limits"] = LIMITS.read_text(encoding="utf-8")
        switches["config"] = {"api_keys": API_KEYS}
    ours = told(helm.objects(switches))
    theirs = told(with_components(*(PARTS[when] for when in conditions)))
    if ".Values.tls.enabled" in conditions:  # which kustomize leaves to the settings of an overlay
        assert ours["ConfigMap", "extproc"]["data"]["extproc.yaml"].pop("tls") == TLS
    if "rateLimit" in switches:
        made = ours["ConfigMap", "extproc"]["data"]["extproc.yaml"]
        assert (made.pop("rate_limit_service"), made.pop("api_keys")) == (SERVICE, API_KEYS)
    assert ours == theirs


@pytest.mark.parametrize("name", OVERLAYS)
def test_with_an_overlays_values_it_is_the_overlay(name: str) -> None:
    values = yaml.safe_load(OVERLAYS[name].read_text(encoding="utf-8"))
    assert told(helm.objects(values)) == told(rendered(K8S / "overlays" / name))


def test_limits_of_a_file_of_settings_are_those_of_the_overlay() -> None:
    """As the README of the chart has them, and that of the overlay."""
    text = (LIMITS.parent / "extproc.yaml").read_text(encoding="utf-8")
    limits = {"enabled": True, "limits": LIMITS.read_text(encoding="utf-8")}
    assert told(helm.objects({"configText": text, "rateLimit": limits})) == told(rendered(LIMITS.parent))


@pytest.mark.parametrize("name", ["", *OVERLAYS])
def test_helm_finds_nothing_to_complain_of(name: str) -> None:
    assert helm.findings(yaml.safe_load(OVERLAYS[name].read_text(encoding="utf-8")) if name else {}) == []


# ---- each value

OTHER: dict[str, Any] = {
    "config": {"limits": {"max_body_bytes": 33554432}, "api_keys": API_KEYS},
    "configText": "listen: 0.0.0.0:10000\nmodels: []\n",
    "image.repository": "registry.example/extproc",
    "image.tag": "0.2.0",
    "image.digest": DIGEST,
    "image.pullPolicy": "Always",
    "imagePullSecrets": [{"name": "registry"}],
    "envoy.image.repository": "registry.example/envoy",
    "envoy.image.tag": "v1.40.1",
    "envoy.image.digest": DIGEST,
    "envoy.image.pullPolicy": "Never",
    "envoy.concurrency": 4,
    "envoy.resources": {"limits": {"memory": "2Gi"}},
    "envoy.env": [{"name": "A", "value": "1"}],
    "processor.resources": {"requests": {"cpu": "1"}},
    "processor.env": [{"name": "B", "value": "1e3"}],
    "apiKeys.secretName": "keys",
    "backendKeys.secretName": "their-keys",
    "tls.enabled": True,
    "tls.secretName": "certificate",
    "tls.certificate.enabled": False,
    "tls.certificate.dnsNames": ["llm.example.org"],
    "tls.certificate.issuerRef": {"kind": "Issuer", "name": "ours"},
    "runner.enabled": True,
    "runner.characters": {"a.py": 'SYSTEM_PROMPT = """{{ no action }}\n\n"""\n'},
    "runner.resources": {"limits": {"memory": "3Gi"}},
    "runner.env": [{"name": "C", "value": "on"}],
    "monitoring.enabled": True,
    "monitoring.labels": {"release": "prometheus"},
    "monitoring.prometheus": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
    "dashboards.enabled": True,
    "rateLimit.enabled": True,
    "rateLimit.limits": "domain: extproc\ndescriptors: []\n",
    "rateLimit.image.repository": "registry.example/ratelimit",
    "rateLimit.image.tag": "12345678",
    "rateLimit.image.digest": DIGEST,
    "rateLimit.image.pullPolicy": "IfNotPresent",
    "rateLimit.replicas": 3,
    "rateLimit.resources": {"limits": {"memory": "4Gi"}},
    "rateLimit.counters.image.repository": "registry.example/valkey",
    "rateLimit.counters.image.tag": "9.0.0",
    "rateLimit.counters.image.digest": DIGEST,
    "rateLimit.counters.image.pullPolicy": "Always",
    "rateLimit.counters.resources": {"limits": {"memory": "5Gi"}},
    "rateLimit.counters.storage": "2Gi",
    "rateLimit.counters.storageClassName": "fast",
    "networkPolicy.enabled": False,
    "networkPolicy.clients": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
    "networkPolicy.backends": [],
    "networkPolicy.ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 9002, "protocol": "TCP"}]}],
    "networkPolicy.egress": [{"to": [{"ipBlock": {"cidr": "192.0.2.7/32"}}], "ports": [{"port": 443}]}],
    "autoscaling.enabled": False,
    "autoscaling.minReplicas": 3,
    "autoscaling.maxReplicas": 30,
    "autoscaling.averageUtilization": 70,
    "replicas": 5,
    "disruptionBudget.enabled": False,
    "disruptionBudget.maxUnavailable": "25%",
    "service.type": "LoadBalancer",
    "service.externalTrafficPolicy": "Local",
    "service.annotations": {"example.com/internal": "true"},
    "serviceAccount.annotations": {"example.com/role": "123"},
    "podAnnotations": {"example.com/scrape": "no"},
    "podLabels": {"team": "platform"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "spot", "operator": "DoesNotExist"}]}]}}},
    "priorityClassName": "high",
    "topologySpreadConstraints": [],
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"a": "{{ b }}"}}],
}  # fmt: skip
"""For each value another one than its default."""

SWITCHES: dict[str, Any] = {
    "tls.enabled": True,
    "runner.enabled": True,
    "monitoring.enabled": True,
    "rateLimit.enabled": True,
    "rateLimit.limits": "domain: extproc\n",
    "config.api_keys": API_KEYS,
}


def nested(values: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for path, value in values.items():
        here = made
        *parents, last = path.split(".")
        for name in parents:
            here = here.setdefault(name, {})
        here[last] = value
    return made


@pytest.mark.parametrize("path", [each.path for each in VALUES])
def test_every_value_changes_what_it_says_and_nothing_that_kubernetes_refuses(path: str) -> None:
    common = {} if path in {*SWITCHES, "configText"} else dict(SWITCHES)
    if path.startswith("rateLimit"):
        common |= {"rateLimit.limits": SWITCHES["rateLimit.limits"], "rateLimit.enabled": path != "rateLimit.enabled"}
        common["config.api_keys"] = API_KEYS
    if path == "replicas":
        common["autoscaling.enabled"] = False
    before, after = (helm.objects(nested(values)) for values in (common, common | {path: OTHER[path]}))
    assert after != before
    said = OTHER[path]
    if not isinstance(said, bool):
        told = "\n".join(scalars(after))
        assert all(each in told for each in scalars(said))
    for each in after:
        if each["apiVersion"] not in OF_OTHERS and each not in before:
            kubernetes_takes(json.dumps(each), OLDEST)
            kubernetes_takes(json.dumps(each), NEWEST)


def scalars(value: Any) -> list[str]:
    """The keys of maps, and what isn't made of anything."""
    if isinstance(value, dict):
        return [*value, *scalars(list(value.values()))]
    if isinstance(value, list):
        return [each for part in value for each in scalars(part)]
    return [str(value)]


def test_all_of_them_at_once() -> None:
    away = ("tls.certificate.enabled", "networkPolicy.enabled", "disruptionBudget.enabled", "configText")
    objects = helm.objects(nested({path: value for path, value in OTHER.items() if path not in away}))
    for each in objects:
        if each["apiVersion"] not in OF_OTHERS:
            kubernetes_takes(json.dumps(each), NEWEST)
    assert check(objects).returncode == 0, "an image without a digest"
    pod = one(objects, "Deployment", "extproc")["spec"]["template"]["spec"]
    assert {each["image"] for each in pod["initContainers"]} == {f"registry.example/extproc@{DIGEST}"}
    assert one(objects, "Deployment", "extproc")["spec"]["replicas"] == 5
    policy = one(objects, "NetworkPolicy", "extproc")
    assert [each["ports"][0]["port"] for each in policy["spec"]["egress"]] == [53, 8081, 443]
    (claim,) = of_kind(objects, "PersistentVolumeClaim")
    assert claim["spec"]["storageClassName"] == "fast"
    (characters,) = (each for each in objects if each["metadata"]["name"] == "extproc-characters")
    assert characters["data"] == OTHER["runner.characters"]
    (rule,) = (each for each in of_kind(objects, "PrometheusRule") if each["metadata"]["name"] == "extproc")
    assert rule["metadata"]["labels"]["release"] == "prometheus"


def test_numbers_of_a_file_of_values_stay_what_they_are() -> None:
    values = helm_python.values_from_yaml("config: {limits: {max_body_bytes: 33554432}}\nenvoy: {concurrency: 16}\n")
    objects = helm.objects(values)
    assert "max_body_bytes: 33554432\n" in settings(objects)
    assert parse(settings(objects)).limits.max_body_bytes == 33554432
    assert '"16"' in json.dumps(objects)


def test_what_is_null_stays_null() -> None:
    objects = helm.objects(helm_python.values_from_yaml("config: {limits: {requests_per_minute: null}}\n"))
    assert parse(settings(objects)).limits.requests_per_minute is None


def test_the_text_of_a_file_is_taken_as_it_is() -> None:
    text = (BASE / "extproc.yaml").read_text(encoding="utf-8")
    assert settings(helm.objects({"configText": text})) == text


def test_the_settings_to_make_limits_of_are_rendered_before_there_are_any() -> None:
    values = {"config": {"api_keys": API_KEYS}, "rateLimit": {"enabled": True, "limits": "x"}}
    limits = parse(settings(helm.objects(values))).global_limits
    assert [(limit.kind, limit.most) for limit in limits] == [("client_requests_minute", 1200)]


def test_the_values_that_the_readme_prints_are_taken() -> None:
    (printed,) = re.findall(r"```yaml\n(.*?)```", (CHART / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    objects = helm.objects(yaml.safe_load(printed.replace("sha256:...", DIGEST)))
    (model,) = parse(settings(objects)).models
    assert (model.name, model.backend) == ("coder", "vllm")
    (policy,) = of_kind(objects, "NetworkPolicy")
    dns, backend = policy["spec"]["egress"]
    assert (dns["ports"][0]["port"], backend["ports"][0]["port"]) == (53, 8000)


# ---- what is refused


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"imgae": {}}, "imgae"),
        ({"replicas": "2"}, "replicas"),
        ({"config": {"teamz": []}}, "teamz"),
        ({"config": {"limits": {"tokens_per_minute": "many"}}}, "/config/limits/tokens_per_minute"),
        ({"config": {"models": []}}, "/config/models"),
        ({"image": {"digest": "sha256:0"}}, "digest"),
        ({"configText": "a: ["}, "configText is no YAML"),
        ({"configText": "models: []\n", "tls": {"enabled": True}}, "tls.enabled needs"),
        ({"config": {"tls": TLS}}, "set tls.enabled"),
        (
            {"configText": "models: []\n", "runner": {"enabled": True, "characters": {"a.py": "\n"}}},
            "runner.characters needs",
        ),
        ({"config": {"characters": "/etc/characters"}}, "set runner.enabled"),
        ({"rateLimit": {"enabled": True}}, "extproc limits"),
        (
            {"configText": "models: []\n", "rateLimit": {"enabled": True, "limits": "domain: extproc\n"}},
            "rateLimit.enabled needs in configText",
        ),
        ({"rateLimit": {"enabled": True, "limits": "domain: extproc\n"}}, "they need `api_keys` or `jwt`"),
        ({"config": {"tool_servers": [{"name": "a"}]}}, "set runner.enabled"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cant_work_is_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(helm_python.HelmError, match=re.escape(why)):
        helm.rendered(values)


# ---- what Helm does with it


def test_the_notes_name_the_address_and_what_is_open() -> None:
    notes = helm.rendered({})["templates/NOTES.txt"]
    assert "http://extproc.gateway/v1" in notes
    assert all(word in notes for word in ("NO KEYS", "TAGS"))
    assert "NO NETWORK POLICY" not in notes
    closed = {
        "image": {"digest": DIGEST}, "envoy": {"image": {"digest": DIGEST}}, "tls": {"enabled": True},
        "config": {"api_keys": "/etc/api-keys/api-keys"}, "networkPolicy": {"enabled": False},
    }  # fmt: skip
    notes = helm.rendered(closed)["templates/NOTES.txt"]
    assert "https://extproc.gateway.svc/v1" in notes
    assert [word for word in ("NO KEYS", "NO NETWORK POLICY", "TAGS") if word in notes] == ["NO NETWORK POLICY"]


def test_a_package_of_it_makes_the_same(tmp_path: Path) -> None:
    package = helm_python.package(CHART, destination=str(tmp_path))
    assert Path(package).name == "extproc-0.1.0.tgz"
    assert helm.objects({"dashboards": {"enabled": True}}, Path(package)) == helm.objects(
        {"dashboards": {"enabled": True}}
    )


def test_a_release_fits_into_its_secret() -> None:
    """Helm keeps chart and manifests there, as gzipped JSON in base64; Kubernetes takes a MiB."""
    everything = nested(dict(SWITCHES) | {"dashboards.enabled": True})
    chart = {path.relative_to(CHART).as_posix(): path.read_bytes() for path in CHART.rglob("*") if path.is_file()}
    release = json.dumps(
        [{name: base64.b64encode(data).decode() for name, data in chart.items()}, helm.rendered(everything)]
    )
    size = len(base64.b64encode(gzip.compress(release.encode())))
    print(f"{size / 1024:.0f} KiB")
    assert size < 512 * 1024

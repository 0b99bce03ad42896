"""Servers whose number follows vLLM's queue: what is scaled, by which numbers, and how one of them goes."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import yaml

from scripted_vllm import Reply, ScriptedVLLM
from tests.gateway import MODEL
from tests.k8s.rendered import K8S, Object, Pod, one, rendered
from tests.k8s.test_readmes import blocks

KEDA, HPA = K8S / "overlays/keda", K8S / "overlays/keda/hpa"
SCALED = one(rendered(KEDA), "ScaledObject", "vllm-coder")["spec"]
AUTOSCALER = one(rendered(HPA), "HorizontalPodAutoscaler", "vllm-coder")["spec"]

FIELDS = {
    "scaleTargetRef": {"name": str},
    "minReplicaCount": int,
    "maxReplicaCount": int,
    "pollingInterval": int,
    "fallback": {"failureThreshold": int, "replicas": int},
    "triggers": [{"type": str, "name": str, "metricType": str, "metadata": dict}],
    "advanced": {"horizontalPodAutoscalerConfig": {"behavior": dict}},
}
"""Of a ScaledObject, as far as they are used (keda.sh_scaledobjects.yaml, v1alpha1)."""
METADATA = {"serverAddress", "query", "threshold", "ignoreNullValues"}
"""Of a trigger that asks Prometheus; all of them texts."""


def fits(value: Any, fields: Any) -> bool:
    match fields:
        case type():
            return isinstance(value, fields)
        case [each]:
            return all(fits(one, each) for one in value)
        case _:
            return value.keys() <= fields.keys() and all(fits(value[name], fields[name]) for name in value)


def test_the_scaled_object_has_the_fields_that_there_are() -> None:
    assert fits(SCALED, FIELDS)
    for trigger in SCALED["triggers"]:
        assert trigger["type"] == "prometheus"
        assert trigger["metricType"] == "AverageValue", "else `fallback` does nothing"
        assert trigger["metadata"].keys() == METADATA
        assert all(isinstance(value, str) for value in trigger["metadata"].values())


@pytest.mark.parametrize("folder", [KEDA, HPA], ids=["keda", "hpa"])
def test_what_is_scaled_is_there_and_has_no_number_of_its_own(folder: Any) -> None:
    objects = rendered(folder)
    assert SCALED["scaleTargetRef"]["name"] == AUTOSCALER["scaleTargetRef"]["name"] == "vllm-coder"
    deployment = one(objects, "Deployment", "vllm-coder")["spec"]
    assert "replicas" not in deployment
    assert deployment["strategy"]["type"] == "RollingUpdate"
    assert one(objects, "PersistentVolumeClaim", "vllm-models-coder")["spec"]["accessModes"] == ["ReadWriteMany"]
    assert one(objects, "Service", "vllm-coder")["spec"]["clusterIP"] == "None"
    assert one(objects, "PodMonitor", "vllm")  # which reads the numbers


def test_both_ways_scale_alike() -> None:
    assert (SCALED["minReplicaCount"], SCALED["maxReplicaCount"]) == (
        AUTOSCALER["minReplicas"],
        AUTOSCALER["maxReplicas"],
    )
    assert SCALED["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == AUTOSCALER["behavior"]
    targets = [each["external"]["target"] for each in AUTOSCALER["metrics"]]
    assert {each["type"] for each in targets} == {"AverageValue"}
    assert [each["averageValue"] for each in targets] == [each["metadata"]["threshold"] for each in SCALED["triggers"]]


def test_the_queries_ask_for_what_vllm_tells_of_these_pods() -> None:
    (rules,) = (yaml.safe_load(text)["rules"]["external"] for text in blocks(KEDA / "README.md", "yaml"))
    assert [rule["name"]["as"] for rule in rules] == [
        each["external"]["metric"]["name"] for each in AUTOSCALER["metrics"]
    ]
    queries = [each["metadata"]["query"] for each in SCALED["triggers"]]
    queries += [rule["metricsQuery"].replace("<<.LabelMatchers>>", 'namespace="gateway"') for rule in rules]
    with ScriptedVLLM(model=MODEL).running() as vllm:
        told = httpx.get(f"{vllm.url}/metrics").text
    for query in queries:
        name, pods = re.fullmatch(r'sum\((vllm:\w+){namespace="gateway",pod=~"(.*)"}\)', query).groups()  # type: ignore[union-attr]
        assert f"\n{name}{{" in told
        assert re.fullmatch(pods, "vllm-coder-6f7c9d8b5-x2x4z")
        assert not re.fullmatch(pods, "vllm-small-6f7c9d8b5-x2x4z")


def hook(folder: Any) -> tuple[Object, list[str]]:
    """The pod, and what it runs before it ends."""
    spec = Pod(one(rendered(folder), "Deployment", "vllm-coder")).spec
    (container,) = spec["containers"]
    return spec, container["lifecycle"]["preStop"]["exec"]["command"]


def test_a_pod_has_time_for_what_it_waits_for() -> None:
    spec, command = hook(KEDA)
    waits = [int(found) for found in re.findall(r"(?:monotonic\(\) \+ |sleep\()(\d{2,})", command[-1])]
    assert len(waits) == 2  # for the streams, and until nobody has its address
    assert spec["terminationGracePeriodSeconds"] >= sum(waits)


@pytest.mark.long
def test_a_server_that_goes_ends_what_it_has_begun() -> None:
    _, (python, *arguments) = hook(KEDA)
    assert python == "python3"
    with ScriptedVLLM(model=MODEL).running() as vllm, ThreadPoolExecutor() as clients:
        sped_up = [each.replace(":8000", f":{vllm.port}").replace("sleep(15)", "sleep(0)") for each in arguments]
        assert sped_up != arguments
        subprocess.run([sys.executable, *sped_up], check=True, timeout=20)  # it has nothing to do
        vllm.play(Reply("word " * 60, pace=0.1))
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Go on!"}], "stream": True}
        url = f"{vllm.url}/v1/chat/completions"
        streamed = clients.submit(lambda: (httpx.post(url, json=body, timeout=30).text, time.monotonic())[1])
        vllm.wait_for(lambda: bool([each for each in vllm.requests if each.route.endswith("completions")]))
        subprocess.run([sys.executable, *sped_up], check=True, timeout=30)
        assert time.monotonic() >= streamed.result() - 2  # its client may notice a moment later

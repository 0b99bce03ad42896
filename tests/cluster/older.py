"""Manifests as Kubernetes 1.20 to 1.24 know them, for a cluster of one of these.

What it lacks is said in other words, which keep what the tests look at:

    native sidecars     are ordinary containers, the first of the pod. The kubelet starts the next one when the hook
                        behind a start has ended, and the hook asks what the startup probe asks. Before they are told
                        to stop, they wait until Envoy's admin interface is gone
    gRPC's probes       are programs that ask the same question
    policy/v1           is policy/v1beta1, without `unhealthyPodEvictionPolicy`
    autoscaling/v2      is autoscaling/v2beta2
    matchLabelKeys      is left out, and so are rules in CEL and empty defaults in definitions of resources
    ports' protocol     is said: server-side apply didn't know that it is TCP by default

Where the cluster is 1.29 or newer, nothing is changed.
"""

from __future__ import annotations

import copy
from typing import Any

from tests.k8s.rendered import Object

_CHECK = """
import grpc, sys
asked = bytes([10, len({service!r})]) + {service!r}.encode() if {service!r} else b""
with grpc.insecure_channel("127.0.0.1:{port}") as channel:
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    sys.exit(check(asked, timeout={timeout}) != bytes([8, 1]))
"""
_UNTIL_UP = """
import subprocess, sys, time
for _ in range({attempts}):
    if subprocess.run([sys.executable, "-c", {check!r}], stderr=subprocess.DEVNULL).returncode == 0:
        sys.exit()
    time.sleep({period})
sys.exit(1)
"""
_UNTIL_ENVOY_IS_GONE = """
import socket, time
while True:
    with socket.socket() as client:
        if client.connect_ex(("127.0.0.1", 9901)):
            break
    time.sleep(0.2)
"""
_KEYS = "x-kubernetes-list-map-keys"
_TIMEOUT = 10
"""Seconds for a question: starting a Python to ask it takes more than one on a machine that is busy."""


def older(objects: list[Object]) -> list[Object]:
    """The same objects, for an older cluster."""
    return [_older(copy.deepcopy(each)) for each in objects]


def _older(each: Object) -> Object:
    if each["kind"] == "PodDisruptionBudget":
        each["apiVersion"] = "policy/v1beta1"
        each["spec"].pop("unhealthyPodEvictionPolicy", None)
    elif each["kind"] == "HorizontalPodAutoscaler":
        each["apiVersion"] = "autoscaling/v2beta2"
    elif each["kind"] == "CustomResourceDefinition":
        _without_rules(each["spec"]["versions"])
    elif each["kind"] in ("Service", "NetworkPolicy"):
        _protocols(each["spec"])
    if "template" in each.get("spec", {}):
        _pod(each["spec"]["template"]["spec"])
    return each


def _without_rules(value: Any) -> None:
    if isinstance(value, dict):
        value.pop("x-kubernetes-validations", None)
        if any(value["items"]["properties"][key].get("default") == "" for key in value.get(_KEYS, [])):
            del value[_KEYS]
            value["x-kubernetes-list-type"] = "atomic"
        if value.get("default") == "":
            del value["default"]
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _without_rules(member)


def _protocols(value: Any) -> None:
    """Say of each port that it is TCP, unless it says what it is."""
    if isinstance(value, dict):
        for port in value.get("ports", []):
            port.setdefault("protocol", "TCP")
        for member in value.values():
            _protocols(member)
    elif isinstance(value, list):
        for member in value:
            _protocols(member)


def _pod(pod: Object) -> None:
    _protocols(pod)
    for constraint in pod.get("topologySpreadConstraints", []):
        constraint.pop("matchLabelKeys", None)
    sidecars = [each for each in pod.get("initContainers", []) if each.pop("restartPolicy", "") == "Always"]
    first = [each for each in pod.get("initContainers", []) if each not in sidecars]
    pod.pop("initContainers", None)
    if first:
        pod["initContainers"] = first
    for each in sidecars:
        hooks = each.setdefault("lifecycle", {})
        if "grpc" in each.get("startupProbe", {}):
            probe = each["startupProbe"]
            check = _check(probe["grpc"])
            attempts = {"attempts": probe["failureThreshold"], "period": probe["periodSeconds"], "check": check}
            hooks["postStart"] = _python(_UNTIL_UP.format(**attempts))
        hooks["preStop"] = _python(_UNTIL_ENVOY_IS_GONE)
    pod["containers"] = [*sidecars, *pod["containers"]]
    for each in pod["containers"]:
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = each.get(name, {})
            if "grpc" in probe:
                probe.update(_python(_check(probe.pop("grpc"))), timeoutSeconds=_TIMEOUT)


def _check(asked: Object) -> str:
    return _CHECK.format(port=asked["port"], service=asked.get("service", ""), timeout=_TIMEOUT - 1).strip()


def _python(program: str) -> Object:
    return {"exec": {"command": ["python", "-c", program.strip()]}}

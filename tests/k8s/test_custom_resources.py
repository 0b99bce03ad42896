"""Objects whose kinds come with a controller are what the kinds' own definitions say: those of `deploy/k8s`, rendered,
and those that its pages print.

The definitions are in `crds`. Of two kinds there is none here: what the overlays use of Envoy Gateway's HTTPRouteFilter
was read in its sources (api/v1alpha1), and of KEDA's ScaledObject in its definition (test_scaled.py). A field that
isn't listed is a mistake, or one more to look up.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import yaml

from tests.k8s.definitions import DEFINITIONS, faults
from tests.k8s.rendered import K8S, OF_OTHERS, OVERLAYS, Object, rendered

FOREIGN = {
    f"{folder.name}-{each['kind']}-{each['metadata']['name']}": each
    for folder in OVERLAYS
    for each in rendered(folder)
    if each["apiVersion"] in OF_OTHERS
}


def printed() -> dict[str, Object]:
    """The objects in shell blocks of each README.md."""
    found = {}
    for page in sorted(K8S.rglob("*.md")):
        for text in re.findall(r"kubectl apply -f - <<'EOF'\n(.*?)^EOF$", page.read_text("utf-8"), re.M | re.S):
            for each in yaml.safe_load_all(text):
                found[f"{page.parent.name}-{each['kind']}-{each['metadata']['name']}"] = each
    return found


LISTED = ("HTTPRouteFilter", "ScaledObject")
DEFINED = {name: each for name, each in (FOREIGN | printed()).items() if each["kind"] not in LISTED}


@pytest.mark.parametrize("each", DEFINED.values(), ids=DEFINED)
def test_an_object_is_what_its_definition_says(each: Object) -> None:
    assert faults(each) == []


def test_every_definition_is_used() -> None:
    assert {(each["apiVersion"], each["kind"]) for each in DEFINED.values()} == DEFINITIONS.keys()


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("EnvoyExtensionPolicy", "extProc.0.processingMode.allowModeOverrides", True),
        ("EnvoyExtensionPolicy", "extProc.0.processingMode.request.body", "STREAMED"),
        ("EnvoyExtensionPolicy", "extProc.0.failOpen", "no"),
        ("ClientTrafficPolicy", "connection.bufferLimit", "32 MB"),
        ("HTTPRoute", "rules.0.matches.0.path.type", "Prefix"),
        ("HTTPRoute", "rules.0.matches.0.paths", {}),
        ("VirtualService", "http.0.match.0.uri.exactly", "/v1"),
        ("Gateway", "servers.0.port.number", "80"),
        ("EnvoyFilter", "configPatches.0.applyTo", "HTTP_FILTERS"),
        ("Certificate", "privateKey.algorithm", "ecdsa"),
        ("PodMonitor", "podMetricsEndpoints.0.interval", "15 seconds"),
        ("PrometheusRule", "groups.0.rules.0.for", "5 minutes"),
        ("ClusterIssuer", "ca.secret", "private-ca"),
    ],
)
def test_a_mistake_is_found(kind: str, path: str, value: Any) -> None:
    """The definitions hold objects to something: each of these would be refused by a cluster, too."""
    each = copy.deepcopy(next(each for each in DEFINED.values() if each["kind"] == kind and _has(each, path)))
    *above, last = path.split(".")
    _at(each["spec"], above)[last] = value
    assert faults(each)


def _at(value: Any, steps: list[str]) -> Any:
    for step in steps:
        value = value[int(step) if step.isdigit() else step]
    return value


def _has(each: Object, path: str) -> bool:
    try:
        _at(each["spec"], path.split(".")[:-1])
    except (KeyError, IndexError):
        return False
    return True


def test_a_direct_response_has_the_fields_that_there_are() -> None:
    filters = [each for each in FOREIGN.values() if each["kind"] == "HTTPRouteFilter"]
    assert filters
    for each in filters:
        (answer,) = each["spec"].values()
        assert each["spec"].keys() == {"directResponse"}
        assert answer.keys() <= {"statusCode", "contentType", "body"}
        assert isinstance(answer["statusCode"], int)
        assert isinstance(answer["contentType"], str)
        assert answer["body"].keys() == {"type", "inline"}
        assert answer["body"]["type"] == "Inline"

"""Custom resource definitions, as controllers bring them, of the schemas in tests/k8s/crds.

Of two kinds there is no schema (tests/k8s/test_custom_resources.py): theirs takes whatever comes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tests.k8s
from tests.k8s.rendered import Object

_SCHEMAS = Path(tests.k8s.__file__).with_name("crds")
_OPEN = (
    ("gateway.envoyproxy.io", "v1alpha1", "HTTPRouteFilter", "httproutefilters"),
    ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects"),
)
_OF_THE_CLUSTER = ("ClusterIssuer",)


def definitions() -> list[Object]:
    """All of them."""
    made = []
    for path in sorted(_SCHEMAS.glob("*.json")):
        read = json.loads(path.read_bytes())
        plural, group = path.stem.split(".", 1)
        version = read["apiVersion"].rpartition("/")[2]
        made.append(_definition(group, version, read["kind"], plural, read["spec"]))
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return [*made, *(_definition(*each, anything) for each in _OPEN)]


def _definition(group: str, version: str, kind: str, plural: str, spec: Any) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Kubernetes keeps this suffix for itself, and asks for a sign that it was reviewed.
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, made for tests"},
        },
        "spec": {
            "group": group,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": "Cluster" if kind in _OF_THE_CLUSTER else "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }

"""Objects whose kinds come with a controller have only fields that their definitions have, of the right types.

Here is what the overlays use of those definitions. Envoy Gateway's were read in its sources (api/v1alpha1). The others
were compared with the schemas that npm's packages have of them, by which the objects are valid too:
@kubernetes-models/gateway-api 0.5.1, istio 2.3.0, cert-manager 4.4.4 and prometheus-operator 6.0.0. A field that isn't
listed is a mistake, or one more to look up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

from tests.k8s.rendered import OF_OTHERS, OVERLAYS, Object, rendered

Shape: TypeAlias = "type | re.Pattern[str] | frozenset[str] | list[Shape] | dict[str, Shape]"
"""A type, a pattern or the allowed words; a list of one shape; or fields, any of which may be left out."""

GO_DURATION = re.compile(r"(\d+(h|m|s|ms))+")
QUANTITY = re.compile(r"[1-9]+[0-9]*([EPTGMK]i|[EPTGMk])?")
ANYTHING: dict[str, Shape] = {"*": object}

_TO_SERVICE: Shape = {"name": str, "port": int}
_TARGET: Shape = {"group": str, "kind": str, "name": str}
_BODY: Shape = {"body": frozenset({"Streamed", "Buffered", "BufferedPartial", "FullDuplexStreamed"})}
_EXACT_OR_PREFIX: Shape = {"exact": str, "prefix": str}

SHAPES: dict[str, Shape] = {
    "HTTPRoute": {
        "parentRefs": [{"name": str}],
        "hostnames": [str],
        "rules": [
            {
                "matches": [
                    {
                        "path": {"type": frozenset({"Exact", "PathPrefix"}), "value": str},
                        "method": frozenset({"GET", "POST"}),
                        "headers": [{"name": str, "value": str}],
                    }
                ],
                "filters": [
                    {
                        "type": frozenset({"RequestHeaderModifier", "ResponseHeaderModifier", "ExtensionRef"}),
                        "extensionRef": {"group": str, "kind": frozenset({"HTTPRouteFilter"}), "name": str},
                        "requestHeaderModifier": {"remove": [str]},
                        "responseHeaderModifier": {"remove": [str]},
                    }
                ],
                "timeouts": {"request": GO_DURATION},
                "backendRefs": [_TO_SERVICE],
            }
        ],
    },
    "HTTPRouteFilter": {
        "directResponse": {
            "statusCode": int,
            "contentType": str,
            "body": {"type": frozenset({"Inline"}), "inline": str},
        },
    },
    "EnvoyExtensionPolicy": {
        "targetRefs": [_TARGET],
        "extProc": [
            {
                "backendRefs": [_TO_SERVICE],
                "messageTimeout": GO_DURATION,
                "failOpen": bool,
                "processingMode": {"allowModeOverride": bool, "request": _BODY, "response": _BODY},
                "metadata": {"writableNamespaces": [str]},
            }
        ],
    },
    "ClientTrafficPolicy": {
        "targetRefs": [_TARGET],
        "connection": {"bufferLimit": QUANTITY},
        "http2": {"initialStreamWindowSize": QUANTITY, "initialConnectionWindowSize": QUANTITY},
        "headers": {"earlyRequestHeaders": {"remove": [str]}},
        "timeout": {"http": {"streamIdleTimeout": GO_DURATION}},
    },
    "Gateway": {
        "selector": ANYTHING,
        "servers": [{"port": {"number": int, "name": str, "protocol": str}, "hosts": [str]}],
    },
    "VirtualService": {
        "hosts": [str],
        "gateways": [str],
        "http": [
            {
                "name": str,
                "match": [{"uri": _EXACT_OR_PREFIX, "method": _EXACT_OR_PREFIX, "headers": {"*": _EXACT_OR_PREFIX}}],
                "headers": {"request": {"remove": [str]}, "response": {"remove": [str]}},
                "route": [{"destination": {"host": str, "port": {"number": int}}}],
                "directResponse": {"status": int},
            }
        ],
    },
    "EnvoyFilter": {
        "workloadSelector": {"labels": ANYTHING},
        "configPatches": [
            {
                "applyTo": frozenset({"LISTENER", "NETWORK_FILTER", "HTTP_FILTER", "VIRTUAL_HOST", "HTTP_ROUTE"}),
                "match": {
                    "context": frozenset({"GATEWAY"}),
                    "listener": {"filterChain": {"filter": {"name": str, "subFilter": {"name": str}}}},
                    "routeConfiguration": {"vhost": {"name": str, "route": {"name": str}}},
                },
                "patch": {"operation": frozenset({"MERGE", "INSERT_BEFORE"}), "value": ANYTHING},
            }
        ],
    },
    "Certificate": {
        "secretName": str,
        "dnsNames": [str],
        "issuerRef": {"group": str, "kind": frozenset({"Issuer", "ClusterIssuer"}), "name": str},
        "duration": GO_DURATION,
        "renewBefore": GO_DURATION,
        "privateKey": {
            "algorithm": frozenset({"RSA", "ECDSA", "Ed25519"}),
            "size": int,
            "rotationPolicy": frozenset({"Never", "Always"}),
        },
        "usages": [frozenset({"digital signature", "server auth"})],
    },
    "PodMonitor": {
        "selector": {"matchLabels": ANYTHING},
        "podMetricsEndpoints": [{"port": str, "path": str, "interval": GO_DURATION}],
    },
    "PrometheusRule": {
        "groups": [
            {
                "name": str,
                "rules": [{"alert": str, "expr": str, "for": GO_DURATION, "labels": ANYTHING, "annotations": ANYTHING}],
            }
        ]
    },
}

FOREIGN = {
    f"{folder.name}-{each['kind']}-{each['metadata']['name']}": each
    for folder in OVERLAYS
    for each in rendered(folder)
    if each["apiVersion"] in OF_OTHERS
}


def misfits(value: Any, shape: Shape, where: str) -> Iterator[str]:
    """The places where `value` isn't of this shape."""
    match shape:
        case dict():
            if not isinstance(value, dict):
                yield f"{where}: no fields"
                return
            for name, part in value.items():
                expected = shape.get(name, shape.get("*"))
                if expected is None:
                    yield f"{where}.{name}: no such field"
                else:
                    yield from misfits(part, expected, f"{where}.{name}")
        case [each]:
            if not isinstance(value, list) or not value:
                yield f"{where}: no list, or an empty one"
                return
            for index, part in enumerate(value):
                yield from misfits(part, each, f"{where}[{index}]")
        case re.Pattern():
            if not isinstance(value, str) or not shape.fullmatch(value):
                yield f"{where}: {value!r} is not spelled as it should be"
        case frozenset():
            if value not in shape:
                yield f"{where}: {value!r} is none of {sorted(shape)}"
        case type():
            if not isinstance(value, shape) or (shape is int and isinstance(value, bool)):
                yield f"{where}: {value!r} is no {shape.__name__}"
        case _:
            raise AssertionError(f"no shape: {shape}")


@pytest.mark.parametrize("each", FOREIGN.values(), ids=FOREIGN)
def test_an_object_has_the_fields_of_its_kind(each: Object) -> None:
    assert list(misfits(each["spec"], SHAPES[each["kind"]], each["kind"])) == []


def test_every_kind_is_used() -> None:
    assert {each["kind"] for each in FOREIGN.values()} == SHAPES.keys()

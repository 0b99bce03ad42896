"""The chart's values: what each is, where it stands in the templates, and which schema it has.

Their defaults are what kustomize makes of the base, or of the component that they belong to, if that says anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tests.chart.tree import Plain

Schema = dict[str, Any]

BOOLEAN: Schema = {"type": "boolean"}
TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1}
NUMBER: Schema = {"type": "integer", "minimum": 1}
OBJECT: Schema = {"type": "object"}
OBJECTS: Schema = {"type": "array", "items": OBJECT}
STRINGS: Schema = {"type": "object", "additionalProperties": TEXT}
DIGEST: Schema = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
PULL: Schema = {"enum": ["", "Always", "IfNotPresent", "Never"]}
VARIABLES: Schema = {
    "type": "array",
    "items": {"type": "object", "required": ["name"], "properties": {"name": NAME}},
}


class Use(Enum):
    """How the value is used at its places."""

    INSTEAD = auto()
    """It replaces what is there, which is its default."""
    IF_SAID = auto()
    """The key at the end of the path is there when the value isn't empty."""
    FURTHER = auto()
    """Its entries come after those that are there."""
    SWITCH = auto()
    """The object is there when it is true."""
    BY_HAND = auto()
    """`templates/_helpers.tpl`, or the generator, knows what to do with it."""


@dataclass(frozen=True, slots=True)
class Value:
    path: str
    told: str
    """What it is: a comment in values.yaml, and its line in the README."""
    schema: Schema
    use: Use = Use.BY_HAND
    places: Sequence[str] = ()
    default: Plain = None
    """Where the base doesn't say it."""


def _pod(path: str) -> list[str]:
    return [f"Deployment/extproc:spec.template.spec.{path}"]


PROCESSOR, ENVOY, RUNNER = "initContainers[processor]", "containers[envoy]", "initContainers[runner]"
MONITORS = ("PodMonitor/extproc", "PodMonitor/vllm")
RULES = ("PrometheusRule/extproc", "PrometheusRule/extproc-objectives", "PrometheusRule/extproc-envoy")
LABELS = "metadata.labels"

GROUPS = {
    "image": "The image of the processor and the runner, which you build: deploy/Dockerfile, or `make image`.",
    "envoy": "Envoy, in front of the processor.",
    "processor": "The processor.",
    "tls": "HTTPS for clients, on port 443 instead of 80. `tls` in `config` is set with it.",
    "runner": "Characters, and the tools of MCP servers. `characters` in `config` is set when there are any.",
    "monitoring": "Metrics and alerts, for the Prometheus Operator.",
    "dashboards": "Dashboards for Grafana's sidecar, a ConfigMap each.",
    "networkPolicy": "Who may talk to the gateway, and to whom it may talk.",
    "autoscaling": "The HorizontalPodAutoscaler; it needs metrics-server.",
    "disruptionBudget": "The PodDisruptionBudget.",
    "service": "The Service that clients use.",
    "serviceAccount": "An identity without rights.",
    "apiKeys": "Clients' keys, by their hashes. `api_keys: /etc/api-keys/api-keys` in `config` switches them on.",
    "backendKeys": "Keys that backends ask for: `api_key: /etc/backend-keys/FILE` at a backend in `config`.",
}
"""What stands above a group of values."""

VALUES: Sequence[Value] = [
    Value(
        "config",
        "The settings, as docs/configuration.md has them. Running pods take a change.",
        {
            "type": "object",
            "properties": {"listen": {"type": "string", "pattern": ":10000$"}, "models": OBJECTS, "backends": OBJECTS},
        },
    ),
    Value(
        "configText",
        "The same as a file's text, instead of `config`: `--set-file configText=extproc.yaml`.",
        TEXT,
        default="",
    ),
    Value("image.repository", "Where it is.", NAME),
    Value("image.tag", "Its tag.", NAME),
    Value("image.digest", "Its digest, `sha256:...`, instead of the tag: for releases.", DIGEST, default=""),
    Value(
        "image.pullPolicy",
        "When it is pulled; empty for Kubernetes' own choice.",
        PULL,
        Use.IF_SAID,
        [*_pod(f"{PROCESSOR}.imagePullPolicy"), *_pod(f"{RUNNER}.imagePullPolicy")],
        "",
    ),
    Value(
        "imagePullSecrets",
        "Secrets for the registry: `[{name: ...}]`.",
        OBJECTS,
        Use.IF_SAID,
        _pod("imagePullSecrets"),
        [],
    ),
    Value("envoy.image.repository", "Where Envoy's image is.", NAME),
    Value("envoy.image.tag", "Its tag. Not a distroless one: the hook by which pods leave needs a shell.", NAME),
    Value("envoy.image.digest", "Its digest, instead of the tag.", DIGEST, default=""),
    Value("envoy.image.pullPolicy", "When it is pulled.", PULL, Use.IF_SAID, _pod(f"{ENVOY}.imagePullPolicy"), ""),
    Value("envoy.concurrency", "Threads that work.", NUMBER),
    Value(
        "envoy.resources",
        "Its resources. Its heap's limits are for 1Gi.",
        OBJECT,
        Use.INSTEAD,
        _pod(f"{ENVOY}.resources"),
    ),
    Value("envoy.env", "Environment variables.", VARIABLES, Use.IF_SAID, _pod(f"{ENVOY}.env"), []),
    Value(
        "processor.resources",
        "Its resources. It uses one core at most: add pods for more.",
        OBJECT,
        Use.INSTEAD,
        _pod(f"{PROCESSOR}.resources"),
    ),
    Value(
        "processor.env",
        "Environment variables, such as OTEL_EXPORTER_OTLP_ENDPOINT.",
        VARIABLES,
        Use.IF_SAID,
        _pod(f"{PROCESSOR}.env"),
        [],
    ),
    Value(
        "apiKeys.secretName",
        "The Secret with the file `api-keys`; it need not be there.",
        NAME,
        Use.INSTEAD,
        _pod("volumes[api-keys].secret.secretName"),
    ),
    Value(
        "backendKeys.secretName",
        "The Secret with a file for each key; it need not be there.",
        NAME,
        Use.INSTEAD,
        _pod("volumes[backend-keys].secret.secretName"),
    ),
    Value("tls.enabled", "Whether clients come by HTTPS.", BOOLEAN, default=False),
    Value(
        "tls.secretName",
        "The Secret with `tls.crt` and `tls.key`.",
        NAME,
        Use.INSTEAD,
        [*_pod("volumes[tls].secret.secretName"), "Certificate/extproc:spec.secretName"],
    ),
    Value(
        "tls.certificate.enabled",
        "Whether cert-manager makes it. If not, the Secret has to be there.",
        BOOLEAN,
        Use.SWITCH,
        ["Certificate/extproc"],
        True,
    ),
    Value(
        "tls.certificate.dnsNames",
        "What clients call the gateway.",
        {"type": "array", "minItems": 1, "items": NAME},
        Use.INSTEAD,
        ["Certificate/extproc:spec.dnsNames"],
    ),
    Value("tls.certificate.issuerRef", "Your issuer.", OBJECT, Use.INSTEAD, ["Certificate/extproc:spec.issuerRef"]),
    Value("runner.enabled", "Whether there is a runner in each pod.", BOOLEAN, default=False),
    Value(
        "runner.characters",
        "Their files, `NAME.py`, by name: `--set-file 'runner.characters.NAME\\.py=NAME.py'`.",
        {"type": "object", "propertyNames": {"pattern": "^[^/]+\\.py$"}, "additionalProperties": TEXT},
        default={},
    ),
    Value("runner.resources", "Its resources.", OBJECT, Use.INSTEAD, _pod(f"{RUNNER}.resources")),
    Value("runner.env", "Environment variables.", VARIABLES, Use.IF_SAID, _pod(f"{RUNNER}.env"), []),
    Value(
        "monitoring.enabled",
        "Whether there are PodMonitors and PrometheusRules, which the cluster has to know.",
        BOOLEAN,
        default=False,
    ),
    Value(
        "monitoring.labels",
        "Further labels of these, where Prometheus looks for some (`release: ...`).",
        STRINGS,
        Use.FURTHER,
        [f"{each}:{LABELS}" for each in (*MONITORS, *RULES)],
        {},
    ),
    Value(
        "monitoring.prometheus",
        "Where Prometheus runs: who may come to the ports with metrics.",
        {"type": "array", "minItems": 1, "items": OBJECT},
        Use.INSTEAD,
        ["NetworkPolicy/extproc:spec.ingress[1].from"],
    ),
    Value("dashboards.enabled", "Whether they are there.", BOOLEAN, default=False),
    Value(
        "networkPolicy.enabled",
        "Whether there is one. It counts where the network plugin enforces policies.",
        BOOLEAN,
        Use.SWITCH,
        ["NetworkPolicy/extproc"],
        True,
    ),
    Value(
        "networkPolicy.clients",
        "Who may come to the gateway's port.",
        {"type": "array", "minItems": 1, "items": OBJECT},
        Use.INSTEAD,
        ["NetworkPolicy/extproc:spec.ingress[0].from"],
    ),
    Value(
        "networkPolicy.backends",
        "Where backends are: rules for what the gateway may reach, beside the cluster's DNS.",
        OBJECTS,
    ),
    Value(
        "networkPolicy.ingress",
        "Further rules for who may come.",
        OBJECTS,
        Use.FURTHER,
        ["NetworkPolicy/extproc:spec.ingress"],
        [],
    ),
    Value(
        "networkPolicy.egress",
        "Further rules for where it may go.",
        OBJECTS,
        Use.FURTHER,
        ["NetworkPolicy/extproc:spec.egress"],
        [],
    ),
    Value(
        "autoscaling.enabled",
        "Whether there is one. If not, there are `replicas`.",
        BOOLEAN,
        Use.SWITCH,
        ["HorizontalPodAutoscaler/extproc"],
        True,
    ),
    Value(
        "autoscaling.minReplicas",
        "The fewest pods.",
        NUMBER,
        Use.INSTEAD,
        ["HorizontalPodAutoscaler/extproc:spec.minReplicas"],
    ),
    Value(
        "autoscaling.maxReplicas",
        "The most pods.",
        NUMBER,
        Use.INSTEAD,
        ["HorizontalPodAutoscaler/extproc:spec.maxReplicas"],
    ),
    Value(
        "autoscaling.averageUtilization",
        "Of the CPU that the processor requests, in percent.",
        NUMBER,
        Use.INSTEAD,
        ["HorizontalPodAutoscaler/extproc:spec.metrics[0].containerResource.target.averageUtilization"],
    ),
    Value("replicas", "Pods, where no autoscaler says how many.", {"type": "integer", "minimum": 0}, default=2),
    Value(
        "disruptionBudget.enabled", "Whether there is one.", BOOLEAN, Use.SWITCH, ["PodDisruptionBudget/extproc"], True
    ),
    Value(
        "disruptionBudget.maxUnavailable",
        "Pods that may be taken away at once: a number, or a share such as `25%`.",
        {"type": ["integer", "string"]},
        Use.INSTEAD,
        ["PodDisruptionBudget/extproc:spec.maxUnavailable"],
    ),
    Value(
        "service.type",
        "Its type; empty for ClusterIP.",
        {"enum": ["", "ClusterIP", "NodePort", "LoadBalancer"]},
        Use.IF_SAID,
        ["Service/extproc:spec.type"],
        "",
    ),
    Value(
        "service.externalTrafficPolicy",
        "`Local` keeps clients' addresses, which the NetworkPolicy may ask for.",
        {"enum": ["", "Cluster", "Local"]},
        Use.IF_SAID,
        ["Service/extproc:spec.externalTrafficPolicy"],
        "",
    ),
    Value(
        "service.annotations",
        "For your load balancer.",
        STRINGS,
        Use.IF_SAID,
        ["Service/extproc:metadata.annotations"],
        {},
    ),
    Value(
        "serviceAccount.annotations",
        "For your cloud's identities.",
        STRINGS,
        Use.IF_SAID,
        ["ServiceAccount/extproc:metadata.annotations"],
        {},
    ),
    Value(
        "podAnnotations",
        "Annotations of the pods.",
        STRINGS,
        Use.IF_SAID,
        ["Deployment/extproc:spec.template.metadata.annotations"],
        {},
    ),
    Value(
        "podLabels",
        "Further labels of the pods.",
        STRINGS,
        Use.FURTHER,
        ["Deployment/extproc:spec.template.metadata.labels"],
        {},
    ),
    Value("nodeSelector", "Labels of the nodes that pods may run on.", STRINGS, Use.IF_SAID, _pod("nodeSelector"), {}),
    Value("tolerations", "Taints of nodes that pods stand.", OBJECTS, Use.IF_SAID, _pod("tolerations"), []),
    Value("affinity", "What pods want to be near, or far from.", OBJECT, Use.IF_SAID, _pod("affinity"), {}),
    Value("priorityClassName", "Their PriorityClass.", TEXT, Use.IF_SAID, _pod("priorityClassName"), ""),
    Value(
        "topologySpreadConstraints",
        "How pods are spread over nodes and zones.",
        OBJECTS,
        Use.INSTEAD,
        _pod("topologySpreadConstraints"),
    ),
    Value("extraObjects", "Further objects, as they are.", OBJECTS, default=[]),
]

"""The chart's values: what each is, where it stands in the templates, and which schema it has.

Their defaults are what kustomize makes of the base, or of the component that they belong to, if that says anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tests.chart.settings_schema import Schema, settings_schema
from tests.chart.tree import Plain

BOOLEAN: Schema = {"type": "boolean"}
TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1}
NUMBER: Schema = {"type": "integer", "minimum": 1}
OBJECT: Schema = {"type": "object"}
OBJECTS: Schema = {"type": "array", "items": OBJECT}
STRINGS: Schema = {"type": "object", "additionalProperties": TEXT}
DIGEST: Schema = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
PULL: Schema = {"enum": ["", "Always", "IfNotPresent", "Never"]}
SETTINGS, DEFINITIONS = settings_schema()
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


def _pods(path: str) -> list[str]:
    """Of all Deployments."""
    return [*_pod(path), f"{RATE_LIMIT_POD}.{path}", f"{COUNTERS_POD}.{path}"]


PROCESSOR, ENVOY, RUNNER = "initContainers[processor]", "containers[envoy]", "initContainers[runner]"
MONITORS = ("PodMonitor/extproc", "PodMonitor/vllm")
RULES = ("PrometheusRule/extproc", "PrometheusRule/extproc-objectives", "PrometheusRule/extproc-envoy")
LABELS = "metadata.labels"
RATE_LIMIT_POD = "Deployment/extproc-ratelimit:spec.template.spec"
RATE_LIMIT = f"{RATE_LIMIT_POD}.containers[ratelimit]"
COUNTERS_POD = "Deployment/extproc-counters:spec.template.spec"
COUNTERS = f"{COUNTERS_POD}.containers[valkey]"

GROUPS = {
    "image": "The image of the processor and the runner, which you build: deploy/Dockerfile, or `make image`.",
    "envoy": "Envoy, in front of the processor.",
    "processor": "The processor.",
    "tls": "HTTPS for clients, on port 443 instead of 80. It sets `tls` in `config`.",
    "runner": "Characters, and the tools of MCP servers. It sets `characters` in `config` if there are any.",
    "monitoring": "Metrics and alerts, for the Prometheus Operator.",
    "dashboards": "Dashboards for Grafana's sidecar, one ConfigMap each.",
    "rateLimit": "Limits of requests and tokens that all pods share. It sets `rate_limit_service` in `config`.",
    "networkPolicy": "Who may reach the gateway, and what it may reach.",
    "autoscaling": "The HorizontalPodAutoscaler; it needs metrics-server.",
    "disruptionBudget": "The PodDisruptionBudget.",
    "service": "The Service that clients use.",
    "serviceAccount": "An identity without rights.",
    "apiKeys": "Clients' keys, as hashes. `api_keys: /etc/api-keys/api-keys` in `config` turns them on.",
    "backendKeys": "Keys that backends require: `api_key: /etc/backend-keys/FILE` at a backend in `config`.",
}
"""What stands above a group of values."""

VALUES: Sequence[Value] = [
    Value(
        "config",
        "The settings, as in docs/configuration.md. Running pods take a change.",
        SETTINGS | {"properties": SETTINGS["properties"] | {"listen": {"type": "string", "pattern": ":10000$"}}},
    ),
    Value(
        "configText",
        "The settings as the text of a file, instead of `config`: `--set-file configText=extproc.yaml`.",
        TEXT,
        default="",
    ),
    Value("image.repository", "Where the image is.", NAME),
    Value("image.tag", "Its tag.", NAME),
    Value("image.digest", "Its digest, `sha256:...`, instead of the tag: use it for releases.", DIGEST, default=""),
    Value(
        "image.pullPolicy",
        "When to pull it; empty for Kubernetes' default.",
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
        _pods("imagePullSecrets"),
        [],
    ),
    Value("envoy.image.repository", "Where Envoy's image is.", NAME),
    Value("envoy.image.tag", "Its tag. Not a distroless one: the hook that drains a pod needs a shell.", NAME),
    Value("envoy.image.digest", "Its digest, instead of the tag.", DIGEST, default=""),
    Value("envoy.image.pullPolicy", "When to pull it.", PULL, Use.IF_SAID, _pod(f"{ENVOY}.imagePullPolicy"), ""),
    Value("envoy.concurrency", "Worker threads.", NUMBER),
    Value(
        "envoy.resources",
        "Its resources. Envoy's heap limits assume 1Gi.",
        OBJECT,
        Use.INSTEAD,
        _pod(f"{ENVOY}.resources"),
    ),
    Value("envoy.env", "Environment variables.", VARIABLES, Use.IF_SAID, _pod(f"{ENVOY}.env"), []),
    Value(
        "processor.resources",
        "Its resources. It uses at most one core: for more, add pods.",
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
        "The Secret with the file `api-keys`; it may be missing.",
        NAME,
        Use.INSTEAD,
        _pod("volumes[api-keys].secret.secretName"),
    ),
    Value(
        "backendKeys.secretName",
        "The Secret with one file for each key; it may be missing.",
        NAME,
        Use.INSTEAD,
        _pod("volumes[backend-keys].secret.secretName"),
    ),
    Value("tls.enabled", "Whether clients use HTTPS.", BOOLEAN, default=False),
    Value(
        "tls.secretName",
        "The Secret with `tls.crt` and `tls.key`.",
        NAME,
        Use.INSTEAD,
        [*_pod("volumes[tls].secret.secretName"), "Certificate/extproc:spec.secretName"],
    ),
    Value(
        "tls.certificate.enabled",
        "Whether cert-manager makes the Secret. If not, it has to exist.",
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
        "The characters' files, `NAME.py`, by name: `--set-file 'runner.characters.NAME\\.py=NAME.py'`.",
        {"type": "object", "propertyNames": {"pattern": "^[^/]+\\.py$"}, "additionalProperties": TEXT},
        default={},
    ),
    Value("runner.resources", "Its resources.", OBJECT, Use.INSTEAD, _pod(f"{RUNNER}.resources")),
    Value("runner.env", "Environment variables.", VARIABLES, Use.IF_SAID, _pod(f"{RUNNER}.env"), []),
    Value(
        "monitoring.enabled",
        "Whether there are PodMonitors and PrometheusRules; the cluster needs their CRDs.",
        BOOLEAN,
        default=False,
    ),
    Value(
        "monitoring.labels",
        "More labels for these, if your Prometheus selects by label (`release: ...`).",
        STRINGS,
        Use.FURTHER,
        [f"{each}:{LABELS}" for each in (*MONITORS, *RULES)],
        {},
    ),
    Value(
        "monitoring.prometheus",
        "Where Prometheus runs: who may reach the metrics ports.",
        {"type": "array", "minItems": 1, "items": OBJECT},
        Use.INSTEAD,
        ["NetworkPolicy/extproc:spec.ingress[1].from"],
    ),
    Value("dashboards.enabled", "Whether there are dashboards.", BOOLEAN, default=False),
    Value("rateLimit.enabled", "Whether there is what counts requests and tokens.", BOOLEAN, default=False),
    Value(
        "rateLimit.limits",
        "What `extproc limits` prints of the settings: `--set-file rateLimit.limits=ratelimit.yaml`.",
        TEXT,
        default="",
    ),
    Value("rateLimit.image.repository", "Where the service's image is.", NAME),
    Value("rateLimit.image.tag", "Its tag.", NAME),
    Value("rateLimit.image.digest", "Its digest, instead of the tag.", DIGEST, default=""),
    Value("rateLimit.image.pullPolicy", "When to pull it.", PULL, Use.IF_SAID, [f"{RATE_LIMIT}.imagePullPolicy"], ""),
    Value(
        "rateLimit.replicas",
        "The number of its pods.",
        NUMBER,
        Use.INSTEAD,
        ["Deployment/extproc-ratelimit:spec.replicas"],
    ),
    Value("rateLimit.resources", "Its resources.", OBJECT, Use.INSTEAD, [f"{RATE_LIMIT}.resources"]),
    Value("rateLimit.counters.image.repository", "Where Valkey's image is, which keeps the counts.", NAME),
    Value("rateLimit.counters.image.tag", "Its tag.", NAME),
    Value("rateLimit.counters.image.digest", "Its digest, instead of the tag.", DIGEST, default=""),
    Value(
        "rateLimit.counters.image.pullPolicy",
        "When to pull it.",
        PULL,
        Use.IF_SAID,
        [f"{COUNTERS}.imagePullPolicy"],
        "",
    ),
    Value("rateLimit.counters.resources", "Its resources.", OBJECT, Use.INSTEAD, [f"{COUNTERS}.resources"]),
    Value(
        "rateLimit.counters.storage",
        "The size of its volume.",
        NAME,
        Use.INSTEAD,
        ["PersistentVolumeClaim/extproc-counters:spec.resources.requests.storage"],
    ),
    Value(
        "rateLimit.counters.storageClassName",
        "The volume's StorageClass; empty for the cluster's default.",
        TEXT,
        Use.IF_SAID,
        ["PersistentVolumeClaim/extproc-counters:spec.storageClassName"],
        "",
    ),
    Value(
        "networkPolicy.enabled",
        "Whether there are any. They have an effect only where the network plugin enforces policies.",
        BOOLEAN,
        Use.SWITCH,
        ["NetworkPolicy/extproc", "NetworkPolicy/extproc-ratelimit", "NetworkPolicy/extproc-counters"],
        True,
    ),
    Value(
        "networkPolicy.clients",
        "Who may reach the gateway's port.",
        {"type": "array", "minItems": 1, "items": OBJECT},
        Use.INSTEAD,
        ["NetworkPolicy/extproc:spec.ingress[0].from"],
    ),
    Value(
        "networkPolicy.backends",
        "Where backends are: rules for what the gateway may reach, besides the cluster's DNS.",
        OBJECTS,
    ),
    Value(
        "networkPolicy.ingress",
        "More rules for who may reach the gateway.",
        OBJECTS,
        Use.FURTHER,
        ["NetworkPolicy/extproc:spec.ingress"],
        [],
    ),
    Value(
        "networkPolicy.egress",
        "More rules for what the gateway may reach.",
        OBJECTS,
        Use.FURTHER,
        ["NetworkPolicy/extproc:spec.egress"],
        [],
    ),
    Value(
        "autoscaling.enabled",
        "Whether there is one. If not, `replicas` sets the number of pods.",
        BOOLEAN,
        Use.SWITCH,
        ["HorizontalPodAutoscaler/extproc"],
        True,
    ),
    Value(
        "autoscaling.minReplicas",
        "The minimum number of pods.",
        NUMBER,
        Use.INSTEAD,
        ["HorizontalPodAutoscaler/extproc:spec.minReplicas"],
    ),
    Value(
        "autoscaling.maxReplicas",
        "The maximum number of pods.",
        NUMBER,
        Use.INSTEAD,
        ["HorizontalPodAutoscaler/extproc:spec.maxReplicas"],
    ),
    Value(
        "autoscaling.averageUtilization",
        "The target, in percent of the CPU that the processor requests.",
        NUMBER,
        Use.INSTEAD,
        ["HorizontalPodAutoscaler/extproc:spec.metrics[0].containerResource.target.averageUtilization"],
    ),
    Value("replicas", "The number of pods, without an autoscaler.", NUMBER, default=2),
    Value(
        "disruptionBudget.enabled",
        "Whether there are any: of the gateway, and of the rate limit service.",
        BOOLEAN,
        Use.SWITCH,
        ["PodDisruptionBudget/extproc", "PodDisruptionBudget/extproc-ratelimit"],
        True,
    ),
    Value(
        "disruptionBudget.maxUnavailable",
        "How many pods of the gateway may be evicted at once: a number, or a percentage such as `25%`.",
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
        "`Local` preserves clients' addresses, which the NetworkPolicy can then match.",
        {"enum": ["", "Cluster", "Local"]},
        Use.IF_SAID,
        ["Service/extproc:spec.externalTrafficPolicy"],
        "",
    ),
    Value(
        "service.annotations",
        "Annotations for your load balancer.",
        STRINGS,
        Use.IF_SAID,
        ["Service/extproc:metadata.annotations"],
        {},
    ),
    Value(
        "serviceAccount.annotations",
        "Annotations for your cloud's identities.",
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
        "More labels of the pods.",
        STRINGS,
        Use.FURTHER,
        ["Deployment/extproc:spec.template.metadata.labels"],
        {},
    ),
    Value("nodeSelector", "Labels of the nodes that pods may run on.", STRINGS, Use.IF_SAID, _pods("nodeSelector"), {}),
    Value("tolerations", "Taints that pods tolerate.", OBJECTS, Use.IF_SAID, _pods("tolerations"), []),
    Value("affinity", "What to place pods near, or away from.", OBJECT, Use.IF_SAID, _pod("affinity"), {}),
    Value("priorityClassName", "The pods' PriorityClass.", TEXT, Use.IF_SAID, _pods("priorityClassName"), ""),
    Value(
        "topologySpreadConstraints",
        "How to spread pods over nodes and zones.",
        OBJECTS,
        Use.INSTEAD,
        _pod("topologySpreadConstraints"),
    ),
    Value("extraObjects", "More objects, installed as they are.", OBJECTS, default=[]),
]

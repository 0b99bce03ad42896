"""The chart's templates, of what kustomize makes of the base and of its components, with the values in their places."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import yaml

from tests.chart.merge import templates
from tests.chart.places import find, of
from tests.chart.tree import Block, Entry, Further, Hole, Item, Map, Plain, Seq, Template, plain
from tests.chart.values import COUNTERS, ENVOY, PROCESSOR, RATE_LIMIT, RATE_LIMIT_POD, RUNNER, VALUES, Use, Value
from tests.k8s.rendered import BASE, K8S, Object, of_kind, render, rendered, settings

PARTS = {
    ".Values.tls.enabled": "tls",
    ".Values.runner.enabled": "runner",
    ".Values.monitoring.enabled": "monitoring",
    ".Values.dashboards.enabled": "dashboards",
    ".Values.rateLimit.enabled": "rate-limit",
}
"""The components of deploy/k8s that the chart has, by what switches each on."""

LIMITS = K8S / "overlays/rate-limit/ratelimit.yaml"
"""The component leaves to an overlay what the service reads: the chart takes it as a value."""
LIMITS_NAME = "extproc-ratelimit"
NAMED = "extproc.limits.name"

Values = dict[str, Plain]
"""By their paths."""


@cache
def with_components(*names: str) -> tuple[Object, ...]:
    """What kustomize makes of the base with these components."""
    with tempfile.TemporaryDirectory(prefix="chart") as folder:
        kustomization: dict[str, Plain] = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(BASE, folder)],
            "components": [os.path.relpath(K8S / "components" / name, folder) for name in names],
        }
        if "rate-limit" in names:
            shutil.copy(LIMITS, folder)  # kustomize takes no files from elsewhere
            kustomization["configMapGenerator"] = [{"name": LIMITS_NAME, "files": [LIMITS.name]}]
        Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
        return render(Path(folder))


def made() -> tuple[list[Template], Values]:
    """The templates, and the values' defaults."""
    all_of = templates(rendered(BASE), {when: with_components(name) for when, name in PARTS.items()})
    defaults = {each.path: _default(each, all_of) for each in VALUES if each.use is not Use.BY_HAND}
    defaults |= {each.path: each.default for each in VALUES if each.use is Use.BY_HAND and each.default is not None}
    for each in VALUES:
        _place(each, all_of)
    _limits(all_of)
    defaults |= _images(all_of) | _settings(all_of) | _concurrency(all_of) | _egress(all_of)
    deployment = find(all_of, "Deployment/extproc:spec").value
    assert isinstance(deployment, Map)
    deployment.entries.insert(0, Entry("replicas", Hole("toYaml .Values.replicas"), "not .Values.autoscaling.enabled"))
    return all_of, {each.path: defaults[each.path] for each in VALUES}


def _default(value: Value, all_of: Sequence[Template]) -> Plain:
    """What is at its places, which say the same."""
    if value.use is not Use.INSTEAD:
        return value.default
    first, *others = [plain(find(all_of, place).value) for place in value.places]
    assert all(other == first for other in others), value.path
    return first


def _place(value: Value, all_of: Sequence[Template]) -> None:
    for place in value.places:
        match value.use:
            case Use.SWITCH:
                of(all_of, place).conditions.append(f".Values.{value.path}")
            case Use.INSTEAD:
                there = find(all_of, place)
                written = f"toYaml .Values.{value.path}"
                there.value = Block(written) if isinstance(there.value, Map | Seq) else Hole(written)
            case Use.FURTHER:
                there = find(all_of, place)
                if isinstance(there.value, Map):
                    there.value.entries.append(Further(value.path))
                else:
                    assert isinstance(there.value, Seq)
                    there.value.items.append(Further(value.path))
            case Use.IF_SAID:
                parent, _, key = place.rpartition(".")
                there = find(all_of, parent)
                assert isinstance(there.value, Map)
                there.value.entries.append(_if_said(key, value))


def _if_said(key: str, value: Value) -> Entry:
    if value.default == "":
        return Entry(key, Hole(f"toYaml .Values.{value.path}"), f".Values.{value.path}")
    return Entry(key, Map([Further(value.path)]))


def _images(all_of: Sequence[Template]) -> Values:
    made = _image("image", all_of, [_pod(PROCESSOR), _pod(RUNNER)]) | _image("envoy.image", all_of, [_pod(ENVOY)])
    for path, place in (("rateLimit.image", RATE_LIMIT), ("rateLimit.counters.image", COUNTERS)):
        made |= _image(path, all_of, [place])
    return made


def _pod(container: str) -> str:
    return f"Deployment/extproc:spec.template.spec.{container}"


def _image(path: str, all_of: Sequence[Template], containers: Iterable[str]) -> Values:
    images = [find(all_of, f"{each}.image") for each in containers]
    (image,) = {str(each.value) for each in images}
    for each in images:
        each.value = Hole(f'include "extproc.image" .Values.{path}')
    repository, _, tag = image.partition(":")
    return {f"{path}.repository": repository, f"{path}.tag": tag}


def _settings(all_of: Sequence[Template]) -> Values:
    there = find(all_of, "ConfigMap/extproc:data")
    assert isinstance(there.value, Map)
    text = there.value.entry("extproc.yaml")  # a key with a dot is no path
    said = yaml.safe_load(str(text.value))
    text.value = Block('include "extproc.settings" .', literal=True)
    return {"config": said}


def _limits(all_of: Sequence[Template]) -> None:
    """The name has a hash of the text in it, as kustomize makes it: changed limits roll the service's pods."""
    (there,) = [each for each in all_of if each.kind == "ConfigMap" and each.name.startswith(f"{LIMITS_NAME}-")]
    for tree, key, value in (
        (find([there], f"ConfigMap/{there.name}:metadata"), "name", Hole(f'include "{NAMED}" .')),
        (find([there], f"ConfigMap/{there.name}:data"), LIMITS.name, Block(".Values.rateLimit.limits", literal=True)),
        (find(all_of, f"{RATE_LIMIT_POD}.volumes[limits].configMap"), "name", Hole(f'include "{NAMED}" .')),
    ):
        assert isinstance(tree.value, Map)
        tree.value.entry(key).value = value


def _concurrency(all_of: Sequence[Template]) -> Values:
    arguments = find(all_of, f"Deployment/extproc:spec.template.spec.{ENVOY}.args").value
    assert isinstance(arguments, Seq)
    words = [each.value if isinstance(each, Item) else None for each in arguments.items]
    there = arguments.items[words.index("--concurrency") + 1]
    assert isinstance(there, Item)
    said = int(str(there.value))
    there.value = Hole(".Values.envoy.concurrency | int | quote")
    return {"envoy.concurrency": said}


def _egress(all_of: Sequence[Template]) -> Values:
    """The first rule is that of the cluster's DNS; the others are those of backends, and then of components."""
    there = find(all_of, "NetworkPolicy/extproc:spec.egress").value
    assert isinstance(there, Seq)
    dns, *backends = [each for each in there.items if isinstance(each, Item) and each.when is None]
    components = [each for each in there.items if isinstance(each, Item) and each.when is not None]
    assert "kube-dns" in str(plain(dns.value))
    further = [each for each in there.items if isinstance(each, Further)]
    there.items = [dns, Further("networkPolicy.backends"), *components, *further]
    return {"networkPolicy.backends": [plain(each.value) for each in backends]}


def overlays() -> Mapping[str, Mapping[str, Plain]]:
    """The values by which the chart is one of the overlays of deploy/k8s, as `ci/NAME-values.yaml` has them."""
    characters = rendered(K8S / "overlays/characters")
    (files,) = [
        each["data"] for each in of_kind(characters, "ConfigMap") if each["metadata"]["name"] == "extproc-characters"
    ]
    return {
        "characters": {"runner": {"enabled": True, "characters": files}},
        "monitoring": {"monitoring": {"enabled": True}, "dashboards": {"enabled": True}},
        "rate-limit": {
            "config": _besides(K8S / "overlays/rate-limit", "rate_limit_service"),
            "rateLimit": {"enabled": True, "limits": LIMITS.read_text(encoding="utf-8")},
        },
        "tls": {"tls": {"enabled": True}},
    }


def _besides(overlay: Path, told: str) -> Plain:
    """The settings of an overlay that the base has otherwise, without the one that the chart itself says."""
    base, own = (yaml.safe_load(settings(rendered(folder))) for folder in (BASE, overlay))
    assert base.keys() <= own.keys()
    return {name: value for name, value in own.items() if value != base.get(name) and name != told}

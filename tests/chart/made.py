"""The chart's templates, of what kustomize makes of the base and of its components, with the values in their places."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import yaml

from tests.chart.merge import templates
from tests.chart.places import find, of
from tests.chart.tree import Block, Entry, Further, Hole, Item, Map, Plain, Seq, Template, plain
from tests.chart.values import ENVOY, PROCESSOR, RUNNER, VALUES, Use, Value
from tests.k8s.rendered import BASE, K8S, Object, of_kind, render, rendered

PARTS = {
    ".Values.tls.enabled": "tls",
    ".Values.runner.enabled": "runner",
    ".Values.monitoring.enabled": "monitoring",
    ".Values.dashboards.enabled": "dashboards",
}
"""The components of deploy/k8s that the chart has, by what switches each on."""

Values = dict[str, Plain]
"""By their paths."""


@cache
def with_components(*names: str) -> tuple[Object, ...]:
    """What kustomize makes of the base with these components."""
    with tempfile.TemporaryDirectory(prefix="chart") as folder:
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(BASE, folder)],
            "components": [os.path.relpath(K8S / "components" / name, folder) for name in names],
        }
        Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
        return render(Path(folder))


def made() -> tuple[list[Template], Values]:
    """The templates, and the values' defaults."""
    all_of = templates(rendered(BASE), {when: with_components(name) for when, name in PARTS.items()})
    defaults = {each.path: _default(each, all_of) for each in VALUES if each.use is not Use.BY_HAND}
    defaults |= {each.path: each.default for each in VALUES if each.use is Use.BY_HAND and each.default is not None}
    for each in VALUES:
        _place(each, all_of)
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
    return _image("image", all_of, [PROCESSOR, RUNNER]) | _image("envoy.image", all_of, [ENVOY])


def _image(path: str, all_of: Sequence[Template], containers: Iterable[str]) -> Values:
    images = [find(all_of, f"Deployment/extproc:spec.template.spec.{each}.image") for each in containers]
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
    """The first rule is that of the cluster's DNS, the others are those of backends."""
    there = find(all_of, "NetworkPolicy/extproc:spec.egress").value
    assert isinstance(there, Seq)
    dns, *backends = [each for each in there.items if isinstance(each, Item)]
    assert "kube-dns" in str(plain(dns.value))
    further = [each for each in there.items if isinstance(each, Further)]
    there.items = [dns, Further("networkPolicy.backends"), *further]
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
        "tls": {"tls": {"enabled": True}},
    }

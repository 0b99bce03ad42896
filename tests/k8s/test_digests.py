"""`deploy/k8s/digests.sh` lets a release's manifests pass only if each image is named by its digest."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from tests.k8s.rendered import BASE, EVERYTHING, K8S, named, pods, render, rendered

DIGEST = f"sha256:{'0123456789abcdef' * 4}"


def check(objects: Iterable[object]) -> subprocess.CompletedProcess[str]:
    manifests = yaml.safe_dump_all(objects, sort_keys=False)
    return subprocess.run([K8S / "digests.sh"], input=manifests, capture_output=True, text=True, check=False)


def images(folder: Path) -> set[str]:
    specs = [pod.spec for pod in pods(rendered(folder))]
    return {each["image"] for spec in specs for each in [*spec["containers"], *spec.get("initContainers", [])]}


@pytest.mark.parametrize("folder", EVERYTHING, ids=named)
def test_every_image_with_a_tag_is_named(folder: Path) -> None:
    done = check(rendered(folder))
    assert done.returncode == 1
    assert set(done.stdout.split()) == images(folder) or not images(folder)


def test_digests_pass_when_all_images_have_one(tmp_path: Path) -> None:
    names = [image.partition(":")[0] for image in sorted(images(BASE))]
    assert check(_with_digests(tmp_path, names)).returncode == 0
    done = check(_with_digests(tmp_path, names[:1]))
    assert done.returncode == 1
    assert names[0] not in done.stdout


@pytest.mark.parametrize("image", ["a:1", "a", f"a:1@{DIGEST[:-1]}", f"a@{DIGEST.upper()}", "a@sha512:0"])
def test_what_isnt_a_digest_is_refused(image: str) -> None:
    done = check([{"containers": [{"image": f"b@{DIGEST}", "name": "b"}, {"name": "a", "image": image}]}])
    assert (done.returncode, done.stdout) == (1, f"{image}\n")


def test_no_image_is_no_pass() -> None:
    assert check([{"kind": "Namespace"}]).returncode == 1


def _with_digests(folder: Path, names: list[str]) -> tuple[dict[str, object], ...]:
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(BASE, folder)],
        "images": [{"name": name, "digest": DIGEST} for name in names],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return render(folder)

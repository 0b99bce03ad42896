"""An image out of its archive, and containers of it, run by runc as the kubelet has them run.

What the manifests say of a container's user, its capabilities, privileges, root file system, command, environment,
mounts and limit of memory is so. Not there: the seccomp profile, which is containerd's, and the requests of CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.k8s.rendered import Object

_DEVICES = ["noexec", "nosuid"]


def digest(archive: Path) -> str:
    """Of the image's manifest: what a registry knows it by."""
    with tarfile.open(archive) as files:
        (manifest,) = _json(files, "index.json")["manifests"]
    return str(manifest["digest"])


def unpack(archive: Path, root: Path) -> Object:
    """Lay out an image's root file system, as root; returns its configuration."""
    for content in layers(archive):
        content.extractall(root, numeric_owner=True, filter="fully_trusted")
    with tarfile.open(archive) as files:
        manifest = _json(files, _blob(digest(archive)))
        configuration: Object = _json(files, _blob(manifest["config"]["digest"]))["config"]
    return configuration


def layers(archive: Path) -> Iterator[tarfile.TarFile]:
    """An image's layers, each over those before; none takes anything away."""
    with tarfile.open(archive) as files:
        for layer in _json(files, _blob(digest(archive)))["layers"]:
            packed = files.extractfile(_blob(layer["digest"]))
            with tarfile.open(fileobj=packed, mode="r:gz") as content:
                names = content.getnames()
                assert not any(Path(name).name.startswith(".wh.") for name in names), "a layer takes something away"
                yield content


def _json(files: tarfile.TarFile, name: str) -> Any:
    packed = files.extractfile(name)
    assert packed is not None, name
    return json.loads(packed.read())


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


class OciContainer:
    """One container of a pod, in the network of whoever starts it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._bundle = folder / name
        self._state = folder / "runc"
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self, pod: Object, spec: Object, environment: Sequence[str], root: Path, mounts: Mapping[str, Path]
    ) -> None:
        """`mounts` has the directories of the machine for the container's mount paths, and files besides."""
        self._bundle.mkdir()
        told = json.dumps(bundle(pod, spec, environment, root, mounts))
        (self._bundle / "config.json").write_text(told, encoding="utf-8")
        with (self._bundle / "log").open("wb") as log:
            words = [*self._runc(), "run", "--bundle", str(self._bundle), self._id]
            self._process = subprocess.Popen(words, stdout=log, stderr=log)

    @property
    def log(self) -> str:
        return (self._bundle / "log").read_text(encoding="utf-8")

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def status(self) -> Mapping[str, str]:
        """What the kernel says of its first process."""
        state = json.loads(subprocess.run([*self._runc(), "state", self._id], capture_output=True, check=True).stdout)
        lines = Path(f"/proc/{state['pid']}/status").read_text(encoding="utf-8").splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def run(self, *command: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        """Something else in it: an exec probe, a hook."""
        words = [*self._runc(), "exec", self._id, *command]
        return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)

    def stop(self, grace: float) -> int:
        """SIGTERM; its exit status."""
        assert self._process is not None, "it was never started"
        subprocess.run([*self._runc(), "kill", self._id, "TERM"], check=True)
        return self._process.wait(grace)

    def kill(self) -> None:
        """End it now, if it runs."""
        if self.running:
            subprocess.run([*self._runc(), "kill", self._id, "KILL"], check=False)
            assert self._process is not None
            self._process.wait()

    @property
    def _id(self) -> str:
        return f"{self.name}-{os.getpid()}"

    def _runc(self) -> list[str]:
        return ["runc", "--root", str(self._state)]


def bundle(pod: Object, spec: Object, environment: Sequence[str], root: Path, mounts: Mapping[str, Path]) -> Object:
    """What a runtime is told, by the OCI runtime specification."""
    user, confined = pod["securityContext"], spec["securityContext"]
    assert confined["capabilities"] == {"drop": ["ALL"]}
    said = {each["mountPath"]: each for each in spec["volumeMounts"]}
    binds = [
        {
            "destination": path,
            "type": "bind",
            "source": str(source),
            "options": ["rbind", "rw" if path in said and not said[path].get("readOnly") else "ro"],
        }
        for path, source in mounts.items()
    ]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": user["runAsUser"], "gid": user["runAsGroup"]},
            "args": [*spec["command"], *spec["args"]],
            "env": [*environment, *(f"{each['name']}={each['value']}" for each in spec.get("env", ()))],
            "cwd": "/",
            "capabilities": {},
            "noNewPrivileges": not confined["allowPrivilegeEscalation"],
        },
        "root": {"path": str(root), "readonly": confined["readOnlyRootFilesystem"]},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": [*_DEVICES, "mode=1777"]},
            *binds,
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
            "resources": {"memory": {"limit": _bytes(spec["resources"]["limits"]["memory"])}},
        },
    }


def _bytes(quantity: str) -> int:
    return int(quantity[:-2]) * {"Mi": 2**20, "Gi": 2**30}[quantity[-2:]]

"""Where a pod runs when its containers have no file system and no network of their own.

Everything is as the manifests have it but for what two pods on one machine, or a pod and its machine, can't share:

    paths       a volume's mount path in commands, arguments and files becomes the directory that holds the volume:
                there is one /run/extproc for all processes here
    ports       each port of the pod, and that of Envoy's admin interface, becomes a free one of 127.0.0.1, where the
                manifests say 127.0.0.1 or 0.0.0.0: a pod has addresses of its own, a process here has the machine's
    names       a backend's address becomes that of a server which the test runs: there is no DNS of a cluster
    secrets     what a test puts into them; one that is optional and isn't given is an empty directory

Not there at all: images (the commands are those of this environment, found by PATH), limits of resources, users, the
read-only root, and that of a read-only mount.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from tests.gateway import free_port
from tests.pods.manifests import Manifests

_OWN_ADDRESS = re.compile(r"(?:0\.0\.0\.0|127\.0\.0\.1)(:|\s+port_value: )(\d+)")
"""As arguments and settings write it, and as Envoy's bootstrap does."""

Secrets: TypeAlias = Mapping[str, Mapping[str, str]]
"""File names and their texts, by Secret."""


class Sandbox:
    """The volumes of one pod, and where things are that the manifests have elsewhere."""

    def __init__(self, manifests: Manifests, folder: Path, names: Mapping[str, str], secrets: Secrets) -> None:
        """`names` are the addresses (`host:port`) of the cluster, and what stands in for them."""
        self._folder = folder
        self._names = names
        self._secrets = secrets
        self._ports: dict[str, int] = {}
        self._config_maps = manifests.config_maps
        self._pod = manifests.pod
        containers = (*self._pod["initContainers"], *self._pod["containers"])
        # A path is the same volume in both containers, and settings of the one name files of the other.
        self._mounts = {mount["mountPath"]: mount["name"] for each in containers for mount in each["volumeMounts"]}

    def port(self, port: int | str) -> int:
        """Where one of the pod's ports is."""
        return self._ports.setdefault(str(port), free_port())

    def text(self, text: str) -> str:
        """What a container has written somewhere, as it has to be here."""
        for path, volume in self._mounts.items():
            text = text.replace(path, str(self.volume(volume)))
        text = _OWN_ADDRESS.sub(lambda own: f"127.0.0.1{own[1]}{self.port(own[2])}", text)
        for name, address in self._names.items():
            text = text.replace(name, address)
        return text

    def volume(self, name: str) -> Path:
        return self._folder / name

    def lay_out(self) -> None:
        """Make the volumes, with what is in them before any container starts."""
        for volume in self._pod["volumes"]:
            self.volume(volume["name"]).mkdir()
            match volume:
                case {"configMap": {"name": name}}:
                    self.put(volume["name"], self._config_maps[name])
                case {"secret": {"secretName": name}} if name in self._secrets:
                    self.put(volume["name"], self._secrets[name])
                case {"emptyDir": _} | {"secret": {"optional": True}}:
                    pass
                case _:
                    raise NotImplementedError(f"a volume such as {volume}")

    def put(self, volume: str, files: Mapping[str, str]) -> None:
        """Fill a ConfigMap's or a Secret's volume, for the first time or with other texts.

        As the kubelet does: the files are links into `..data`, itself a link, which is swapped at once.
        """
        directory = self.volume(volume)
        data = Path(tempfile.mkdtemp(prefix="..", dir=directory))
        for name, text in files.items():
            (data / name).write_text(self.text(text), encoding="utf-8")
            if not (directory / name).is_symlink():
                (directory / name).symlink_to(Path("..data") / name)
        (directory / "..new").symlink_to(data.name)
        (directory / "..new").replace(directory / "..data")

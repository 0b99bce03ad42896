"""Files of an image, read out of its OCI archive, which isn't unpacked."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.pods.oci import layers


@dataclass(slots=True)
class Contents:
    """Some of an image's files, by their paths from its root; and all of its links, by where they lead."""

    files: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, archive: Path, wanted: Callable[[str], bool]) -> Contents:
        """Those whose paths are wanted. What a later layer has is in the place of what an earlier one has."""
        made = cls()
        for layer in layers(archive):
            for each in layer:
                path = each.name.removeprefix("./").strip("/")
                made._put(path, each, layer, wanted(path))
        return made

    def _put(self, path: str, each: tarfile.TarInfo, layer: tarfile.TarFile, wanted: bool) -> None:
        if each.issym():
            self.links[path] = posixpath.join("/", posixpath.dirname(path), each.linkname)[1:]
        elif each.islnk():
            self.links[path] = each.linkname.removeprefix("./").strip("/")
        elif each.isfile() and wanted:
            content = layer.extractfile(each)
            assert content is not None
            self.files[path] = content.read()

    def text(self, path: str) -> str:
        """What is there, or where links lead. Raises KeyError."""
        return self.files[self._followed(path)].decode("utf-8")

    def below(self, folder: str) -> Iterator[str]:
        """The paths of files in this directory, and below it."""
        return (path for path in sorted(self.files) if path.startswith(f"{folder}/"))

    def _followed(self, path: str) -> str:
        for _ in range(40):  # as many as Linux follows
            for end in (*(place for place, sign in enumerate(path) if sign == "/"), len(path)):
                if (target := self.links.get(path[:end])) is not None:
                    path = posixpath.normpath(target + path[end:])
                    break
            else:
                return path
        raise KeyError(path)

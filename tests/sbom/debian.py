"""Debian's packages of an image, as `deploy/image.sh` leaves them there: /var/lib/dpkg/status.d, and /usr/share/doc.

A licence is what the package's copyright file says, where that is machine-readable (Debian's copyright format 1.0): the
short names of all files of its source, of which not each is in the package. Where it isn't, nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from tests.sbom.contents import Contents

STATUS = "var/lib/dpkg/status.d"
DOC = "usr/share/doc"

_FORMAT = re.compile(r"\AFormat(?:-Specification)?:\s*\S", re.IGNORECASE)
_LICENCE = re.compile(r"^License:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_GNU = re.compile(r"(L?GPL)-([1-3])(?:\.([01]))?(\+?)")
_GNU_VERSIONS = {"GPL-1.0", "GPL-2.0", "GPL-3.0", "LGPL-2.0", "LGPL-2.1", "LGPL-3.0"}
_SPDX = {
    "apache-2.0": "Apache-2.0",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "bsd-4-clause": "BSD-4-Clause",
    "expat": "MIT",
    "isc": "ISC",
    "mpl-1.1": "MPL-1.1",
    "mpl-2.0": "MPL-2.0",
    "zlib": "Zlib",
}
"""Short names that the format itself defines, in lower case. Others, `MIT` among them, may mean any of several."""


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    version: str
    architecture: str
    licences: tuple[str, ...] | None
    """Short names, in order; None where the copyright file isn't machine-readable."""

    @property
    def copyright_file(self) -> str:
        return f"/{DOC}/{self.name}/copyright"


def wanted(path: str) -> bool:
    """Whether a file of an image tells of Debian's packages."""
    return path.startswith(f"{STATUS}/") or (path.startswith(f"{DOC}/") and path.endswith("/copyright"))


def packages(contents: Contents) -> Iterator[Package]:
    """All of them, by name. Raises KeyError for one without a copyright file."""
    for path in contents.below(STATUS):
        fields = dict(re.findall(r"^(Package|Version|Architecture): (.+)$", contents.text(path), re.MULTILINE))
        name = PurePosixPath(path).name
        assert fields["Package"] == name, path
        text = contents.text(f"{DOC}/{name}/copyright")
        yield Package(name, fields["Version"], fields["Architecture"], short_names(text))


def short_names(text: str) -> tuple[str, ...] | None:
    """Those that the paragraphs about files say, and the one about the whole. None unless it is machine-readable."""
    if not _FORMAT.match(text.lstrip()):
        return None
    paragraphs = re.split(r"\n[ \t]*\n", text.strip())
    told = [each for number, each in enumerate(paragraphs) if number == 0 or re.search(r"(?mi)^Files:", each)]
    return tuple(sorted({name for each in told for name in _LICENCE.findall(each)}))


def spdx(name: str) -> str | None:
    """The SPDX identifier of a short name; None where it has none for sure."""
    if (found := _GNU.fullmatch(name)) is not None:
        family, major, minor, later = found.groups()
        version = f"{family}-{major}.{minor or 0}"
        return f"{version}-{'or-later' if later else 'only'}" if version in _GNU_VERSIONS else None
    return _SPDX.get(name.lower())

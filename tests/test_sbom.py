"""What an image's SBOM has of Debian's packages, and of licences, on an archive as small as can be."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

from tests.sbom.bom import OtherImageError, of_image, with_licences
from tests.sbom.debian import short_names, spdx

COPYRIGHT = """\
Format: copyright-format/1.0/
Upstream-Name: a
License: GPL-2+

Files: *
Copyright: 2020 Somebody
License: Expat or GPL-3

Files: m4/*
Copyright: 2020 Somebody
License:
 All of it may be used.

License: Artistic
 Only a text, which no file is under.
"""
METADATA = "opt/extproc/lib/python3.11/site-packages/some_thing-1.0.dist-info/METADATA"
FILES = {
    "usr/lib/os-release": 'NAME="Debian GNU/Linux"\nVERSION_ID="12"\nID=debian\n',
    "var/lib/dpkg/status.d/a": "Package: a\nVersion: 1:2.0+b1\nArchitecture: amd64\nDescription: a\n Version: 9\n",
    "var/lib/dpkg/status.d/b": "Package: b\nVersion: 3~1\nArchitecture: all\n",
    "usr/share/doc/a/copyright": COPYRIGHT,
    "usr/share/doc/c/copyright": "This is b, in its own words.\n",
    METADATA: "Metadata-Version: 2.4\nName: some.thing\nVersion: 1.0\n\nVersion: 7\n",
}
PYTHON: dict[str, Any] = {
    "metadata": {"component": {"name": "extproc"}},
    "components": [{"name": "some-thing", "version": "1.0", "licenses": [{"license": {"id": "MIT"}}]}],
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two layers, and a link to a directory in the place of one of documents, as Debian has them."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes) -> dict[str, str]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}"}

    first, second = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=first, mode="w:gz") as layer:
        for path, text in {**FILES, METADATA: "Name: some.thing\nVersion: 0.9\n"}.items():
            put(layer, f"./{path}", text.encode())
        link = tarfile.TarInfo("./usr/share/doc/b")
        link.type, link.linkname = tarfile.SYMTYPE, "c"
        layer.addfile(link)
    with tarfile.open(fileobj=second, mode="w:gz") as layer:
        put(layer, METADATA, FILES[METADATA].encode())
    manifest = blob(json.dumps({"layers": [blob(each.getvalue()) for each in (first, second)]}).encode())
    with tarfile.open(tmp_path / "it.oci.tar", "w") as files:
        for name, content in {**blobs, "index.json": json.dumps({"manifests": [manifest]}).encode()}.items():
            put(files, name, content)
    return tmp_path / "it.oci.tar"


def put(files: tarfile.TarFile, name: str, content: bytes) -> None:
    each = tarfile.TarInfo(name)
    each.size = len(content)
    files.addfile(each, io.BytesIO(content))


def test_debians_packages_are_there_with_their_licences(archive: Path) -> None:
    python, system, a, b = of_image(PYTHON, archive)["components"]
    assert python == PYTHON["components"][0]
    assert (system["type"], system["name"], system["version"]) == ("operating-system", "debian", "12")
    assert a["purl"] == a["bom-ref"] == "pkg:deb/debian/a@1:2.0%2Bb1?arch=amd64&distro=debian-12"
    assert (a["name"], a["version"]) == ("a", "1:2.0+b1")
    assert [each["license"].get("id", each["license"].get("name")) for each in a["licenses"]] == [
        "Expat or GPL-3",
        "GPL-2.0-or-later",
    ]
    assert b["purl"] == "pkg:deb/debian/b@3~1?arch=all&distro=debian-12"
    assert [each["license"]["name"] for each in b["licenses"]] == ["see /usr/share/doc/b/copyright in the image"]


def test_an_image_of_other_python_packages_is_refused(archive: Path) -> None:
    other = {**PYTHON, "components": [{**PYTHON["components"][0], "version": "1.1"}]}
    with pytest.raises(OtherImageError, match="some-thing"):
        of_image(other, archive)
    with pytest.raises(OtherImageError, match="some-thing"):
        of_image({**PYTHON, "components": []}, archive)


@pytest.mark.parametrize("text", ["", "Some words.\nLicense: GPL-2\n", "License: GPL-2\n"])
def test_nothing_is_guessed_of_a_file_that_isnt_machine_readable(text: str) -> None:
    assert short_names(text) is None


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("GPL-2", "GPL-2.0-only"),
        ("GPL-3.0", "GPL-3.0-only"),
        ("LGPL-2.1+", "LGPL-2.1-or-later"),
        ("BSD-3-clause", "BSD-3-Clause"),
        ("Expat", "MIT"),
        ("MIT", None),
        ("GPL", None),
        ("GPL-2.1", None),
        ("GPL-2+ with Texinfo exception", None),
        ("Artistic or GPL-1+", None),
    ],
)
def test_only_a_name_that_means_one_licence_has_its_identifier(name: str, identifier: str | None) -> None:
    assert spdx(name) == identifier


def test_a_python_package_without_a_licence_has_that_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "METADATA").write_text("Metadata-Version: 2.1\nName: protobuf\nLicense: 3-Clause BSD License\n")
    known, unknown = {"name": "a", "licenses": [{"expression": "MIT OR ISC"}]}, {"name": "Proto_Buf"}
    made = with_licences({"components": [known, unknown]}, {"proto-buf": Distribution.at(tmp_path)})
    concluded = {"license": {"id": "BSD-3-Clause", "acknowledgement": "concluded"}}
    assert made["components"] == [known, {**unknown, "licenses": [concluded]}]

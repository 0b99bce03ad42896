"""SBOMs, as CycloneDX 1.6 has them: https://cyclonedx.org/docs/1.6/json/."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from email.parser import HeaderParser
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from packaging.utils import canonicalize_name

from tests.generate_licence_docs import licence
from tests.sbom import debian
from tests.sbom.contents import Contents

Object: TypeAlias = dict[str, Any]

_METADATA = re.compile(r"opt/extproc/lib/python3[^/]*/site-packages/[^/]+\.dist-info/METADATA")
_SYSTEM = "usr/lib/os-release"


class OtherImageError(Exception):
    """The image has other Python packages than the SBOM."""


def with_licences(bom: Object, packages: Mapping[str, Distribution]) -> Object:
    """The same; Python packages whose licence it doesn't know have that of docs/licences.md."""
    components = [
        each
        if each.get("licenses")
        else {**each, "licenses": [_concluded(licence(packages[canonicalize_name(each["name"])]))]}
        for each in bom["components"]
    ]
    return {**bom, "components": components}


def _concluded(expression: str) -> Object:
    said = {"acknowledgement": "concluded"}
    return {"expression": expression, **said} if " " in expression else {"license": {"id": expression, **said}}


def of_image(bom: Object, archive: Path) -> Object:
    """The SBOM of an image, of that of its Python packages. Raises OtherImageError."""
    contents = Contents.of(
        archive, lambda path: debian.wanted(path) or path == _SYSTEM or _METADATA.fullmatch(path) is not None
    )
    told = {canonicalize_name(each["name"]): each["version"] for each in bom["components"]}
    own = canonicalize_name(bom["metadata"]["component"]["name"])
    there = {name: version for name, version in _python(contents).items() if name != own}
    if differing := {name for name, _ in told.items() ^ there.items()}:
        raise OtherImageError(f"other versions in the image, or none: {', '.join(sorted(differing))}")
    system = _system(contents)
    distribution = f"{system['ID']}-{system['VERSION_ID']}"
    base: Object = {
        "bom-ref": distribution,
        "name": system["ID"],
        "type": "operating-system",
        "version": system["VERSION_ID"],
    }
    installed = [_component(each, system["ID"], distribution) for each in debian.packages(contents)]
    return {**bom, "components": [*bom["components"], base, *installed]}


def _python(contents: Contents) -> dict[str, str]:
    parsed = [HeaderParser().parsestr(contents.text(path)) for path in contents.files if _METADATA.fullmatch(path)]
    return {canonicalize_name(each["Name"]): each["Version"] for each in parsed}


def _system(contents: Contents) -> Mapping[str, str]:
    lines = contents.text(_SYSTEM).splitlines()
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}


def _component(package: debian.Package, vendor: str, distribution: str) -> Object:
    version = quote(package.version, safe=":~.-_")
    url = f"pkg:deb/{vendor}/{quote(package.name)}@{version}?arch={package.architecture}&distro={distribution}"
    return {
        "bom-ref": url,
        "licenses": [*map(_declared, package.licences or [f"see {package.copyright_file} in the image"])],
        "name": package.name,
        "purl": url,
        "type": "library",
        "version": package.version,
    }


def _declared(name: str) -> Object:
    known = debian.spdx(name)
    return {"license": {"acknowledgement": "declared", **({"id": known} if known else {"name": name})}}


def written(bom: Object) -> str:
    return json.dumps(bom, indent=2, sort_keys=True, ensure_ascii=False) + "\n"

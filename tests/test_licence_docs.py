"""docs/licences.md names the licence of everything that is installed; one that isn't known to be fine is refused."""

from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path

import pytest

from tests.generate_licence_docs import OF_THEIR_OWN, UnknownLicenceError, licence, licences, told
from tests.pinned import SETS, found, needed


def test_the_page_names_what_the_image_has() -> None:
    packages = found()
    assert told("image") == licences({name: packages[name] for name in needed("image")})


def test_the_page_names_what_development_has() -> None:
    assert told("dev") == licences({name: each for name, each in found().items() if name not in needed("image")})


@pytest.mark.parametrize("which", OF_THEIR_OWN)
def test_the_page_names_what_is_pinned_for_other_environments(which: str) -> None:
    assert told(which).keys() == needed(which).keys()


def test_no_set_is_left_out() -> None:
    everywhere = told("image").keys() | told("dev").keys()
    assert {*OF_THEIR_OWN, "image", "dev"} | {"build", "scripted"} == {*SETS}
    assert needed("build").keys() | needed("scripted").keys() <= everywhere


def package(folder: Path, metadata: str) -> Distribution:
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: it\nVersion: 1\n{metadata}")
    return Distribution.at(folder)


@pytest.mark.parametrize(
    ("metadata", "expression"),
    [
        ("License-Expression: mit or apache-2.0\nLicense: other\n", "MIT OR Apache-2.0"),
        ("License: BSD-3-Clause\nClassifier: License :: OSI Approved :: BSD License\n", "BSD-3-Clause"),
        ("License: MIT License\n        \n        Copyright\n", "MIT"),
        ("Classifier: License :: OSI Approved :: Apache Software License\n", "Apache-2.0"),
    ],
)
def test_a_licence_has_an_identifier(metadata: str, expression: str, tmp_path: Path) -> None:
    assert licence(package(tmp_path, metadata)) == expression


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "License: UNKNOWN\n",
        "License: see the file\n",
        "License-Expression: AGPL-3.0-only\nClassifier: License :: OSI Approved :: MIT License\n",
        "License-Expression: MIT AND LicenseRef-Ours\n",
        "License-Expression: GPL-2.0-only WITH Classpath-exception-2.0\n",
        "Classifier: License :: OSI Approved :: BSD License\n",
        "Classifier: License :: OSI Approved :: MIT License\nClassifier: License :: OSI Approved :: BSD License\n",
    ],
)
def test_an_unknown_licence_is_refused(metadata: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownLicenceError, match=r"^it (is under|says no licence) "):
        licence(package(tmp_path, metadata))

"""Whatever is installed is pinned by version and hash, and what is pinned is what is installed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.pinned import REQUIREMENTS, ROOT, SETS, found, needed, pins

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SCRIPTED: dict[str, Any] = tomllib.loads((ROOT / "scripted_vllm/pyproject.toml").read_text(encoding="utf-8"))

each_set = pytest.mark.parametrize("which", SETS)


@each_set
def test_every_package_has_one_version_and_hashes(which: str) -> None:
    assert pins(which)
    for pin in pins(which).values():
        assert re.fullmatch(r"==[\w.]+", str(pin.requirement.specifier))
        assert pin.requirement.url is None
        assert pin.hashes
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", each) for each in pin.hashes)


@each_set
def test_where_packages_come_from_is_the_installers_business(which: str) -> None:
    text = (REQUIREMENTS / f"{which}.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert set(re.findall(r"--[a-z-]+", text)) == {"--hash"}


@pytest.mark.parametrize("image", ["image", "scripted"])
def test_an_image_has_what_the_tests_have(image: str) -> None:
    tested = pins("dev")
    assert {name: (tested[name].requirement.specifier, tested[name].hashes) for name in pins(image)} == {
        name: (pin.requirement.specifier, pin.hashes) for name, pin in pins(image).items()
    }


def test_the_build_backend_is_pinned() -> None:
    requires = [Requirement(each) for each in PROJECT["build-system"]["requires"]]
    assert [str(each) for each in requires] == [str(pin.requirement) for pin in pins("build").values()]
    assert pins("build").items() <= pins("dev").items()
    assert SCRIPTED["build-system"] == PROJECT["build-system"]


def test_nothing_else_is_installed() -> None:
    versions = {name: distribution.version for name, distribution in found().items()}
    assert versions == needed("dev"), "`make clean` and start again"


@pytest.mark.parametrize(
    ("which", "extras"),
    [("image", ("otel", "runner")), ("dev", ("dev", "completion", "envoy", "otel", "runner", "tui"))],
)
def test_what_depends_on_nothing_isnt_pinned(which: str, extras: tuple[str, ...]) -> None:
    declared = list(PROJECT["project"]["dependencies"])
    for extra in extras:
        declared += PROJECT["project"]["optional-dependencies"][extra]
    if which == "dev":
        declared += SCRIPTED["project"]["dependencies"] + PROJECT["build-system"]["requires"]
    assert _closure(declared) == needed(which).keys(), "`make requirements` pins the dependencies of pyproject.toml"


def test_the_scripted_vllm_needs_what_is_pinned_for_its_image() -> None:
    assert _closure(SCRIPTED["project"]["dependencies"]) == needed("scripted").keys(), "`make requirements`"


@pytest.mark.parametrize("file", ["Makefile", "deploy/Dockerfile", "deploy/scripted-vllm.Dockerfile"])
def test_every_installation_asks_for_hashes(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8").replace("\\\n", " ")
    text = text.replace("$(INSTALL)", "install --require-hashes --only-binary :all:")
    commands = re.findall(r"^(?!#).*(?:pip\b|\$\(PIP\)).* (?:install|wheel) .*", text, re.MULTILINE)
    assert len(commands) > 3
    for command in commands:
        by_hash = "--require-hashes --only-binary :all:" in command
        ours = "--no-index" in command and "--no-deps" in command  # the project itself, with what is installed already
        assert by_hash or ours, command


def _closure(declared: Iterable[str]) -> set[str]:
    """The canonical names of what these need, and what that needs, as the installed packages say."""
    names: set[str] = set()
    left = [(Requirement(each), "") for each in declared]
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        requirement, extra = left.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if name == "extproc" or (name, extras) in seen:
            continue
        seen.add((name, extras))
        names.add(name)
        for each in distribution(name).requires or []:
            left += [(Requirement(each), extra) for extra in ("", *extras)]
    return names

"""requirements/, read: which packages are pinned for what, at which version, with which hashes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
REQUIREMENTS = ROOT / "requirements"
OURS = ("extproc", "extproc-scripted-vllm")
SETS = ("browser", "build", "chart", "dev", "image", "scripted", "site", "tools")


@dataclass(frozen=True, slots=True)
class Pin:
    requirement: Requirement
    hashes: frozenset[str]

    @property
    def applies(self) -> bool:
        """Whether this system and this Python need it."""
        return self.requirement.marker is None or self.requirement.marker.evaluate()


def pins(which: str) -> dict[str, Pin]:
    """One of SETS, by canonical name."""
    text = (REQUIREMENTS / f"{which}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(pin.requirement.name): pin for pin in map(_pin, lines)}


def needed(which: str) -> dict[str, str]:
    """The versions of those that this system needs, by canonical name."""
    return {name: str(pin.requirement.specifier)[2:] for name, pin in pins(which).items() if pin.applies}


def found(packages: Path | None = None) -> dict[str, Distribution]:
    """What is installed in a directory `site-packages`, by default that of the tests, besides pip and ours."""
    there: Iterable[Distribution] = distributions() if packages is None else distributions(path=[str(packages)])
    named = {canonicalize_name(distribution.name): distribution for distribution in there}
    return {name: distribution for name, distribution in named.items() if name not in {*OURS, "pip"}}


def _pin(line: str) -> Pin:
    requirement, *hashes = re.split(r"\s+--hash=", line.strip())
    return Pin(Requirement(requirement), frozenset(hashes))

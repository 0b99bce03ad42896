"""Virtual environments with exactly what a file of pinned versions lists, in the cache directory."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.real_vllm.cache import built_once, is_complete, require_space, root
from tests.real_vllm.environment import PIP_OPTIONS, run, step


def made(pins: Path, python: str = sys.executable, beside: Path | None = None) -> Path:
    """Where the virtual environment for `pins` is, or would be."""
    version = subprocess.run([python, "-VV"], capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256(f"{pins.read_text()}{version}{beside or ''}".encode()).hexdigest()[:8]
    return root() / "bench" / f"{pins.stem}-{digest}"


def environment(pins: Path, gigabytes: float, python: str = sys.executable, beside: Path | None = None) -> Path:
    """The `bin` of a virtual environment of `python` with exactly what `pins` lists. Raises SetupError.

    With `beside`, another environment's `bin`, what is installed there can be imported as well.
    """
    directory = made(pins, python, beside)
    if not is_complete(directory):
        require_space(root(), gigabytes)
        with built_once(directory), step(f"{pins.stem} from PyPI: up to a minute"):
            run(python, "-m", "venv", "--without-pip", str(directory))
            inside = str(directory / "bin" / "python")
            pip = (sys.executable, "-m", "pip", "--python", inside, "install", *PIP_OPTIONS)
            run(*pip, "--no-deps", "--only-binary", ":all:", "-r", str(pins))
            if beside is not None:
                (packages,) = directory.glob("lib/python*/site-packages")
                there = beside.parent / packages.relative_to(directory)
                (packages / "beside.pth").write_text(f"{there}\n")
    return directory / "bin"


def pinned(pins: Path, package: str) -> str:
    """The version of a package in such a file."""
    lines = pins.read_text().splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{package}=="))

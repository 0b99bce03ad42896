"""What is judged, and what it takes to start it.

Versions are pinned in requirements/; everything is installed into the cache directory, outside the checkout. Google's
callout SDK is on no registry: its files are read from a checkout that somebody has made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.environments import environment
from bench.gateways.processes import child
from extproc.conformance.recipe import Recipe, load
from tests.clients.setup import python_for
from tests.gateway import free_port
from tests.real_vllm.cache import SetupError, locked, root

_HERE = Path(__file__).parent
_GIGABYTES = 0.5
_GCP_FILES = (
    "extproc/service/callout_server.py",
    "extproc/service/callout_tools.py",
    "extproc/service/command_line_tools.py",
    "extproc/example/basic/service_callout_example.py",
)


@dataclass(frozen=True, slots=True)
class Judged:
    """One row of the table."""

    name: str
    title: str
    what: str
    """What of it runs."""
    requirements: str
    """The file in requirements/, and in launchers/ with `start_` before it."""
    arguments: tuple[str, ...] = ()
    recipe: str = ""
    """The file in recipes/; by default that of the requirements' name."""
    environment: tuple[tuple[str, str], ...] = ()
    oldest_python: tuple[int, int] = (3, 11)
    unix: bool = False
    """It listens on a socket of a directory, and not on a port."""
    checkout: bool = False

    @property
    def command(self) -> str:
        return f"python -m tests.judged {self.name}" + (" --checkout PATH" if self.checkout else "")

    def read_recipe(self) -> Recipe:
        return load(_HERE / "recipes" / f"{self.recipe or self.requirements}.yaml")

    def versions(self) -> dict[str, str]:
        lines = self._pins().read_text(encoding="utf-8").splitlines()
        return dict(line.split("==") for line in lines if "==" in line)

    def digests(self, checkout: Path | None) -> dict[str, str]:
        """SHA-256 of the files that were judged, where no version tells."""
        if not self.checkout or checkout is None:
            return {}
        return {name: hashlib.sha256((checkout / name).read_bytes()).hexdigest() for name in _GCP_FILES}

    def set_up(self) -> Path:
        """The environment's Python. Raises SetupError."""
        with locked(root()):
            return environment(self._pins(), _GIGABYTES, python_for(self.oldest_python)) / "python"

    @contextmanager
    def running(self, python: Path, folder: Path, checkout: Path | None) -> Iterator[str]:
        """Started: its target, which may not listen yet. What it says goes to `folder`."""
        address = f"{folder}/{self.name}.sock" if self.unix else f"127.0.0.1:{free_port()}"
        if self.checkout and checkout is None:
            raise SetupError("it needs --checkout: `callouts/python` of GoogleCloudPlatform/service-extensions")
        launcher = _HERE / "launchers" / f"start_{self.requirements}.py"
        path = str(checkout) if checkout else ""
        env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": path, **dict(self.environment)}
        command = (python, launcher, address, *self.arguments)
        with child(command, stderr=folder / f"{self.name}.log", env=env):
            yield f"unix:{address}" if self.unix else address

    def _pins(self) -> Path:
        return _HERE / "requirements" / f"{self.requirements}.txt"


_EXTPROC_SDK = "envoy-extproc-sdk"
_GCP = "Google's callout SDK"
SERVERS = {
    each.name: each
    for each in (
        Judged(
            "envoy-extproc-sdk",
            _EXTPROC_SDK,
            "its no-op service, and a handler that refuses with `form_immediate_response`",
            "envoy_extproc_sdk",
        ),
        Judged(
            "envoy-extproc-sdk-no-chain",
            _EXTPROC_SDK,
            "the same with `REVEAL_EXTPROC_CHAIN=false`",
            "envoy_extproc_sdk",
            environment=(("REVEAL_EXTPROC_CHAIN", "false"),),
        ),
        Judged(
            "gcp-callouts-basic",
            _GCP,
            "its sample `extproc.example.basic`",
            "gcp_callouts",
            ("basic",),
            recipe="gcp_callouts_basic",
            checkout=True,
        ),
        Judged(
            "gcp-callouts-one-handler",
            _GCP,
            "a server with `on_response_headers` alone, as its README begins",
            "gcp_callouts",
            ("one-handler",),
            checkout=True,
        ),
        Judged(
            "gcp-callouts-quiet",
            _GCP,
            "a server whose four handlers return an empty response",
            "gcp_callouts",
            ("quiet",),
            checkout=True,
        ),
        Judged(
            "glovebox-egress-gateway",
            "glovebox-egress-gateway",
            "its reply recorder, which its own Envoy uses in STREAMED/STREAMED",
            "glovebox",
            oldest_python=(3, 12),
            unix=True,
        ),
    )
}

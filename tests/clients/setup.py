"""Installs the clients that the tests run: `python -m tests.clients.setup [NAME ...]`.

The first time it downloads from npm and PyPI, takes some minutes and ends with 3.2 GB in the cache
directory, which is never inside the checkout and may be removed at any time. After that it only looks. Each client has
a directory of its own, so that a new version of one leaves the others alone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.clients.installed import CLIENTS, Client, clients_root
from tests.clients.node import Node
from tests.real_vllm.cache import SetupError, built_once, locked, require_space
from tests.real_vllm.environment import PIP_OPTIONS, run, step

_GIGABYTES = 5.0
_NPM = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--fetch-timeout=60000")


def main() -> int:
    """Install what is missing; returns the exit status, 1 if a client is missing that has to be there."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients.setup", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(CLIENTS)} (default: all)")
    names = parser.parse_args().names
    if unknown := [name for name in names if name not in CLIENTS]:
        parser.error(f"no client is called {', '.join(unknown)}")
    try:
        failed = set_up([CLIENTS[name] for name in names or CLIENTS])
    except SetupError as error:
        print(f"The clients can't be installed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; the next run goes on.", file=sys.stderr)
        return 130
    for client in failed:
        print(f"{'required' if client.required else 'left out'}: {client.name}: {client.why_not}", file=sys.stderr)
    return int(any(client.required for client in failed))


def set_up(clients: Sequence[Client]) -> list[Client]:
    """Install these unless they are there; returns those that couldn't be. Raises SetupError."""
    if not all(client.is_ready for client in clients):
        with locked(clients_root()):
            missing = [client for client in clients if not client.is_ready]
            print(f"Clients, in {clients_root()}:", flush=True)
            require_space(clients_root(), _GIGABYTES)
            for client in missing:
                _install(client)
    failed = [client for client in clients if not client.is_ready]
    print(f"{len(clients) - len(failed)} of {len(clients)} clients are ready in {clients_root()}", flush=True)
    return failed


def _install(client: Client) -> None:
    client.failure.unlink(missing_ok=True)
    try:
        node = None if client.python else Node.found_or_made()
        with built_once(client.directory), step(" ".join(client.packages)):
            if node is None:
                _install_from_pypi(client)
            else:
                _install_from_npm(client, node)
    except SetupError as error:
        client.failure.write_text(str(error))


def _install_from_pypi(client: Client) -> None:
    python = client.directory / "bin" / "python"
    run(python_for(client.oldest_python), "-m", "venv", "--without-pip", str(client.directory))
    run(sys.executable, "-m", "pip", "--python", str(python), "install", *PIP_OPTIONS, *client.packages)


def python_for(oldest: tuple[int, int]) -> str:
    """A Python that is new enough: ours, one of PATH, or one beside ours, where pyenv and uv have them."""
    if sys.version_info >= oldest:
        return sys.executable
    names = [f"python{oldest[0]}.{minor}" for minor in range(oldest[1], oldest[1] + 3)]
    beside = [str(found) for name in names for found in Path(sys.base_prefix).parent.glob(f"*/bin/{name}")]
    for candidate in (*filter(None, map(shutil.which, names)), *beside):
        # What pyenv has on PATH may do nothing but complain.
        if subprocess.run([candidate, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return candidate
    raise SetupError(f"it needs Python {oldest[0]}.{oldest[1]} or newer, and there is none on PATH")


def _install_from_npm(client: Client, node: Node) -> None:
    # Scripts of packages look for `node` on PATH.
    path = f"PATH={node.program.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    prefix = str(client.directory)
    run("/usr/bin/env", path, *node.npm, "install", *_NPM, "--save-exact", "--prefix", prefix, *client.packages)


if __name__ == "__main__":
    sys.exit(main())

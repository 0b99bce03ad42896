"""Runs the tests of a real cluster: `python -m tests.cluster [PYTEST'S OPTIONS]`, as root.

In new namespaces of processes, mounts and the network, so that all that was started ends with the tests, and nothing of
it can be reached, or reaches anything, from outside. What stays of a node on its machine, its cgroups, is removed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cluster.node import CGROUPS, FOLDER, controllers
from tests.cluster.setup import set_up
from tests.real_vllm.cache import SetupError

_NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def main(options: list[str]) -> int:
    """Returns the exit status: pytest's, or 1 if the programs can't be had."""
    try:
        set_up()
    except SetupError as error:
        print(f"A cluster can't be had here: {error}", file=sys.stderr)
        return 1
    folder = tempfile.mkdtemp(prefix="cluster-")
    try:
        tests = [sys.executable, "-m", "pytest", "-m", "cluster", str(Path(__file__).parent), *options]
        return subprocess.run([*_NAMESPACES, *tests], env={**os.environ, FOLDER: folder}, check=False).returncode
    finally:
        _remove_cgroups()
        shutil.rmtree(folder)


def _remove_cgroups() -> None:
    """Those of pods come before those that they are in."""
    for controller in controllers():
        top = controller / CGROUPS
        for path in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
            path.rmdir()
        if top.exists():
            top.rmdir()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

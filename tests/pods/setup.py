"""Gets what builds and runs images: `python -m tests.pods.setup`.

Debian's mmdebstrap, buildah and runc, unless they are on PATH; that takes root, and so does what they do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

_PROGRAMS = ("mmdebstrap", "buildah", "runc")


def main() -> int:
    """Get them unless they are there; returns the exit status."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if os.geteuid() != 0 or (missing and shutil.which("apt-get") is None):
        print(f"Images can't be built: run this as root, with {', '.join(_PROGRAMS)} installed", file=sys.stderr)
        return 1
    if missing:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", *missing]
        for command in (["apt-get", "update", "--quiet"], install):
            subprocess.run(command, check=True, env=environment, stdout=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Gets a real Chromium: `python -m tests.browser.setup`.

The one on PATH if there is one. Else Debian's `chromium-headless-shell` is installed with the fonts of the pictures,
which takes root: its libraries are too many to be laid out beside the system.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_PACKAGES = ("chromium-headless-shell", "fonts-inter", "fonts-jetbrains-mono")


def chromium() -> Path | None:
    """The program, if it is there."""
    found = (shutil.which(name) for name in _NAMES)
    return next((Path(path) for path in found if path), None)


def main() -> int:
    """Get it unless it is there; returns the exit status."""
    if chromium() is None:
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            print(f"Chromium can't be had: install one of {', '.join(_NAMES)}, or run this as root", file=sys.stderr)
            return 1
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", *_PACKAGES]
        for command in (["apt-get", "update", "--quiet"], install):
            subprocess.run(command, check=True, env=environment, stdout=sys.stderr)
    print(f"Chromium is ready: {chromium()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Gets a real Prometheus: `python -m tests.alerts.setup`.

The one on PATH if there is one. Else Debian's package is downloaded (19 MB) and laid out in the cache directory
(95 MB), which is never inside the checkout and may be removed at any time; nothing is installed, and no root is needed.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.real_vllm.cache import SetupError, built_once, is_complete, locked, require_space, root
from tests.real_vllm.environment import run, step

_GIGABYTES = 0.2


def prometheus() -> Path | None:
    """The program, if it is there."""
    if found := shutil.which("prometheus"):
        return Path(found)
    return _program() if is_complete(_directory()) else None


def main() -> int:
    """Get it unless it is there; returns the exit status."""
    try:
        set_up()
    except SetupError as error:
        print(f"Prometheus can't be had: {error}", file=sys.stderr)
        return 1
    print(f"Prometheus is ready: {prometheus()}", flush=True)
    return 0


def set_up() -> None:
    """Raises SetupError."""
    if prometheus() is not None:
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise SetupError("there is none on PATH, and no apt-get here that knows one; install Prometheus 2.42 or newer")
    with locked(root()):
        if prometheus() is not None:
            return
        require_space(root(), _GIGABYTES)
        with built_once(_directory()), step("Debian's package prometheus: 19 MB"):
            # Before the first `apt-get update`, which takes root, apt knows no package.
            run("/usr/bin/env", f"--chdir={_directory()}", "apt-get", "--quiet", "download", "prometheus")
            (package,) = _directory().glob("*.deb")
            run("/usr/bin/env", "dpkg", "--extract", str(package), str(_directory()))
            package.unlink()
            run(_program(), "--version")


def _directory() -> Path:
    return root() / "prometheus-debian"


def _program() -> Path:
    return _directory() / "usr/bin/prometheus"


if __name__ == "__main__":
    sys.exit(main())

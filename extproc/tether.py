"""Becomes a command that must not outlive the process that started it.

    python tether.py PARENT COMMAND [ARGUMENT ...]

On Linux the kernel is asked to kill this process when its parent ends, even if that is killed itself; the wish
survives exec. Elsewhere the command is simply executed. This is a program of its own, with nothing but the standard
library, because code that runs between fork and exec isn't safe in a parent with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""


def main(parent: int, command: list[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return  # It ended before the kernel knew.
    os.execv(command[0], command)  # noqa: S606 - exactly this command, without a shell, is what is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

"""Runs a command where there is no network but the loopback interface, if this machine lets us: otherwise as it is.

    python -m tests.clients.offline COMMAND [ARGUMENT ...]

No client then sends anything anywhere but to the gateway, and none depends on anything else.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys

_APART = ("unshare", "--map-root-user", "--net")
"""A network of its own, which takes no privileges where user namespaces are allowed."""
_INSIDE = "--inside"
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
"""From linux/sockios.h and linux/if.h."""


def main(command: list[str]) -> None:
    """Become `command`."""
    if command[0] == _INSIDE:
        _loopback_up()
        command = command[1:]
    elif _can_be_apart():
        command = [*_APART, sys.executable, "-m", "tests.clients.offline", _INSIDE, *command]
    else:
        print("This machine allows no network of our own: the clients run with the one that there is.", flush=True)
    os.execvp(command[0], command)


def _can_be_apart() -> bool:
    if shutil.which(_APART[0]) is None:
        return False
    return subprocess.run([*_APART, "true"], capture_output=True, check=False).returncode == 0


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


if __name__ == "__main__":
    main(sys.argv[1:])

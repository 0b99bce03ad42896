"""Reads the small files that a gateway is told of, and no other kind of thing.

A path may lead to anything: opening a FIFO waits until somebody writes into it, a device may never end, and a huge
file fills the memory. Whoever reads by this gets an error at once instead.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LARGEST = 4 * 1024 * 1024
"""Bytes. A configuration of a thousand models has a tenth of it, fifty thousand API keys have all of it."""

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_file(path: Path) -> bytes:
    """All that is in the file. Raises OSError, the `strerror` of which says in words why not."""
    check_file(path)
    # Should it be another file by now, opening it must not wait either.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        _check(os.fstat(descriptor), path)
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:  # it has grown, or is one of those of /proc, which don't tell
        raise _too_large(path)
    return content


def check_file(path: Path) -> None:
    """Whether it could be read by somebody who may. Raises OSError, as `read_file`."""
    _check(path.stat(), path)


def shown(path: Path, setting: str) -> str:
    """The path that `setting` is, as it may stand in a message: a key may have been put where its file's path belongs.

    What isn't there, in a directory that isn't there either, or none but `/`, could be one.
    """
    try:
        known = path.exists() or (path.is_absolute() and path.parent != path.parent.parent and path.parent.is_dir())
    except OSError:  # too long for a path
        known = False
    return str(path) if known else f"{setting} (its path isn't shown, because it may be a key)"


def _check(found: os.stat_result, path: Path) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(kind, 'something else')}, not a regular file", str(path))
    if found.st_size > LARGEST:
        raise _too_large(path)


def _too_large(path: Path) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {LARGEST} bytes", str(path))

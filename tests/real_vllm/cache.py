"""Where the big things live between runs, and how they get there whole or not at all.

Everything is made in a directory of its own whose name says what it was made from, so that a new version is a new
directory and a killed run leaves nothing that a later one trusts. Only a marker, written last, makes it count.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MARKER = ".complete"


class SetupError(Exception):
    """Something can't be set up here; the text says why and what would help."""


def root() -> Path:
    """The cache directory, outside the checkout: $EXTPROC_CACHE, or `extproc` in the user's cache."""
    if chosen := os.environ.get("EXTPROC_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base).absolute() / "extproc"


def is_complete(directory: Path) -> bool:
    """Whether `directory` was finished."""
    return (directory / _MARKER).exists()


@contextmanager
def built_once(directory: Path) -> Iterator[None]:
    """The block fills `directory`, which is empty at first and counts as complete only if the block ends well.

    A virtual environment can't be moved once it is made, so the marker decides and not a rename.
    """
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    yield
    os.sync()  # The marker must not reach the disk before what it vouches for.
    (directory / _MARKER).touch()


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other runs out of `directory`; says so if that means waiting."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("w")
    except OSError as error:
        raise SetupError(f"the cache directory can't be used: {error}; choose another with EXTPROC_CACHE") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another run is setting things up there; waiting for it ...", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def require_space(directory: Path, gigabytes: float) -> None:
    """Raise SetupError unless the disk of `directory` has that much left."""
    left = shutil.disk_usage(directory).free / 1e9
    if left < gigabytes:
        raise SetupError(
            f"{directory} has {left:.1f} GB left and {gigabytes:.1f} GB are needed; "
            "make room, or choose another place with EXTPROC_CACHE"
        )

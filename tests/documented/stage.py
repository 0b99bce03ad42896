"""Where blocks of shell run as they are printed: a directory, our programs on PATH, and addresses of the tests' own."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.gateway import free_port

PATIENCE = 120


class Stage:
    """Each address that a page prints is one of the tests' own here, everywhere in its text."""

    def __init__(self, folder: Path, addresses: Mapping[str, str]) -> None:
        self.folder = folder
        self._addresses = dict(addresses)
        self.programs = folder / "bin"
        """What comes first on PATH."""
        self.programs.mkdir()

    def address(self, printed: str) -> str:
        """Ours in the place of a printed one: any free port, unless it was told."""
        return self._addresses.setdefault(printed, f"127.0.0.1:{free_port()}")

    def another(self, printed: str) -> str:
        """The same, of nothing that ran before."""
        self._addresses.pop(printed, None)
        return self.address(printed)

    def text(self, printed: str) -> str:
        """What is run, or written, in the place of what is printed."""
        for ours in self._addresses:
            printed = printed.replace(ours, self._addresses[ours])
        return re.sub(r"127\.0\.0\.1:(?:10000|10001|9002|9102|9003)\b", lambda found: self.address(found[0]), printed)

    def run(self, printed: str, status: int = 0) -> str:
        """A whole block; what it writes to its standard output."""
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", self.text(printed)],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self, printed: str, says: str) -> Iterator[str]:
        """One command that runs until it is interrupted; what it has said when it `says` that it is ready."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {self.text(printed).partition(' # ')[0].strip()}"],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout
        said = b""
        try:
            while says.encode() not in said:
                assert select.select([process.stdout], [], [], PATIENCE)[0], said.decode()
                read = os.read(process.stdout.fileno(), 1 << 16)
                assert read, said.decode()
                said += read
            yield said.decode()
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)

    @property
    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "TMPDIR": str(self.folder)}

"""Our side of a parser that runs in another environment: a process, and a question and an answer a line each."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from extproc.corpus.judging import Delta, Given

PEERS = {
    "vllm": "vllm_parsers",
    "sglang": "sglang_parsers",
    "mlx-lm": "mlx_parsers",
    "transformers": "transformers_parsers",
    "extproc-worker": "own_parser",
}
"""What `--parser` may name, and the module of this folder that drives it."""

_LAUNCH = Path(__file__).with_name("launch.py")
_START = 300.0
_ANSWER = 30.0
"""Seconds: an import of torch may take a minute, a parse takes milliseconds."""


class PeerError(Exception):
    """What the other side raised, or that it ended or didn't answer in time."""


class Peer:
    """A parser in a process of its own, which is started again when it ends or hangs."""

    def __init__(self, command: Sequence[str | Path], patience: float = _ANSWER) -> None:
        """`command` speaks as `worker` says; `patience` is how many seconds an answer may take."""
        self.versions: Mapping[str, str] = {}
        self.formats: Mapping[str, str] = {}
        """The formats that it claims, with its own name for each."""
        self._command = tuple(map(str, command))
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None
        self._read = b""
        self._errors: IO[bytes] | None = None

    def __call__(self, given: Given) -> Iterator[Delta]:
        """What the judge takes. PeerError where the other side failed."""
        answer = self._ask(json.dumps(asdict(given)))
        if "error" in answer:
            raise PeerError(answer["error"])
        yield from answer["deltas"]

    def start(self) -> None:
        """Start it, and hear what it is. PeerError when it can't be."""
        from extproc import tether  # which brings ctypes, and `extproc serve` comes by here

        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        # It must not outlive us: a hanging regular expression never looks whether anybody still listens.
        self._process = subprocess.Popen(  # noqa: S603 - what the operator names is run, without a shell
            (sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), *self._command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._read = b""
        try:
            hello = self._answer(_START)
        except PeerError as error:
            raise PeerError(f"{self._command[0]} can't run it: {self._last_error() or error}") from None
        self.versions, self.formats = hello["versions"], hello["formats"]

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _ask(self, question: str) -> dict[str, Any]:
        if self._process is None:
            self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(question.encode() + b"\n")
            self._process.stdin.flush()
            return self._answer(self._patience)
        except (OSError, PeerError) as error:
            self.stop()
            raise PeerError(str(error)) from None

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self._read:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise PeerError(f"no answer in {seconds:g} seconds")
            if not (piece := os.read(self._process.stdout.fileno(), 1 << 20)):
                raise PeerError(f"its process ended with status {self._process.wait()}")
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def _last_error(self) -> str:
        assert self._errors is not None
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().split("\n")
        return lines[-1]


@contextmanager
def running(name: str, python: str | Path) -> Iterator[Peer]:
    """The parser `name` of PEERS, run by `python`. PeerError when it can't be started there."""
    peer = Peer((python, "-I", _LAUNCH, PEERS[name]))
    try:
        peer.start()
        yield peer
    finally:
        peer.stop()

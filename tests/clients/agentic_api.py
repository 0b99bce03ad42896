"""Runs vLLM's agentic-api in front of a gateway: it keeps conversations, which the gateway doesn't."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from extproc import tether
from tests.clients.installed import client
from tests.gateway import UP_SECONDS, free_port, wait_until


@contextmanager
def running_agentic_api(upstream: str, folder: Path, **env: str) -> Iterator[str]:
    """Start it in front of the gateway `upstream`, wait until it serves, and stop it at the end; its own address.

    Both addresses are without `/v1`. What it keeps is in `folder`, where another one finds it again. `env` are more
    variables. It is the program that `agentic-api serve` starts: tethered, it ends even when the tests are killed.
    """
    installed, port = client("agentic-api"), free_port()
    program = Path(installed.command).with_name("agentic-server")
    tethered = [sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), str(program)]
    address = ["--llm-api-base", upstream, "--gateway-host", "127.0.0.1", "--gateway-port", str(port)]
    environment = {"PATH": installed.path, "HOME": str(folder), **env}
    url = f"http://127.0.0.1:{port}"
    with _log(folder).open("ab") as log:
        process = subprocess.Popen([*tethered, *address], env=environment, stdout=log, stderr=log)
    try:
        wait_until(lambda: process.poll() is not None or _is_ready(url), UP_SECONDS)
        assert process.poll() is None, log_of(folder)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def log_of(folder: Path) -> str:
    """What it has told of itself."""
    return _log(folder).read_text()


def _log(folder: Path) -> Path:
    return folder / "agentic-api.log"


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready").status_code == 200
    except httpx.TransportError:
        return False

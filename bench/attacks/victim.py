"""The gateway under attack: `extproc up` with a configuration file, keys, and the limits of the manifests."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import trustme

from bench.attacks.attack import Needs
from bench.attacks.backends import MODEL
from bench.attacks.watch import Watch
from tests.gateway import EXTPROC, free_port

_CLIENTS = 5
"""Keys of the honest clients."""
_START = 90.0
_ADDRESS_SPACE = 64 << 30
"""Bytes; Envoy and Python reserve more than they use. The watch has the real limit; this one is against its failure."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A running gateway and what belongs to it."""

    port: int
    backend: int
    """The port of the scripted vLLM itself."""
    keys: list[str]
    attackers_key: str
    authority: str | None
    watch: Watch
    up: subprocess.Popen[bytes]
    said: Path
    """What `up` and its children wrote on stderr."""

    @property
    def alive(self) -> bool:
        return self.up.poll() is None


@contextlib.contextmanager
def running(needs: Needs, folder: Path, more: str = "") -> Iterator[Victim]:
    """Start backends and gateway; stop them at the end, by their process ids. `more` is YAML for the configuration."""
    with contextlib.ExitStack() as stack:
        command = [sys.executable, "-m", "bench.attacks.backends"]
        backends = [stack.enter_context(child([*command, which], stdout=subprocess.PIPE)) for which in ("vllm", "raw")]
        ports = {name: port for backend in backends for name, port in json.loads(line(backend, "{")).items()}
        keys = [secrets.token_urlsafe(24) for _ in range(_CLIENTS + 1)]
        names = [*(f"honest-{number}" for number in range(_CLIENTS)), "attacker"]
        lines = (f"{name}: {sha256(key.encode()).hexdigest()}" for name, key in zip(names, keys, strict=True))
        (folder / "api-keys").write_text("".join(f"{line}\n" for line in lines))
        authority = _certificate(folder) if needs.tls else None
        (folder / "extproc.yaml").write_text(_configuration(needs, folder, ports) + more)
        port, said = free_port(), folder / "stderr"
        command = [*EXTPROC, "up", "--config", str(folder / "extproc.yaml"), "--listen", f"127.0.0.1:{port}"]
        with said.open("wb") as stderr:
            up = stack.enter_context(
                child(
                    [*command, "--quiet", "--grace", "1"],
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    before=_limits(needs),
                    cwd=folder,
                    patience=5,  # Its children end with it, whatever ends it.
                )
            )
        watch = Watch(up.pid)
        stack.callback(watch.close)
        watch.start()
        try:
            line(up, "Ctrl-C stops")
        except EOFError:
            raise RuntimeError(f"the gateway doesn't start:\n{said.read_text()[-2000:]}") from None
        watch.forget_peaks()
        honest = keys[:-1] if needs.keys else []
        yield Victim(port, ports["vllm"], honest, keys[-1], authority, watch, up, said)
        watch.close()  # What ends from now on, we end.


def _configuration(needs: Needs, folder: Path, ports: dict[str, int]) -> str:
    most = "" if needs.max_requests is None else f", max_requests: {needs.max_requests}"
    models = ["quick", "fast", "bomb"]
    lines = [
        "models:",
        f"  - {{name: coder, backend: vllm, upstream_model: {MODEL}, tools: prompt}}",
        *(f"  - {{name: {name}, backend: {name}, upstream_model: m, tools: prompt}}" for name in models),
        "backends:",
        f'  - {{name: vllm, address: "127.0.0.1:{ports["vllm"]}"{most}}}',
        *(f'  - {{name: {name}, address: "127.0.0.1:{ports[name]}", health_check: false}}' for name in models),
        f"limits: {{max_body_bytes: {needs.max_body_bytes}}}",
    ]
    if needs.keys:
        lines.append(f"api_keys: {folder}/api-keys")
    if needs.tls:
        lines.append(f"tls: {{certificate: {folder}/tls.crt, key: {folder}/tls.key}}")
    return "\n".join([*lines, ""])


def _certificate(folder: Path) -> str:
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    made.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    made.private_key_pem.write_to_path(folder / "tls.key")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return str(folder / "ca.pem")


def _limits(needs: Needs) -> Callable[[], None]:
    def apply() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
        if needs.nofile is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (needs.nofile, needs.nofile))

    return apply


@contextlib.contextmanager
def child(
    command: list[str],
    *,
    stdout: Any = None,
    stderr: Any = None,
    before: Callable[[], None] | None = None,
    cwd: Path | None = None,
    patience: float = 15,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run it inside the block; at the end ask it to end, and after `patience` seconds kill it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    if cwd is not None:
        environment["TMPDIR"] = str(cwd)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, preexec_fn=before, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                process.kill()


def line(process: subprocess.Popen[bytes], containing: str) -> str:
    """The next line on its stdout that contains this. Raises EOFError when there is none in time."""
    assert process.stdout is not None
    deadline = time.monotonic() + _START
    held = b""
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([process.stdout], [], [], left)
        if not ready:
            break
        piece = os.read(process.stdout.fileno(), 65_536)
        if not piece:
            break
        held += piece
        if found := re.search(rf"(?m)^.*{re.escape(containing)}.*\n", held.decode(errors="replace")):
            return found[0]
    raise EOFError(held.decode(errors="replace"))

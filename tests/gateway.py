"""The gateway as a user runs it, for tests: a real Envoy and a real processor, in front of the scripted vLLM."""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import openai

from extproc.scripted_vllm import ScriptedVLLM

EXTPROC = [sys.executable, "-m", "extproc"]
ENVOY = Path(sys.executable).with_name("envoy")
MODEL = "qwen2.5-coder-0.5b"


def curl(command: str) -> bytes:
    """Run a printed curl command, and return the answer's body; where there is no curl, send what it would send."""
    if shutil.which("curl"):
        done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, timeout=30)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout
    words = shlex.split(command)
    (url,) = (word for word in words if word.startswith("http://"))
    headers = dict(words[at + 1].split(": ", 1) for at, word in enumerate(words) if word == "-H")
    return httpx.post(url, headers=headers, content=words[words.index("-d") + 1], timeout=30).content


def free_port() -> int:
    """A port of the loopback interface that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Gateway:
    """A running gateway: its address, its backend, Envoy's own numbers and the processor's."""

    def __init__(self, url: str, backend: ScriptedVLLM, admin: Path, log: Path, metrics: str) -> None:
        self.url = url
        self.backend = backend
        self._metrics = metrics
        self._admin = httpx.Client(transport=httpx.HTTPTransport(uds=str(admin)), base_url="http://envoy")
        self._log = log
        self.http = httpx.Client(base_url=url, timeout=30)
        self.openai = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=30)

    def stat(self, name: str) -> int:
        """One of Envoy's counters or gauges, by the end of its name."""
        lines = self._admin.get("/stats", params={"usedonly": ""}).text.splitlines()
        return sum(int(value) for key, _, value in (line.partition(": ") for line in lines) if key.endswith(name))

    def metric(self, sample: str) -> float:
        """One sample of the processor's metrics, named as the page shows it; 0 while it isn't there."""
        lines = httpx.get(self._metrics).raise_for_status().text.splitlines()
        return sum(float(line.removeprefix(f"{sample} ")) for line in lines if line.startswith(f"{sample} "))

    def access_log(self, request_id: str) -> dict[str, Any]:
        """The access-log line of one request; Envoy writes it when the exchange is over, and flushes in its time."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            self._admin.post("/reopen_logs")
            for line in self._log.read_text().splitlines():
                if line.startswith("{") and (entry := json.loads(line))["request_id"] == request_id:
                    return dict(entry)
            time.sleep(0.02)
        raise AssertionError(f"no access-log line for {request_id}")

    def ready(self) -> bool:
        """Whether Envoy serves."""
        try:
            return self._admin.get("/ready").status_code == 200
        except httpx.TransportError:
            return False

    def close(self) -> None:
        for client in (self._admin, self.http, self.openai):
            client.close()


@contextmanager
def running_gateway(folder: Path, backend: ScriptedVLLM, settings: str = "") -> Iterator[Gateway]:
    """Start everything in `folder`, wait until it serves, and stop it at the end. `settings` is more YAML."""
    config, bootstrap = folder / "extproc.yaml", folder / "envoy.yaml"
    processor, admin, log = folder / "processor.sock", folder / "admin.sock", folder / "envoy.log"
    port, metrics = free_port(), f"127.0.0.1:{free_port()}"
    serve = [*EXTPROC, "serve", "--config", str(config), "--listen", f"unix:{processor}", "--metrics", metrics]
    config.write_text(f"""
listen: 127.0.0.1:{port}
models:
  - {{name: coder, backend: qwen, upstream_model: {MODEL}, tools: prompt}}
  - {{name: {MODEL}, backend: qwen, tools: prompt}}
  - {{name: absent, backend: absent, tools: prompt}}
backends:
  - {{name: qwen, address: "127.0.0.1:{backend.port}"}}
  - {{name: absent, address: "127.0.0.1:1"}}
{settings}""")
    made = subprocess.run(
        [*EXTPROC, "envoy", "--config", config, "--processor", f"unix:{processor}", "--admin", f"unix:{admin}"],
        check=True,
        capture_output=True,
    )
    bootstrap.write_bytes(made.stdout)
    with log.open("wb") as envoy_log:
        children = [
            subprocess.Popen(serve),
            subprocess.Popen(
                [ENVOY, "-c", bootstrap, "--use-dynamic-base-id", "--concurrency", "1", "-l", "warning"],
                stdout=envoy_log,
                stderr=envoy_log,
            ),
        ]
    gateway = Gateway(f"http://127.0.0.1:{port}", backend, admin, log, f"http://{metrics}/metrics")
    try:
        with grpc.insecure_channel(f"unix:{processor}") as channel:
            grpc.channel_ready_future(channel).result(timeout=30)
        deadline = time.monotonic() + 30
        while not gateway.ready():
            assert time.monotonic() < deadline, log.read_text()
            assert children[1].poll() is None, log.read_text()
            time.sleep(0.02)
        yield gateway
    finally:
        gateway.close()
        for child in reversed(children):
            child.terminate()
        assert children[0].wait(30) == 0
        children[1].wait(30)

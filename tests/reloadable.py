"""A gateway whose configuration a test changes while it runs, and clients that must not notice.

A real Envoy that reads the files which a real `extproc serve` writes for it, or one that reads none.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import httpx
import yaml
from grpc_health.v1 import health_pb2

from extproc.config import load
from extproc.control.publishing import EnvoyFiles
from extproc.envoy.bootstrap import bootstrap, to_yaml
from extproc.envoy.dynamic import ENVOY_ARGUMENTS
from extproc.envoy.sources import Directory
from scripted_vllm import Reply, ScriptedVLLM
from tests.gateway import ENVOY, EXTPROC, accepts, free_port, put, until_healthy

CHAT = "/v1/chat/completions"
PATIENCE = 30
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
REFUSED = 'extproc_config_reloads_total{result="refused"}'


def eventually(condition: Callable[[], bool]) -> None:
    """Ask until it holds: what is waited for doesn't announce itself."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.03)


def request(model: str, text: str = "Hello", **fields: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], **fields}


class Gateway:
    """A processor and an Envoy over one configuration file, which a test writes again."""

    def __init__(self, folder: Path, backend: ScriptedVLLM) -> None:
        self.backend = backend
        self.file = folder / "extproc.yaml"
        self.listen = f"127.0.0.1:{free_port()}"
        self.processor = folder / "processor.sock"
        self.files = folder / "envoy"
        self.log = folder / "processor.log"
        self.envoy_log = folder / "envoy.log"
        self.admin_socket = folder / "admin.sock"
        self.metrics_address = f"127.0.0.1:{free_port()}"
        self.admin = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(self.admin_socket)), base_url="http://envoy", timeout=30
        )
        # A connection that has been idle for some seconds may be closed just when it is used again.
        unkept = httpx.Limits(max_keepalive_connections=0)
        self.metrics = httpx.Client(base_url=f"http://{self.metrics_address}", timeout=PATIENCE, limits=unkept)
        self.http = httpx.Client(base_url=f"http://{self.listen}", timeout=PATIENCE)
        self.process = 0
        """The processor's process id."""

    def settings(self, *models: str, **settings: Any) -> dict[str, Any]:
        """A configuration in which each model has a backend of its own, named as the model is."""
        address = f"127.0.0.1:{self.backend.port}"
        return {
            "listen": self.listen,
            "models": [{"name": m, "backend": m, "upstream_model": "qwen", "tools": "prompt"} for m in models],
            "backends": [{"name": m, "address": address, "health_check": False} for m in models],
            **settings,
        }

    def write(self, settings: dict[str, Any] | str) -> str:
        """Put another file in the place of the configuration; returns its hash, as the metrics show it."""
        text = settings if isinstance(settings, str) else yaml.safe_dump(settings)
        put(self.file, text)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def reload(self, settings: dict[str, Any]) -> None:
        """The same, and wait until it is in force."""
        digest = self.write(settings)
        eventually(lambda: self.metric(f'extproc_config_info{{hash="{digest}"}}') == 1)

    def refuse(self, settings: dict[str, Any] | str) -> None:
        """Put this in the place of the configuration, and wait until it is refused."""
        before = self.metric(REFUSED)
        self.write(settings)
        eventually(lambda: self.metric(REFUSED) == before + 1)

    def metric(self, sample: str) -> float:
        lines = self.metrics.get("/metrics").raise_for_status().text.splitlines()
        return sum(float(line.removeprefix(f"{sample} ")) for line in lines if line.startswith(f"{sample} "))

    def stat(self, name: str) -> str:
        """One of Envoy's own numbers, or texts."""
        lines = self.admin.get("/stats", params={"filter": f"^{name}$"}).text.splitlines()
        return lines[0].partition(": ")[2].strip('"') if lines else ""

    def logged(self, containing: str) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and containing in line]

    def health(self, service: str) -> bool:
        with grpc.insecure_channel(f"unix:{self.processor}") as channel:
            check = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            answer = check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE)
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def ask(self, model: str, **headers: str) -> httpx.Response:
        return self.http.post(CHAT, json=request(model), headers=headers)

    def serving(self) -> bool:
        # Without looking first, httpx would leave its socket open.
        return accepts(self.admin_socket) and self.admin.get("/ready").status_code == 200

    def close(self) -> None:
        for client in (self.admin, self.metrics, self.http):
            client.close()


@contextmanager
def running(gateway: Gateway, *options: str, follows: bool = True, workers: int = 1) -> Iterator[Gateway]:
    """Start the processor, with more `options`, and Envoy with the file as it lies there.

    An Envoy that doesn't follow was told all at its start. It is told of so many `workers`; the processor, by the file
    or its options.
    """
    folder = gateway.processor.parent
    told = folder / "envoy.yaml"
    at, admin = str(gateway.processor), str(gateway.admin_socket)
    if follows:
        asyncio.run(EnvoyFiles(gateway.files, None).begin(load(gateway.file)))  # the processor would take longer
        made = bootstrap(Directory(str(gateway.files)), processor=at, workers=workers, admin=admin)
    else:
        made = bootstrap(load(gateway.file), processor=at, workers=workers, admin=admin)
    told.write_text(to_yaml(made))
    serve: list[str | Path] = [
        *EXTPROC,
        "serve",
        "--config",
        gateway.file,
        "--listen",
        gateway.processor,
        "--reread",
        "0.02",
        *options,
    ]
    serve += ["--metrics", gateway.metrics_address]
    serve += ["--envoy", gateway.files, "--envoy-admin", gateway.admin_socket] if follows else []
    envoy: list[str | Path] = [ENVOY, "-c", told, *ENVOY_ARGUMENTS, "--use-dynamic-base-id"]
    envoy += ["--concurrency", "2", "-l", "warning"]
    with gateway.log.open("wb") as log, gateway.envoy_log.open("wb") as envoy_log:
        processor = subprocess.Popen(serve, stderr=log)
        gateway.process = processor.pid
        until_healthy(f"unix:{gateway.processor}", processor)
        children = [processor, subprocess.Popen(envoy, stdout=envoy_log, stderr=envoy_log)]
    try:
        eventually(gateway.serving)
        yield gateway
    finally:
        for child in reversed(children):
            child.terminate()
        gateway.close()
        endings = [child.wait(PATIENCE) for child in children]
        assert endings == [0, 0]


class Stream(threading.Thread):
    """A streamed answer with tools, read in a thread of its own."""

    def __init__(self, gateway: Gateway, model: str, words: int = 40, pace: float = 0.1) -> None:
        super().__init__()
        self._gateway = gateway
        self._model = model
        self.status = 0
        self.lines: list[str] = []
        self._begun = threading.Event()
        gateway.backend.play(Reply("word " * words, pace=pace))
        self.start()
        assert self._begun.wait(PATIENCE)

    def run(self) -> None:
        body = request(self._model, stream=True, tools=TOOLS)
        with httpx.stream("POST", f"http://{self._gateway.listen}{CHAT}", json=body, timeout=PATIENCE) as answer:
            self.status = answer.status_code
            for line in answer.iter_lines():
                self.lines.append(line)
                self._begun.set()

    @property
    def ended(self) -> bool:
        return "data: [DONE]" in self.lines

    def text(self) -> str:
        """What was said, when it is over."""
        self.join(PATIENCE)
        return text_of(self.lines)


def text_of(lines: list[str]) -> str:
    events = [line.removeprefix("data: ") for line in lines if line]
    assert events[-1] == "[DONE]"
    deltas = [json.loads(event)["choices"][0]["delta"] for event in events[:-1]]
    return "".join(delta.get("content") or "" for delta in deltas)


@dataclass
class Load:
    """Clients that stream one answer after the other, each on a connection of its own, until they are told to stop."""

    url: str
    stopped: threading.Event = field(default_factory=threading.Event)
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def client(self) -> list[str]:
        """What went wrong."""
        wrong = []
        body = request("coder", stream=True, tools=TOOLS)
        with httpx.Client(base_url=self.url, timeout=PATIENCE) as client:
            while not self.stopped.is_set():
                lines: list[str] = []
                try:
                    with client.stream("POST", CHAT, json=body) as answer:
                        for line in answer.iter_lines():
                            if not lines:
                                self.begun.release()
                            lines.append(line)
                except httpx.TransportError as error:
                    wrong.append(f"{error!r} after {len(lines)} lines")
                    continue
                if answer.status_code != 200:
                    wrong.append(f"{answer.status_code}: {lines}")
                elif "data: [DONE]" not in lines or not text_of(lines):
                    wrong.append(f"no end: {lines[-3:]}")
        return wrong

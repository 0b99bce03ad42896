"""The gateway as a user runs it, for tests: a real Envoy and a real processor, in front of scripted vLLMs."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import grpc
import httpx
import openai
from grpc_health.v1 import health_pb2

from extproc.config import load
from extproc.control.publishing import EnvoyFiles
from extproc.envoy.bootstrap import bootstrap, to_yaml
from extproc.envoy.sources import Directory
from scripted_vllm import ScriptedVLLM
from scripted_vllm.connection import Received

EXTPROC = [sys.executable, "-m", "extproc"]
_PATIENT = """
import sys
from extproc.cli import main
from extproc.runner.characters import worker
worker.LOAD = 60.0
sys.exit(main())
"""
_PATIENT_EXTPROC = [sys.executable, "-c", _PATIENT]
"""The same, but that a character may take long to be loaded: one that takes too long isn't tried again."""
ENVOY = Path(sys.executable).with_name("envoy")
MODEL = "qwen2.5-coder-0.5b"
UP_SECONDS = 90.0
"""For a process to begin to serve, on a machine that has other work; one that ends is noticed at once."""


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


def limited(command: Sequence[str], soft: int, hard: int) -> list[str]:
    """The command with these limits of file descriptors.

    A shell sets them: what `subprocess` would call between fork and exec, gRPC's threads may make an abort.
    """
    limits = 'ulimit -S -n "$1" && ulimit -H -n "$2" && shift 2 && exec "$@"'
    return ["sh", "-c", limits, "sh", str(soft), str(hard), *command]


def _ports() -> Iterator[int]:
    """Ports of this process alone, again and again.

    What the system gives for port 0 it may give to another process before the first one listens, and two Envoys share
    a port without a word. So each worker has a range of its own, below those that the system gives.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
    mine = range(16_000 + 2_000 * worker, 18_000 + 2_000 * worker)
    for number in itertools.count(os.getpid()):
        yield mine[number % len(mine)]


_PORTS = _ports()


def free_port() -> int:
    """A port that nobody uses now, on any interface, and that no other test gets."""
    for port in _PORTS:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            return port
    raise AssertionError("there is always another one")


def put(file: Path, content: str | bytes) -> None:
    """Replace the file, or make it, at once: nobody who looks meanwhile finds it empty, or half written."""
    new = file.with_name(f".{file.name}.new")
    new.write_bytes(content if isinstance(content, bytes) else content.encode())
    new.rename(file)


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for something that has no other sign."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it didn't come about in time"
        time.sleep(0.02)


def until_healthy(address: str, process: subprocess.Popen[Any], seconds: float = UP_SECONDS) -> None:
    """Wait until the processor at `address` says that all is in place."""
    # By itself gRPC tries again after a second, and then after nearly two: by then it has long been there.
    eager = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 100)]
    with grpc.insecure_channel(address, options=eager) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )

        def healthy() -> bool:
            assert process.poll() is None, "the processor has ended"
            try:
                answer = check(health_pb2.HealthCheckRequest(), timeout=seconds)
            except grpc.RpcError:
                return False
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

        wait_until(healthy, seconds)


class AskedVLLM(ScriptedVLLM):
    """A backend whose `requests` are the clients': the gateway asks for its models now and then, in the background."""

    @property
    def requests(self) -> list[Received]:
        return [request for request in super().requests if request.route != "/v1/models"]


class Gateway:
    """A running gateway: its address, its backends, Envoy's own numbers and the processor's."""

    def __init__(
        self,
        url: str,
        backends: tuple[ScriptedVLLM, ...],
        admin: Path,
        log: Path,
        metrics: str,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self.url = url
        self.processor = self.runner = 0
        """The processor's process id, and the runner's if there is one."""
        self.backends = backends
        self.processes: tuple[int, ...] = ()
        """The ids of the processor and of Envoy."""
        self.metrics = metrics
        """The URL of the processor's."""
        self.runner_metrics = ""
        """And of the runner's."""
        self._socket = admin
        self._admin = httpx.Client(transport=httpx.HTTPTransport(uds=str(admin)), base_url="http://envoy", timeout=30)
        self._log = log
        verify = True if trust is None else trust
        self.http = httpx.Client(base_url=url, timeout=30, verify=verify)
        self.openai = openai.OpenAI(
            base_url=f"{url}/v1",
            api_key="unused",
            max_retries=0,
            timeout=30,
            http_client=openai.DefaultHttpxClient(verify=verify),
        )

    @property
    def backend(self) -> ScriptedVLLM:
        """The first one: most tests have no other."""
        return self.backends[0]

    def chat(self, model: str, content: str = "Hello!", **headers: str) -> httpx.Response:
        """The plainest of requests, and its answer whatever it is."""
        body = {"model": model, "messages": [{"role": "user", "content": content}]}
        return self.http.post("/v1/chat/completions", json=body, headers=headers)

    def stat(self, name: str) -> int:
        """One of Envoy's counters or gauges, by the end of its name."""
        lines = self._admin.get("/stats", params={"usedonly": ""}).text.splitlines()
        return sum(int(value) for key, _, value in (line.partition(": ") for line in lines) if key.endswith(name))

    def metric(self, sample: str) -> float:
        """One sample of the processor's metrics, named as the page shows it; 0 while it isn't there."""
        lines = httpx.get(self.metrics, timeout=30).raise_for_status().text.splitlines()
        return sum(float(line.removeprefix(f"{sample} ")) for line in lines if line.startswith(f"{sample} "))

    def is_at_rest(self) -> bool:
        """Whether no client has a connection, with a request on it or about to come, and no exchange is under way."""
        return not self.stat("http.openai.downstream_cx_active") and not self.metric("extproc_running_exchanges")

    def access_log(self, request_id: str) -> dict[str, Any]:
        """The access-log line of one request; Envoy writes it when the exchange is over, and flushes in its time."""
        [line] = self.access_lines(request_id, 1)
        return line

    def access_lines(self, request_id: str, number: int) -> list[dict[str, Any]]:
        """The lines of a request that has so many, in their order."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = [line for line in self.whole_access_log() if line["request_id"] == request_id]
            if len(found) >= number:
                return found
            time.sleep(0.02)
        raise AssertionError(f"no {number} access-log lines for {request_id}")

    def whole_access_log(self) -> list[dict[str, Any]]:
        """All lines so far, but for one that is half written."""
        self._admin.post("/reopen_logs")
        written, _, _ = self._log.read_text().rpartition("\n")
        return [json.loads(line) for line in written.splitlines() if line.startswith("{")]

    def ready(self) -> bool:
        """Whether Envoy serves."""
        # Without looking first, httpx would leave its socket open.
        return accepts(self._socket) and self._admin.get("/ready").status_code == 200

    def close(self) -> None:
        for client in (self._admin, self.http, self.openai):
            client.close()


def accepts(path: Path) -> bool:
    """Whether somebody listens at this socket: its file may be there a moment earlier."""
    with socket.socket(socket.AF_UNIX) as attempt:
        return attempt.connect_ex(str(path)) == 0


def until_ready(folder: Path, envoy: subprocess.Popen[bytes]) -> None:
    """Wait until an Envoy serves that has its admin interface and its log in `folder`."""
    admin = folder / "admin.sock"
    wait_until(lambda: envoy.poll() is not None or accepts(admin))
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(admin)), base_url="http://envoy", timeout=30) as client:
        wait_until(lambda: envoy.poll() is not None or client.get("/ready").status_code == 200)
    assert envoy.poll() is None, (folder / "envoy.log").read_text()


@contextmanager
def running_gateway(folder: Path, backend: ScriptedVLLM, settings: str = "") -> Iterator[Gateway]:
    """A gateway with one backend. `settings` is more YAML."""
    # Without health checks: tests look at what the backend was sent.
    configuration = f"""
models:
  - {{name: coder, backend: qwen, upstream_model: {MODEL}, tools: prompt}}
  - {{name: {MODEL}, backend: qwen, tools: prompt}}
  - {{name: absent, backend: absent, tools: prompt, malformed_history: error}}
backends:
  - {{name: qwen, address: "127.0.0.1:{backend.port}", health_check: false}}
  - {{name: absent, address: "127.0.0.1:1", health_check: false}}
{settings}"""
    with configured_gateway(folder, configuration, backend) as gateway:
        yield gateway


@contextmanager
def gateway_with_backend(
    folder: Path, settings: str, *, envoy: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Gateway]:
    """A `configured_gateway` with a backend of its own, whose `{model}` and `{port}` the settings have places for."""
    backend = AskedVLLM(model=MODEL)
    with backend.running():
        configuration = settings.format(model=MODEL, port=backend.port)
        with configured_gateway(folder, configuration, backend, envoy=envoy) as gateway:
            yield gateway


@contextmanager
def configured_gateway(
    folder: Path,
    configuration: str,
    *backends: ScriptedVLLM,
    envoy: Mapping[str, str] = MappingProxyType({}),
    live: bool = False,
    trust: ssl.SSLContext | None = None,
    arguments: Sequence[str] = (),
    grace: float = 30.0,
) -> Iterator[Gateway]:
    """Start everything in `folder`, wait until it serves, and stop it at the end.

    `configuration` is YAML without `listen`. `envoy` has what is to be replaced in Envoy's bootstrap: times that are
    too long for a test. A `live` gateway follows changes of its files, and has a bootstrap without such times. With
    `trust`, its clients speak TLS. `arguments` are more of Envoy's. The processor, when asked to end, has `grace`
    seconds.
    """
    config, started, files = folder / "extproc.yaml", folder / "envoy.yaml", folder / "envoy"
    processor, admin, log = folder / "processor.sock", folder / "admin.sock", folder / "envoy.log"
    port, metrics = free_port(), f"127.0.0.1:{free_port()}"
    config.write_text(f"listen: 127.0.0.1:{port}\nsockets: {folder}\n{configuration}")
    serve = [*EXTPROC, "serve", "--config", str(config), "--listen", f"unix:{processor}", "--metrics", metrics]
    serve += ["--grace", str(grace)]
    if live:
        serve += ["--envoy", str(files), "--envoy-admin", str(admin), "--reread", "0.1"]
    # As `extproc envoy` prints it (tests/test_cli.py): what makes it takes seconds to import, here once for all.
    at, admin_at = str(processor), str(admin)
    if live:
        asyncio.run(EnvoyFiles(files, None).begin(load(config)))  # the processor finds them as it would make them
        made = to_yaml(bootstrap(Directory(str(files)), processor=at, admin=admin_at))
    else:
        made = to_yaml(bootstrap(load(config), processor=at, admin=admin_at))
    for old, new in envoy.items():
        assert old in made
        made = made.replace(old, new)
    started.write_text(made)
    gateway = Gateway(
        f"{'http' if trust is None else 'https'}://127.0.0.1:{port}",
        backends,
        admin,
        log,
        f"http://{metrics}/metrics",
        trust,
    )
    children = [subprocess.Popen(serve)]
    gateway.processor = children[0].pid
    try:
        # The processor first: it writes the files that a live Envoy begins with.
        until_healthy(f"unix:{processor}", children[0])
        if load(config).runs_tools:
            at = f"127.0.0.1:{free_port()}"
            runner = [*_PATIENT_EXTPROC, "runner", "--config", str(config), "--metrics", at]
            runner += ["--reread", "0.1", "--grace", "20"]
            children.append(subprocess.Popen(runner))
            gateway.runner, gateway.runner_metrics = children[1].pid, f"http://{at}/metrics"
            wait_until(lambda: accepts(folder / "runner.sock") or children[1].poll() is not None, UP_SECONDS)
        with log.open("wb") as envoy_log:
            command = [str(ENVOY), "-c", str(started), "--use-dynamic-base-id", "--concurrency", "1", "-l", "warning"]
            envoys = subprocess.Popen([*command, *arguments], stdout=envoy_log, stderr=envoy_log)
            children.append(envoys)
        wait_until(lambda: gateway.ready() or envoys.poll() is not None, UP_SECONDS)
        assert envoys.poll() is None, log.read_text()
        gateway.processes = (children[0].pid, envoys.pid)
        yield gateway
    finally:
        gateway.close()
        for child in reversed(children):
            child.terminate()
        assert children[0].wait(30) == 0
        for child in children[1:]:
            child.wait(30)

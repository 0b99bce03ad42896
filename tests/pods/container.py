"""One container of a pod: a process with the command, arguments, environment, probes and hook of the manifests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import httpx
from grpc_health.v1 import health_pb2

from tests.gateway import wait_until
from tests.k8s.rendered import Object
from tests.pods.sandbox import Sandbox

PATH = os.pathsep.join((str(Path(sys.executable).parent), os.defpath))
"""Here are `extproc` and `envoy`, as they are first on the PATH of their images; `bash` is the machine's."""

HURRY = 0.1
"""Probes come ten times as often as they should, and may fail ten times as often."""


class Container:
    """The process, started again whenever it ends until it is told to stop; and how the kubelet sees it."""

    def __init__(self, spec: Object, sandbox: Sandbox, log: Path) -> None:
        self.name: str = spec["name"]
        self.started = threading.Event()
        """Set once its startup probe has succeeded, for the first time or again."""
        self.ready = False
        self.restarts = 0
        self.starts: list[float] = []
        """The seconds from each start of the process until its startup probe succeeded."""
        self._spec = spec
        self._sandbox = sandbox
        self._log = log
        self._stopping = False
        self._process: subprocess.Popen[bytes] | None = None
        self._care = threading.Thread(target=self._run, name=f"kubelet-{self.name}")

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was never started"
        return self._process.pid

    @property
    def log(self) -> list[str]:
        """What it wrote to its standard output and error, line by line."""
        whole, _, _ = self._log.read_text(encoding="utf-8").rpartition("\n")  # the last line may be half there
        return whole.splitlines()

    def json_log(self) -> list[dict[str, Any]]:
        """The same; every line has to be a JSON object."""
        return [dict(json.loads(line)) for line in self.log]

    def start(self) -> None:
        """Start it, and have it watched from now on; done when its startup probe has succeeded."""
        self._care.start()
        wait_until(lambda: self.started.is_set() or self.restarts, self._time_to_start + 10)
        assert self.started.is_set(), self.log

    def hook(self, hurried: Sequence[str]) -> None:
        """Run its preStop hook, with these words in the place of its last ones."""
        command = self._spec["lifecycle"]["preStop"]["exec"]["command"]
        self._exec([*command[: len(command) - len(hurried)], *hurried], timeout=None)

    def stop(self, grace: float) -> int:
        """SIGTERM, and SIGKILL when that was of no use; returns the exit status, negative for a signal."""
        self._stopping = True
        assert self._process is not None, "it was never started"
        self._process.terminate()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._care.join()
        return self._process.wait()

    def stop_probing(self) -> None:
        """It is about to be stopped: it isn't ready, whatever it says, and isn't started again."""
        self._stopping = True

    def kill(self) -> None:
        """End it now, if it still runs."""
        self._stopping = True
        if self._process is not None:
            self._process.kill()
            self._care.join()

    # What the kubelet does meanwhile

    @property
    def _time_to_start(self) -> float:
        probe = self._spec["startupProbe"]
        return float(probe["failureThreshold"] * probe["periodSeconds"])

    def _run(self) -> None:
        while True:
            begin = time.monotonic()
            with self._log.open("ab") as log:
                command = [*self._spec["command"], *self._spec["args"]]
                environment = {"PATH": PATH} | {each["name"]: each["value"] for each in self._spec.get("env", ())}
                self._process = subprocess.Popen(self._here(command), stdout=log, stderr=log, env=environment)
            if self._starts(begin + self._time_to_start):
                self.starts.append(time.monotonic() - begin)
                self.started.set()
                self._ask_for_readiness()
            else:
                self._process.kill()
            self.ready = False
            self.started.clear()
            self._process.wait()
            if self._stopping:
                return
            self.restarts += 1

    def _starts(self, deadline: float) -> bool:
        """Whether the startup probe succeeds before the process ends, or has had its time."""
        probe = self._spec["startupProbe"]
        while not self._asked(probe):
            if self._ends_within(probe["periodSeconds"] * HURRY) or time.monotonic() > deadline:
                return False
        return True

    def _ask_for_readiness(self) -> None:
        """Until it ends or is to end."""
        readiness = self._spec.get("readinessProbe")
        period = readiness["periodSeconds"] if readiness is not None else 1
        failures, most = 0, readiness.get("failureThreshold", 3) if readiness is not None else 1
        while not self._stopping:
            failures = 0 if readiness is None or self._asked(readiness) else failures + 1
            if failures == 0 or failures >= most:
                self.ready = failures == 0
            if self._ends_within(period * HURRY):
                return

    def _ends_within(self, seconds: float) -> bool:
        assert self._process is not None  # what is probed was started
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _asked(self, probe: Object) -> bool:
        timeout = probe.get("timeoutSeconds", 1)
        match probe:
            case {"exec": {"command": command}}:
                return self._exec(command, timeout) == 0
            case {"grpc": {"port": port}}:
                return serving(self._sandbox.port(port), probe["grpc"].get("service", ""), timeout)
            case {"httpGet": {"path": path, "port": port}}:
                return _answers(f"http://127.0.0.1:{self._sandbox.port(port_named(port, self._spec))}{path}", timeout)
        raise NotImplementedError(f"a probe such as {probe}")

    def _exec(self, command: Sequence[str], timeout: float | None) -> int:
        """Run something in the container."""
        try:
            return subprocess.run(
                self._here(command), env={"PATH": PATH}, capture_output=True, timeout=timeout, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL

    def _here(self, command: Sequence[str]) -> list[str]:
        words = [self._sandbox.text(word) for word in command]
        found = [Path(place, words[0]) for place in PATH.split(os.pathsep)]
        return [str(next(path for path in found if path.exists())), *words[1:]]


def port_named(name: str, container: Object) -> int:
    (port,) = (port["containerPort"] for port in container["ports"] if port["name"] == name)
    assert isinstance(port, int)
    return port


def _answers(url: str, timeout: float) -> bool:
    """The kubelet's HTTP probe."""
    try:
        return httpx.get(url, timeout=timeout).status_code < 400
    except httpx.TransportError:
        return False


def serving(port: int, service: str, timeout: float) -> bool:
    """The kubelet's gRPC probe."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            answer = check(health_pb2.HealthCheckRequest(service=service), timeout=timeout)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

"""The Envoy container of the pod as a process: its own arguments, files, probes and hooks, on other ports.

Its backend is a socket that the test answers by hand; no processor is needed for what goes past it.
"""

from __future__ import annotations

import http.client
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import trustme

from extproc.config import parse
from extproc.envoy.dynamic import files
from tests.gateway import ENVOY, free_port, wait_until
from tests.k8s.rendered import Object, Pod, of_kind, one

ADMIN, METRICS = 9901, 9003


class Envoy:
    """It runs while the block of `running` does."""

    def __init__(self, container: Object, folder: Path, backend: socket.socket) -> None:
        self.port, self.admin, self.metrics = free_port(), free_port(), free_port()
        self._container = container
        self._folder = folder
        self._backend = backend

    def localized(self, text: str) -> str:
        """A text of the pod, with this machine's paths and ports."""
        for there, here in (
            ("/etc/envoy", f"{self._folder}/etc"),
            ("/run/extproc", f"{self._folder}/run"),
            ("0.0.0.0", "127.0.0.1"),
            (f"port_value: {ADMIN}", f"port_value: {self.admin}"),
            (f"port_value: {METRICS}", f"port_value: {self.metrics}"),
            (f"127.0.0.1:{ADMIN}", f"127.0.0.1:{self.admin}"),
        ):
            text = text.replace(there, here)
        return text

    @property
    def arguments(self) -> list[str]:
        return [self.localized(word) for word in self._container["args"]]

    def ready_command(self) -> list[str]:
        return [self.localized(word) for word in self._container["readinessProbe"]["exec"]["command"]]

    def drain_command(self, *last: str) -> list[str]:
        """The preStop hook; `last` takes the place of its last arguments."""
        words = self._container["lifecycle"]["preStop"]["exec"]["command"]
        return [self.localized(word) for word in [*words[: len(words) - len(last)], *last]]

    def ready(self) -> bool:
        return subprocess.run(self.ready_command(), capture_output=True, timeout=10, check=False).returncode == 0

    def accepts(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    @contextmanager
    def request_under_way(self) -> Iterator[tuple[http.client.HTTPConnection, socket.socket]]:
        """A request that the backend has received and not answered: the client's end of it, and the backend's."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as client:
            client.request("GET", "/tokenize")
            upstream, _ = self._backend.accept()
            with upstream:
                assert upstream.recv(65536).startswith(b"GET /tokenize")
                yield client, upstream

    def write(self, objects: Sequence[Object]) -> None:
        """The container's files: those of its ConfigMap, and those that the processor would write."""
        (config,) = (each["data"] for each in of_kind(objects, "ConfigMap") if "envoy.yaml" in each["data"])
        address = f"127.0.0.1:{self._backend.getsockname()[1]}"
        authority = self._folder / "ca.crt"
        trustme.CA().cert_pem.write_to_path(authority)
        made = files(
            parse(
                f"""
listen: 127.0.0.1:{self.port}
models: [{{name: coder, backend: vllm, tools: prompt}}]
backends:
  - {{name: vllm, address: "{address}", health_check: false}}
  - {{name: with-tls, address: "{address}", health_check: false, tls: {{ca: {authority}}}}}
"""
            ),
            (),
            f"{self._folder}/run/envoy",
        )
        for directory, texts in (("etc", config), ("run/envoy", made)):
            (self._folder / directory).mkdir(parents=True)
            for name, text in texts.items():
                (self._folder / directory / name).write_text(self.localized(text), encoding="utf-8")


@contextmanager
def running(objects: Sequence[Object], folder: Path) -> Iterator[Envoy]:
    with (
        written(objects, folder) as envoy,
        subprocess.Popen([ENVOY, *envoy.arguments], stdout=subprocess.DEVNULL) as process,
    ):
        try:
            wait_until(lambda: process.poll() is not None or (envoy.ready() and envoy.accepts()))
            assert process.poll() is None, "Envoy ended"
            yield envoy
        finally:
            process.terminate()


@contextmanager
def written(objects: Sequence[Object], folder: Path) -> Iterator[Envoy]:
    """The container with its files, before it is started."""
    container = Pod(one(objects, "Deployment", "extproc")).containers["envoy"]
    with socket.create_server(("127.0.0.1", 0)) as backend:
        backend.settimeout(20)
        envoy = Envoy(container, folder, backend)
        envoy.write(objects)
        yield envoy

"""A pod of the manifests, run as the kubelet would run it; and the Service in front of several.

    start       the volumes, each sidecar and its startup probe, Envoy, its startup probe, readiness of all
    meanwhile   readiness is asked for; what ends is started again (restartPolicy Always)
    terminate   the pod leaves the Service, while nodes that don't know yet still send to it; Envoy's preStop hook,
                SIGTERM to Envoy, then SIGTERM to the sidecars, the last one first, all within the pod's grace period

Two times are shorter than in a cluster: HURRY of the probes, and of the hook's notice NOTICE. Everything that waits for
something to happen, waits as long as in a cluster. Three things of the kubelet's are missing: it takes up to a second
to see that a process has ended, it waits longer each time before it starts one again, and it asks for liveness.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from extproc.config import parse
from scripted_vllm import ScriptedVLLM
from tests.gateway import wait_until
from tests.k8s.rendered import BASE
from tests.pods.container import Container, port_named
from tests.pods.manifests import Manifests, manifests
from tests.pods.sandbox import Sandbox, Secrets

LAG = 0.5
"""Seconds until every node knows that a pod has left the Service."""
NOTICE = 3
"""Seconds that Envoy's hook waits for that: long enough for a client that has chosen the pod, and connects late."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a pod came to its end."""

    seconds: float
    envoy: int
    """Its exit status; negative for a signal, as with subprocess."""
    processor: int
    runner: int | None = None


class Pod:
    """The containers, and what the cluster thinks of them."""

    def __init__(self, manifests: Manifests, folder: Path, names: Mapping[str, str], secrets: Secrets) -> None:
        self._sandbox = Sandbox(manifests, folder, names, secrets)
        self._sandbox.lay_out()
        self._grace: int = manifests.pod["terminationGracePeriodSeconds"]
        (processor, *others), (envoy,) = manifests.pod["initContainers"], manifests.pod["containers"]
        sidecars = [processor, *others]
        assert all(each["restartPolicy"] == "Always" for each in sidecars), "else they would end before Envoy starts"
        self._containers = [
            Container(each, self._sandbox, folder / f"{each['name']}.log") for each in (*sidecars, envoy)
        ]
        """In the order of their starts."""
        self.processor, *runners, self.envoy = self._containers
        self.runner = runners[0] if runners else None
        (listener,) = (port["containerPort"] for port in envoy["ports"])
        self.port = self._sandbox.port(listener)
        self.url = f"http://127.0.0.1:{self.port}"
        self.metrics_url = f"http://127.0.0.1:{self._sandbox.port(port_named('metrics', processor))}/metrics"
        (listen,) = (word for word in processor["args"] if word.startswith("unix:"))
        self.socket = self._sandbox.text(listen).removeprefix("unix:")
        self.sockets = self._sandbox.volume("sockets")
        self._admin = self._sandbox.text(processor["args"][processor["args"].index("--envoy-admin") + 1])
        self._hook: list[str] = envoy["lifecycle"]["preStop"]["exec"]["command"]
        self._left: float | None = None

    def start(self) -> None:
        """Done when all containers have started; whether the pod is `ready`, is another question."""
        for container in self._containers:
            container.start()

    @property
    def ready(self) -> bool:
        """Whether it belongs to the Service."""
        return self._left is None and all(container.ready for container in self._containers)

    @property
    def sent_to(self) -> bool:
        """Whether some node still sends new connections to it."""
        return self.ready or (self._left is not None and time.monotonic() < self._left + LAG)

    def configure(self, settings: str) -> None:
        """Bring it another extproc.yaml, as the kubelet does when the ConfigMap has changed."""
        self._sandbox.put("extproc", {"extproc.yaml": settings})

    def characterize(self, files: Mapping[str, str]) -> None:
        """The same for the ConfigMap of characters."""
        self._sandbox.put("characters", files)

    def certify(self, pair: Mapping[str, str]) -> None:
        """Bring it another certificate and key, as the kubelet does when the Secret has changed."""
        self._sandbox.put("tls", pair)

    def access_log(self) -> list[dict[str, Any]]:
        """Envoy's lines; it would keep them to itself for up to ten seconds."""
        httpx.post(f"http://{self._admin}/reopen_logs").raise_for_status()
        return self.envoy.json_log()

    def terminate(self) -> Ending:
        """Delete the pod, and wait until it is gone."""
        begin = self._left = time.monotonic()
        verb, _, limit = self._hook[-3:]
        assert verb == "drain"
        for container in self._containers:
            container.stop_probing()
        self.envoy.hook((verb, str(NOTICE), limit))
        statuses = {each.name: each.stop(self._remaining(begin)) for each in reversed(self._containers)}
        return Ending(time.monotonic() - begin, **statuses)

    def kill(self) -> None:
        """End all at once."""
        for container in reversed(self._containers):
            container.kill()

    def _remaining(self, begin: float) -> float:
        return begin + self._grace - time.monotonic()


class Service:
    """Chooses a pod for each new connection, as kube-proxy does: those that are ready, in turn."""

    def __init__(self, pods: list[Pod]) -> None:
        self.pods = pods
        self._turn = 0

    def url(self) -> str:
        self._turn += 1
        serving = [pod for pod in self.pods if pod.sent_to]
        assert serving, "the Service has no endpoints"
        return serving[self._turn % len(serving)].url


class Cluster:
    """Starts pods."""

    def __init__(self, manifests: Manifests, names: Mapping[str, str], folder: Path) -> None:
        self._manifests = manifests
        self._names = names
        self._folder = folder
        self._pods: list[Pod] = []

    def configure(self, name: str, files: Mapping[str, str]) -> None:
        """Pods that start from now on have this in the ConfigMap of that name."""
        self._manifests = replace(self._manifests, config_maps={**self._manifests.config_maps, name: files})

    def start_pod(self) -> Pod:
        """One that is ready."""
        pod = self.begin_pod({})
        wait_until(lambda: pod.ready, 60)
        return pod

    def begin_pod(self, secrets: Secrets) -> Pod:
        """One whose containers have started."""
        folder = self._folder / str(len(self._pods))
        folder.mkdir()
        pod = Pod(self._manifests, folder, self._names, secrets)
        self._pods.append(pod)
        pod.start()
        return pod

    def kill(self) -> None:
        """End those that are left."""
        for pod in self._pods:
            pod.kill()


@contextmanager
def cluster(backend: ScriptedVLLM, kustomization: Path = BASE) -> Iterator[Cluster]:
    """A place for pods whose backends are all this one."""
    made_of = manifests(kustomization)
    config = parse(made_of.config_maps["extproc"]["extproc.yaml"])
    names = {address: f"127.0.0.1:{backend.port}" for each in config.backends for address in each.address}
    # Not where pytest keeps things: the path of a socket has room for some 100 characters.
    with tempfile.TemporaryDirectory(prefix="pods") as folder:
        made = Cluster(made_of, names, Path(folder))
        try:
            yield made
        finally:
            made.kill()

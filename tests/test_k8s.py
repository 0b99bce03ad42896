"""The Kubernetes base: consistent in itself, what the commands take, confined, and drained before it is stopped.

The manifests are read as they are, without a cluster. What the containers run is run for real where that can be done
on one machine: Envoy with its arguments, its probes and its preStop hook.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from extproc.cli import _parser, main
from extproc.config import load, parse
from extproc.envoy import bootstrap, to_yaml
from tests.gateway import ENVOY, free_port

ROOT = Path(__file__).parent.parent
BASE = ROOT / "deploy/k8s/base"
README = (ROOT / "deploy/k8s/README.md").read_text(encoding="utf-8")

Object: TypeAlias = dict[str, Any]


def read(name: str) -> Object:
    return dict(yaml.safe_load((BASE / name).read_text(encoding="utf-8")))


KUSTOMIZATION = read("kustomization.yaml")
DEPLOYMENT = read("deployment.yaml")
SERVICE = read("service.yaml")
ACCOUNT = read("serviceaccount.yaml")
BOOTSTRAP = read("envoy.yaml")

POD: Object = DEPLOYMENT["spec"]["template"]["spec"]
CONTAINERS: dict[str, Object] = {c["name"]: c for c in POD["initContainers"] + POD["containers"]}
PROCESSOR, GATEWAY = CONTAINERS["processor"], CONTAINERS["envoy"]

each_container = pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)


def serving() -> argparse.Namespace:
    """The processor's arguments as the command line understands them; SystemExit if it doesn't."""
    return _parser().parse_args(PROCESSOR["args"])


def commands_of(container: Object) -> Iterator[list[str]]:
    """Everything that is run in a container: its own command, its probes and its hooks."""
    yield container["command"] + container["args"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if "exec" in container.get(probe, {}):
            yield container[probe]["exec"]["command"]
    for hook in container.get("lifecycle", {}).values():
        yield hook["exec"]["command"]


READY: list[str] = GATEWAY["readinessProbe"]["exec"]["command"]
DRAIN: list[str] = GATEWAY["lifecycle"]["preStop"]["exec"]["command"]
ADMIN = READY[2]


def address_of(thing: Object) -> str:
    where = thing["address"]["socket_address"]
    return f"{where['address']}:{where['port_value']}"


# ---- one configuration


def test_envoys_configuration_is_what_the_settings_imply(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = re.findall(r"extproc (envoy .*) > deploy/k8s/base/envoy\.yaml", README)
    arguments = shlex.split(command.replace("deploy/k8s/base", str(BASE)))
    assert main(arguments) == 0
    made = capsys.readouterr().out
    assert (BASE / "envoy.yaml").read_text(encoding="utf-8") == made, "make it again as deploy/k8s/README.md says"


def test_envoy_finds_the_processor_where_it_listens() -> None:
    (processor,) = (c for c in BOOTSTRAP["static_resources"]["clusters"] if c["name"] == "_processor")
    endpoint = processor["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    assert serving().listen == f"unix:{endpoint['address']['pipe']['path']}"


def test_the_processors_socket_is_in_memory_that_both_containers_see() -> None:
    folder = str(Path(serving().listen.removeprefix("unix:")).parent)
    assert {"name": "sockets", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}} in POD["volumes"]
    assert {"name": "sockets", "mountPath": folder} in PROCESSOR["volumeMounts"]
    assert {"name": "sockets", "mountPath": folder, "readOnly": True} in GATEWAY["volumeMounts"]


def test_envoys_admin_interface_is_where_probes_ask_and_nobody_else_can() -> None:
    assert address_of(BOOTSTRAP["admin"]) == ADMIN == DRAIN[2]
    assert ADMIN.startswith("127.0.0.1:")


def test_the_service_leads_to_envoys_listener() -> None:
    listen = load(BASE / "extproc.yaml").listen_address
    assert listen.host == "0.0.0.0"
    assert GATEWAY["ports"] == [{"name": SERVICE["spec"]["ports"][0]["targetPort"], "containerPort": listen.port}]
    assert SERVICE["spec"]["selector"].items() <= DEPLOYMENT["spec"]["template"]["metadata"]["labels"].items()
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == DEPLOYMENT["spec"]["template"]["metadata"]["labels"]


# ---- files and volumes


def generated() -> dict[str, list[str]]:
    return {made["name"]: made["files"] for made in KUSTOMIZATION["configMapGenerator"]}


def test_kustomize_is_given_every_file_and_no_other() -> None:
    files = [*KUSTOMIZATION["resources"], *(file for files in generated().values() for file in files)]
    assert sorted([*files, "kustomization.yaml"]) == sorted(path.name for path in BASE.iterdir())


def test_both_configmaps_are_generated_and_their_names_change_with_their_content() -> None:
    assert generated() == {"extproc": ["extproc.yaml"], "envoy": ["envoy.yaml", "admin.sh"]}
    assert "generatorOptions" not in KUSTOMIZATION


@each_container
def test_every_file_that_is_used_is_mounted(container: Object) -> None:
    sources = {volume["name"]: volume["configMap"]["name"] for volume in POD["volumes"] if "configMap" in volume}
    mounted = {
        f"{mount['mountPath']}/{file}"
        for mount in container["volumeMounts"]
        if mount["name"] in sources
        for file in generated()[sources[mount["name"]]]
    }
    words = [word for command in commands_of(container) for word in command]
    used = {word for word in words if word.startswith("/")}
    assert used == mounted


# ---- the commands


def test_the_processor_is_started_as_the_command_line_allows() -> None:
    assert PROCESSOR["command"] == ["extproc"]
    assert PROCESSOR["args"][0] == "serve"
    assert load(BASE / serving().config.name).backends


def test_envoy_accepts_its_arguments_and_its_configuration() -> None:
    assert GATEWAY["command"] == ["envoy"]
    arguments = [argument.replace("/etc/envoy", str(BASE)) for argument in GATEWAY["args"]]
    checked = subprocess.run([ENVOY, *arguments, "--mode", "validate"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert checked.stderr == "", "Envoy warns of something"


def test_the_image_and_the_tests_have_the_same_envoy() -> None:
    version = subprocess.run([ENVOY, "--version"], capture_output=True, text=True, check=True).stdout
    assert GATEWAY["image"].partition(":v")[2] in version.split("/")


# ---- confined


def test_the_pod_runs_as_nobody_in_particular() -> None:
    context = POD["securityContext"]
    assert context["runAsNonRoot"] is True
    assert min(context["runAsUser"], context["runAsGroup"]) > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_pod_has_nothing_of_its_node() -> None:
    assert not {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} & POD.keys()
    assert all(volume.keys() <= {"name", "configMap", "emptyDir"} for volume in POD["volumes"])


def test_the_pod_has_no_token_and_no_other_services_addresses() -> None:
    assert ACCOUNT["automountServiceAccountToken"] is False
    assert POD["automountServiceAccountToken"] is False
    assert POD["serviceAccountName"] == ACCOUNT["metadata"]["name"]
    assert POD["enableServiceLinks"] is False


@each_container
def test_a_container_may_do_nothing_and_write_nothing_but_its_socket(container: Object) -> None:
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == (["sockets"] if container is PROCESSOR else [])
    assert all("hostPort" not in port for port in container["ports"])


@each_container
def test_a_container_says_what_it_needs(container: Object) -> None:
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert container["resources"]["limits"].keys() == {"memory"}, "being throttled would delay every token"


@each_container
def test_an_image_has_a_version(container: Object) -> None:
    assert re.search(r":v?\d+\.\d+\.\d+$", container["image"])


def test_the_image_is_not_roots() -> None:
    stages = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8").split("\nFROM ")
    user = f"USER {POD['securityContext']['runAsUser']}:{POD['securityContext']['runAsGroup']}"
    assert user in stages[-1].splitlines()


# ---- coming and going


def test_the_processor_outlives_envoy() -> None:
    assert [container["name"] for container in POD["initContainers"]] == ["processor"]
    assert PROCESSOR["restartPolicy"] == "Always"


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_the_processors_health_is_asked_where_it_is_served(probe: str) -> None:
    host, _, port = serving().health.rpartition(":")
    assert host == "0.0.0.0"
    assert PROCESSOR[probe]["grpc"] == {"port": int(port)}


def test_the_processors_ports_are_those_it_serves() -> None:
    options = serving()
    served = {"health": options.health, "metrics": options.metrics}
    ports = {port["name"]: f"0.0.0.0:{port['containerPort']}" for port in PROCESSOR["ports"]}
    assert ports == served


def test_there_is_time_for_the_hook_and_for_the_processor() -> None:
    _, _, _, verb, notice, limit = DRAIN
    assert verb == "drain"
    assert POD["terminationGracePeriodSeconds"] >= int(notice) + int(limit) + serving().grace


class Envoy:
    """Envoy as its container runs it, on other ports; its backend is a socket that the test answers by hand."""

    def __init__(self, port: int, admin: int, backend: socket.socket) -> None:
        self.port = port
        self._admin = admin
        self._backend = backend

    def command(self, command: list[str], *last: str) -> list[str]:
        """A probe or a hook of the container, for this Envoy; `last` replaces its last arguments."""
        words = [*command[: len(command) - len(last)], *last]
        return [word.replace("/etc/envoy", str(BASE)).replace(ADMIN, f"127.0.0.1:{self._admin}") for word in words]

    def ready(self) -> bool:
        done = subprocess.run(self.command(READY), capture_output=True, timeout=10, check=False)
        return done.returncode == 0

    def accepts(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    @contextmanager
    def request_under_way(self) -> Iterator[tuple[http.client.HTTPConnection, socket.socket]]:
        """A request that the backend has received and not answered: the client's end of it, and the backend's."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as client:
            client.request("GET", "/version")
            upstream, _ = self._backend.accept()
            with upstream:
                assert upstream.recv(65536).startswith(b"GET /version")
                yield client, upstream


@contextmanager
def running_envoy(folder: Path) -> Iterator[Envoy]:
    with socket.create_server(("127.0.0.1", 0)) as backend:
        backend.settimeout(20)
        port, admin = free_port(), free_port()
        settings = f"""
listen: 127.0.0.1:{port}
models: [{{name: coder, backend: vllm, tools: prompt}}]
backends: [{{name: vllm, address: "127.0.0.1:{backend.getsockname()[1]}", health_check: false}}]
"""
        made = bootstrap(parse(settings), processor="127.0.0.1:1", admin=f"127.0.0.1:{admin}")
        (folder / "envoy.yaml").write_text(to_yaml(made), encoding="utf-8")
        arguments = [argument.replace("/etc/envoy", str(folder)) for argument in GATEWAY["args"]]
        with subprocess.Popen([ENVOY, *arguments], stdout=subprocess.DEVNULL) as process:
            try:
                envoy = Envoy(port, admin, backend)
                wait_until(lambda: process.poll() is not None or envoy.ready())
                assert process.poll() is None, "Envoy ended"
                yield envoy
            finally:
                process.terminate()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_hook_lets_a_request_finish_and_takes_no_more(tmp_path: Path) -> None:
    with running_envoy(tmp_path) as envoy, envoy.request_under_way() as (client, upstream):
        with subprocess.Popen(envoy.command(DRAIN, "0", "20")) as hook:
            wait_until(lambda: not envoy.accepts())
            assert not envoy.ready()
            with pytest.raises(subprocess.TimeoutExpired):
                hook.wait(0.5)
            upstream.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            answer = client.getresponse()
            assert answer.read() == b"{}"
            assert answer.headers["connection"] == "close"
        assert hook.returncode == 0


def test_the_hook_still_takes_connections_while_the_cluster_learns_that_the_pod_leaves(tmp_path: Path) -> None:
    with (
        running_envoy(tmp_path) as envoy,
        subprocess.Popen(envoy.command(DRAIN, "30", "0"), start_new_session=True) as hook,
    ):
        try:
            wait_until(lambda: not envoy.ready())
            with envoy.request_under_way():
                assert hook.poll() is None
        finally:
            os.killpg(hook.pid, signal.SIGKILL)  # its sleep too


def test_the_hook_ends_when_its_time_is_up(tmp_path: Path) -> None:
    with running_envoy(tmp_path) as envoy, envoy.request_under_way() as (client, upstream):
        assert subprocess.run(envoy.command(DRAIN, "0", "0"), timeout=20, check=False).returncode == 0
        upstream.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        assert client.getresponse().status == 204, "the request was still under way"


def test_envoy_is_not_ready_when_it_is_not_there() -> None:
    with socket.socket() as backend:
        assert not Envoy(free_port(), free_port(), backend).ready()

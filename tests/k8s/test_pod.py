"""The base's pod: consistent in itself, what the commands take, and drained before it is stopped.

What holds for the pods of all overlays is in test_policy.py; that the commands do their work together is shown by
tests/pods, which runs them.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from extproc.cli import main
from extproc.commands.parser import understood
from extproc.envoy.dynamic import ENVOY_ARGUMENTS
from extproc.server.processor import ENVOY_HEALTH
from tests.gateway import ENVOY
from tests.k8s.envoy_container import written
from tests.k8s.rendered import BASE, EVERYTHING, K8S, Object, Pod, named, of_kind, one, rendered

README = (K8S / "README.md").read_text(encoding="utf-8")
OBJECTS = rendered(BASE)
POD = Pod(one(OBJECTS, "Deployment", "extproc"))
PROCESSOR, GATEWAY = POD.containers["processor"], POD.containers["envoy"]
BOOTSTRAP: Object = yaml.safe_load((BASE / "envoy.yaml").read_text(encoding="utf-8"))
MEMORY = {"medium": "Memory", "sizeLimit": "8Mi"}
SOCKETS = {"name": "sockets", "mountPath": "/run/sockets"}

each_container = pytest.mark.parametrize("container", POD.containers.values(), ids=POD.containers)


def serving(container: Object = PROCESSOR) -> argparse.Namespace:
    """The processor's arguments as the command line understands them; SystemExit if it doesn't."""
    return understood(container["args"])


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


# ---- one configuration


def test_envoys_bootstrap_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = re.findall(r"extproc (envoy .*) > deploy/k8s/base/envoy\.yaml", README)
    assert main(shlex.split(command)) == 0
    made = capsys.readouterr().out
    assert (BASE / "envoy.yaml").read_text(encoding="utf-8") == made, "make it again as deploy/k8s/README.md says"


def test_envoy_finds_the_processor_where_it_listens() -> None:
    (processor,) = (c for c in BOOTSTRAP["static_resources"]["clusters"] if c["name"] == "_processor")
    endpoint = processor["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    assert serving().listen == f"unix:{endpoint['address']['pipe']['path']}"


def test_envoy_reads_its_files_where_the_processor_writes_them() -> None:
    sources = [BOOTSTRAP["dynamic_resources"][which]["path_config_source"] for which in ("lds_config", "cds_config")]
    assert {source["watched_directory"]["path"] for source in sources} == {str(serving().envoy)}
    at = GATEWAY["args"].index(ENVOY_ARGUMENTS[0])
    assert tuple(GATEWAY["args"][at : at + len(ENVOY_ARGUMENTS)]) == ENVOY_ARGUMENTS


def test_socket_and_files_are_in_memory_that_both_containers_see() -> None:
    folder = str(Path(serving().listen.removeprefix("unix:")).parent)
    assert serving().envoy.is_relative_to(folder)
    assert {"name": "shared", "emptyDir": MEMORY} in POD.spec["volumes"]
    assert {"name": "shared", "mountPath": folder} in PROCESSOR["volumeMounts"]
    assert {"name": "shared", "mountPath": folder, "readOnly": True} in GATEWAY["volumeMounts"]


def test_envoy_may_listen_where_the_processor_has_it_listen_for_what_the_gateway_asks_itself() -> None:
    assert str(serving().sockets) == SOCKETS["mountPath"]
    assert SOCKETS in GATEWAY["volumeMounts"]
    assert {**SOCKETS, "readOnly": True} in PROCESSOR["volumeMounts"]
    (volume,) = (each for each in POD.spec["volumes"] if each["name"] == "sockets")
    assert volume["emptyDir"]["medium"] == "Memory"


def test_envoys_admin_interface_is_where_probes_and_the_processor_ask_and_nobody_else_can() -> None:
    where = BOOTSTRAP["admin"]["address"]["socket_address"]
    assert f"{where['address']}:{where['port_value']}" == ADMIN == DRAIN[2] == serving().envoy_admin
    assert ADMIN.startswith("127.0.0.1:")


def test_both_containers_find_the_keys_of_backends_and_only_the_processor_those_of_clients() -> None:
    mounted = {name: {mount["mountPath"] for mount in c["volumeMounts"]} for name, c in POD.containers.items()}
    assert "/etc/backend-keys" in mounted["processor"] & mounted["envoy"]
    assert "/etc/api-keys" in mounted["processor"] - mounted["envoy"]
    secrets = [volume["secret"] for volume in POD.spec["volumes"] if "secret" in volume]
    assert {secret["secretName"] for secret in secrets} == {"extproc-api-keys", "extproc-backend-keys"}
    assert all(secret["optional"] is True for secret in secrets)


@each_container
def test_every_file_that_is_used_is_mounted(container: Object) -> None:
    maps = {each["metadata"]["name"]: each["data"] for each in of_kind(OBJECTS, "ConfigMap")}
    volumes = {v["name"]: maps[v["configMap"]["name"]] for v in POD.spec["volumes"] if "configMap" in v}
    mounted = {
        f"{mount['mountPath']}/{file}" for mount in container["volumeMounts"] for file in volumes.get(mount["name"], ())
    }
    used = {word for command in commands_of(container) for word in command if word.startswith("/etc/")}
    assert used == mounted


def test_what_envoy_reads_once_has_a_name_that_changes_with_it() -> None:
    (name,) = (each["metadata"]["name"] for each in of_kind(OBJECTS, "ConfigMap") if "envoy.yaml" in each["data"])
    assert re.fullmatch(r"envoy-[0-9a-z]{10}", name)


# ---- the commands


@pytest.mark.parametrize("folder", EVERYTHING, ids=named)
def test_the_processor_is_started_as_the_command_line_allows(folder: Path) -> None:
    (processor,) = (
        container
        for each in of_kind(rendered(folder), "Deployment")
        for name, container in Pod(each).containers.items()
        if name == "processor"
    )
    assert processor["command"] == ["extproc"]
    options = serving(processor)
    assert str(options.config) == "/etc/extproc/extproc.yaml"
    served = {"health": options.health, "metrics": options.metrics, "grpc": options.listen}
    for port in processor["ports"]:
        assert served[port["name"]] == f"0.0.0.0:{port['containerPort']}"


@pytest.mark.parametrize("overlay", ["base", "overlays/monitoring", "overlays/tls"])
def test_envoy_accepts_its_arguments_and_its_configuration(overlay: str, tmp_path: Path) -> None:
    with written(rendered(K8S / overlay), tmp_path) as envoy:
        command = [str(ENVOY), *envoy.arguments, "--mode", "validate"]
        checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stderr
    assert checked.stderr == "", "Envoy warns of something"


def test_the_image_and_the_tests_have_the_same_envoy() -> None:
    version = subprocess.run([ENVOY, "--version"], capture_output=True, text=True, check=True).stdout
    assert GATEWAY["image"].partition(":v")[2] in version.split("/")


# ---- coming and going


def test_the_processor_outlives_envoy() -> None:
    assert [container["name"] for container in POD.spec["initContainers"]] == ["processor"]
    assert PROCESSOR["restartPolicy"] == "Always"


def test_the_processors_health_is_asked_where_it_is_served() -> None:
    host, _, port = serving().health.rpartition(":")
    assert host == "0.0.0.0"
    for probe in ("startupProbe", "livenessProbe"):
        assert PROCESSOR[probe]["grpc"] == {"port": int(port)}
    assert PROCESSOR["readinessProbe"]["grpc"] == {"port": int(port), "service": ENVOY_HEALTH}


def test_a_processor_alone_is_not_asked_for_an_envoy() -> None:
    (container,) = Pod(one(rendered(K8S / "processor"), "Deployment", "extproc-processor")).containers.values()
    port = int(serving(container).listen.rpartition(":")[2])
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["grpc"] == {"port": port}


def test_there_is_time_for_the_hook_and_for_the_processor() -> None:
    _, _, _, verb, notice, limit = DRAIN
    assert verb == "drain"
    assert POD.spec["terminationGracePeriodSeconds"] >= int(notice) + int(limit) + serving().grace


def test_a_processor_alone_has_time_for_its_streams() -> None:
    pod = Pod(one(rendered(K8S / "processor"), "Deployment", "extproc-processor"))
    (container,) = pod.containers.values()
    verb, notice = container["lifecycle"]["preStop"]["exec"]["command"]
    assert verb == "sleep"
    assert pod.spec["terminationGracePeriodSeconds"] >= int(notice) + serving(container).grace


@pytest.mark.parametrize("folder", [BASE, K8S / "processor"], ids=named)
def test_pods_are_added_by_the_processors_work_and_taken_away_slowly(folder: Path) -> None:
    (scaler,) = (each["spec"] for each in of_kind(rendered(folder), "HorizontalPodAutoscaler"))
    (deployment,) = of_kind(rendered(folder), "Deployment")
    (metric,) = scaler["metrics"]
    assert metric["containerResource"]["container"] in Pod(deployment).containers
    assert "replicas" not in deployment["spec"], "applying it again would undo the autoscaler's choice"
    grace = Pod(deployment).spec["terminationGracePeriodSeconds"]
    assert scaler["behavior"]["scaleDown"]["stabilizationWindowSeconds"] >= grace
    assert scaler["minReplicas"] >= 2


@pytest.mark.parametrize("folder", [BASE, K8S / "processor"], ids=named)
def test_pods_leave_one_at_a_time_and_are_apart(folder: Path) -> None:
    (deployment,) = of_kind(rendered(folder), "Deployment")
    (budget,) = of_kind(rendered(folder), "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    strategy = deployment["spec"]["strategy"]
    assert (strategy["type"], strategy["rollingUpdate"]["maxUnavailable"]) == ("RollingUpdate", 0)
    spread = Pod(deployment).spec["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]

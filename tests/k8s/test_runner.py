"""The pod with a runner: it gets what it needs and nothing by which it could do more, and is stopped last but one."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import yaml

from extproc.commands.parser import understood
from extproc.config import parse
from extproc.observability.metrics_page import PATH
from tests.k8s.rendered import BASE, K8S, ROOT, Object, Pod, of_kind, one, render, rendered, settings
from tests.k8s.test_readmes import blocks

CHARACTERS = K8S / "overlays/characters"
OBJECTS = rendered(CHARACTERS)
POD = Pod(one(OBJECTS, "Deployment", "extproc"))
RUNNER, PROCESSOR, GATEWAY = (POD.containers[name] for name in ("runner", "processor", "envoy"))
CONFIG = parse(settings(OBJECTS))


def told(container: Object) -> argparse.Namespace:
    return understood(container["args"])


def mounts(container: Object) -> dict[str, Object]:
    return {mount["name"]: mount for mount in container["volumeMounts"]}


def test_it_is_started_as_the_command_line_allows_with_the_processors_configuration() -> None:
    assert [*RUNNER["command"], RUNNER["args"][0]] == ["extproc", "runner"]
    options = told(RUNNER)
    assert options.config == told(PROCESSOR).config
    (port,) = RUNNER["ports"]
    assert options.metrics == f"0.0.0.0:{port['containerPort']}"


def test_it_has_the_processors_image() -> None:
    assert RUNNER["image"] == PROCESSOR["image"]


def test_nothing_else_of_the_pod_differs_from_the_bases() -> None:
    base = Pod(one(rendered(BASE), "Deployment", "extproc"))
    assert {name: each for name, each in POD.containers.items() if name != "runner"} == base.containers
    assert base.spec.keys() == POD.spec.keys()
    assert [volume for volume in POD.spec["volumes"] if volume not in base.spec["volumes"]] == [
        {"name": "characters", "configMap": {"name": "extproc-characters", "optional": True}}
    ]
    for kind in ("NetworkPolicy", "Service", "HorizontalPodAutoscaler"):
        assert of_kind(OBJECTS, kind) == of_kind(rendered(BASE), kind)


# ---- sockets


def test_envoy_the_processor_and_the_runner_meet_in_one_directory_which_two_of_them_listen_in() -> None:
    paths = {str(told(container).sockets) for container in (PROCESSOR, RUNNER)}
    paths |= {mounts(container)["sockets"]["mountPath"] for container in (PROCESSOR, RUNNER, GATEWAY)}
    assert len(paths) == 1
    listening = [name for name, each in POD.containers.items() if not mounts(each)["sockets"].get("readOnly")]
    assert listening == ["runner", "envoy"]


def test_all_containers_are_one_user_and_group_whose_sockets_they_are() -> None:
    """Envoy and the runner make theirs for nobody else (0660)."""
    assert POD.spec["securityContext"].items() >= {"runAsUser": 65532, "runAsGroup": 65532}.items()
    for container in POD.containers.values():
        assert not {"runAsUser", "runAsGroup"} & container["securityContext"].keys()


# ---- what it sees


def test_it_sees_no_key_no_certificate_and_nothing_by_which_envoy_is_told_what_to_do() -> None:
    secrets = {volume["name"] for volume in POD.spec["volumes"] if "secret" in volume}
    assert secrets
    assert mounts(RUNNER).keys() == {"extproc", "characters", "sockets"}
    assert not RUNNER.keys() & {"env", "envFrom"}


def test_characters_are_seen_by_the_runner_alone_where_the_configuration_says() -> None:
    assert mounts(RUNNER)["characters"] == {
        "name": "characters",
        "mountPath": str(CONFIG.characters),
        "readOnly": True,
    }
    assert [name for name, each in POD.containers.items() if "characters" in mounts(each)] == ["runner"]


def test_the_sample_is_the_one_of_the_checkout() -> None:
    sample = (ROOT / "envoy/characters/narrator.py").read_text(encoding="utf-8")
    assert one(OBJECTS, "ConfigMap", "extproc-characters")["data"] == {"narrator.py": sample}


def test_the_configuration_is_the_bases_with_characters() -> None:
    base = yaml.safe_load(settings(rendered(BASE)))
    assert yaml.safe_load(settings(OBJECTS)) == {**base, "characters": "/etc/characters"}


# ---- coming and going


def test_it_starts_after_the_processor_and_is_stopped_between_envoy_and_the_processor() -> None:
    assert [container["name"] for container in POD.spec["initContainers"]] == ["processor", "runner"]
    assert RUNNER["restartPolicy"] == "Always"


def test_a_pod_does_not_depend_on_its_characters() -> None:
    assert "readinessProbe" not in RUNNER
    (port,) = RUNNER["ports"]
    for probe in ("startupProbe", "livenessProbe"):
        assert RUNNER[probe]["httpGet"] == {"path": PATH, "port": port["name"]}


def test_there_is_time_for_the_hook_and_for_both_that_are_stopped_then() -> None:
    *_, notice, limit = GATEWAY["lifecycle"]["preStop"]["exec"]["command"]
    needed = int(notice) + int(limit) + told(RUNNER).grace + told(PROCESSOR).grace
    assert POD.spec["terminationGracePeriodSeconds"] >= needed


def test_envoy_waits_as_long_as_a_run_may_take() -> None:
    *_, limit = GATEWAY["lifecycle"]["preStop"]["exec"]["command"]
    assert int(limit) >= CONFIG.runs.seconds


# ---- its README


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A kustomization as the README has it, beside the checkout's deploy/."""
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (own,) = (block for block in blocks(CHARACTERS / "README.md", "yaml") if block.startswith("components:"))
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(f"resources: [../deploy/k8s/base]\n{own}", encoding="utf-8")
    (folder / "narrator.py").write_text("TOOLS = None\n", encoding="utf-8")
    return folder


def test_a_kustomization_of_ones_own_has_its_characters(mine: Path) -> None:
    objects = render(mine)
    assert "runner" in Pod(one(objects, "Deployment", "extproc")).containers
    assert one(objects, "ConfigMap", "extproc-characters")["data"] == {"narrator.py": "TOOLS = None\n"}


def test_mcp_servers_come_in_by_patches_and_their_keys_are_the_runners_alone(mine: Path) -> None:
    (patches,) = (block for block in blocks(CHARACTERS / "README.md", "yaml") if block.startswith("patches:"))
    with (mine / "kustomization.yaml").open("a", encoding="utf-8") as file:
        file.write(patches)
    objects = render(mine)
    (told,) = (block for block in blocks(CHARACTERS / "README.md", "yaml") if block.startswith("models:"))
    (server,) = parse(f"{told}backends: [{{name: vllm, address: vllm:8000}}]").tool_servers
    pod = Pod(one(objects, "Deployment", "extproc"))
    assert [each["name"] for each in pod.spec["initContainers"]] == ["processor", "runner"]
    assert server.api_key is not None
    mounted = {"name": "tool-keys", "mountPath": str(server.api_key.parent), "readOnly": True}
    assert [name for name, each in pod.containers.items() if mounted in each["volumeMounts"]] == ["runner"]
    assert {"name": "tool-keys", "secret": {"secretName": "extproc-tool-keys"}} in pod.spec["volumes"]
    allowed = one(objects, "NetworkPolicy", "extproc")["spec"]["egress"][-1]
    assert server.url is not None
    assert f":{allowed['ports'][0]['port']}/" in server.url

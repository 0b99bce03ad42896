"""What the READMEs print works, as far as it does without a cluster."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from extproc.commands.parser import understood
from extproc.config import parse
from tests.k8s.rendered import (
    BASE,
    K8S,
    OF_TWO_NAMESPACES,
    OVERLAYS,
    ROOT,
    Pod,
    named,
    of_kind,
    one,
    pods,
    render,
    rendered,
    settings,
)

READMES = [K8S / "README.md", K8S / "processor/README.md", *(overlay / "README.md" for overlay in OVERLAYS)]

CHARACTERS = K8S / "overlays/characters/README.md"

each_readme = pytest.mark.parametrize("readme", READMES, ids=lambda path: named(path.parent))


def blocks(readme: Path, language: str) -> list[str]:
    """The fenced blocks in that language, without their indentation."""
    text = readme.read_text(encoding="utf-8")
    found = re.findall(rf"^ *(?:\d+\. )?```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [dedent(block) for block in found]


def commands(readme: Path) -> Iterator[list[str]]:
    """The single commands of its shell blocks, without pipes and redirections."""
    for block in blocks(readme, "bash"):
        lines = re.sub(r"<<'EOF'\n.*?^ *EOF$", "", block, flags=re.MULTILINE | re.DOTALL)
        words = shlex.shlex(lines.replace("\n", " ; "), posix=True, punctuation_chars="|<>;")
        words.whitespace_split = True
        command: list[str] = []
        for word in [*words, ";"]:
            if set(word) <= set("|<>;"):
                if command:
                    yield command
                command = []
            else:
                command.append(word)


@each_readme
def test_shell_commands_are_spelled_right(readme: Path) -> None:
    for block in blocks(readme, "bash"):
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)


@each_readme
def test_our_own_commands_are_understood(readme: Path) -> None:
    for command in commands(readme):
        if command[0] == "extproc":
            understood(command[1:])


@each_readme
def test_what_is_applied_is_there(readme: Path) -> None:
    for command in commands(readme):
        if command[:2] == ["kubectl", "apply"] and "-k" in command:
            folder = command[command.index("-k") + 1]
            assert folder == "my-gateway" or rendered(ROOT / folder)
            assert ("-n" in command) is (Path(folder).name not in OF_TWO_NAMESPACES)


def test_the_images_that_a_machine_is_given_are_those_of_its_pods() -> None:
    local = K8S / "overlays/local"
    (loaded,) = (command for command in commands(local / "README.md") if command[:2] == ["kind", "load"])
    needed = {each["image"] for pod in pods(rendered(local)) for each in pod.containers.values()}
    assert set(loaded[loaded.index("extproc") + 1 :]) == needed
    made = [command for command in commands(local / "README.md") if command[0] == "docker"]
    assert {command[-1] if command[1] == "pull" else command[command.index("-t") + 1] for command in made} == needed
    assert all((ROOT / command[command.index("-f") + 1]).exists() for command in made if command[1] == "build")


@each_readme
def test_what_is_asked_for_by_name_is_there(readme: Path) -> None:
    """Objects that commands name as kind/name, such as deployment/extproc."""
    folder = BASE if readme.parent == K8S else readme.parent
    kinds = {"deployment": "Deployment", "service": "Service", "certificate": "Certificate"}
    for command in commands(readme):
        for word in command if "istio-system" not in command else []:
            kind, _, name = word.partition("/")
            if command[0] == "kubectl" and kind in kinds:
                assert one(rendered(folder), kinds[kind], name)


@each_readme
def test_links_lead_somewhere(readme: Path) -> None:
    for target in re.findall(r"\]\((?!https:)([^)#]+)", readme.read_text(encoding="utf-8")):
        assert (readme.parent / target).exists(), target


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The kustomization that the READMEs describe, beside the checkout's deploy/."""
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    for readme in (K8S / "README.md", K8S / "overlays/vllm/README.md"):
        (text,) = (block for block in blocks(readme, "yaml") if block.startswith("# my-gateway/"))
        path = tmp_path / text.partition("\n")[0].removeprefix("# ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    second = next(block for block in blocks(K8S / "overlays/vllm/README.md", "yaml") if block.startswith("models:"))
    config = yaml.safe_load((K8S / "overlays/vllm/extproc.yaml").read_text(encoding="utf-8"))
    for name, entries in yaml.safe_load(second).items():
        config[name] += entries
    (tmp_path / "my-gateway/extproc.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return tmp_path / "my-gateway"


def test_a_kustomization_of_ones_own_has_the_parts_that_it_names(mine: Path) -> None:
    objects = render(mine)
    assert {"PodMonitor", "PrometheusRule", "PersistentVolumeClaim"} <= {each["kind"] for each in objects}
    processor = Pod(one(objects, "Deployment", "extproc")).containers["processor"]
    assert processor["image"] == "registry.example/extproc:0.1.0"
    assert settings(objects) == (mine / "extproc.yaml").read_text(encoding="utf-8")


def test_a_second_model_is_a_server_of_its_own_that_the_gateway_may_go_to(mine: Path) -> None:
    kustomization = yaml.safe_load((mine / "kustomization.yaml").read_text(encoding="utf-8"))
    kustomization["resources"].append("small")
    (mine / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    objects = render(mine)
    config = parse(settings(objects))
    servers = [pod for pod in pods(objects) if pod.name.startswith("vllm")]
    assert len(servers) == 2
    for backend in config.backends:
        (address,) = backend.endpoints
        service = one(objects, "Service", address.host)
        (server,) = (pod for pod in servers if pod.selected_by({"matchLabels": service["spec"]["selector"]}))
        (model,) = (model.upstream_model for model in config.models if model.backend == backend.name)
        assert server.containers["vllm"]["args"][0] == model
        (policy,) = (
            each for each in of_kind(objects, "NetworkPolicy") if server.selected_by(each["spec"]["podSelector"])
        )
        assert policy["spec"]["ingress"][0]["from"] == [
            {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "extproc"}}}
        ]
    claims = [volume["persistentVolumeClaim"] for server in servers for volume in server.spec["volumes"][:1]]
    assert claims[0] != claims[1]


def test_every_alert_is_listed() -> None:
    readme = (K8S / "overlays/monitoring/README.md").read_text(encoding="utf-8")
    objects = rendered(K8S / "overlays/monitoring")
    for rules in of_kind(objects, "PrometheusRule"):
        for rule in (each for each in rules["spec"]["groups"][0]["rules"] if "alert" in each):
            (row,) = (line for line in readme.splitlines() if f"`{rule['alert']}`" in line)
            assert f"| {rule['labels']['severity']} |" in row


def test_other_backends_come_in_by_a_patch(mine: Path) -> None:
    (patches,) = (block for block in blocks(K8S / "README.md", "yaml") if block.startswith("patches:"))
    with (mine / "kustomization.yaml").open("a", encoding="utf-8") as file:
        file.write(patches)
    (_, _, pods_there, server_there) = one(render(mine), "NetworkPolicy", "extproc")["spec"]["egress"]
    assert pods_there["ports"] == [{"port": 8080, "protocol": "TCP"}]
    assert server_there["to"] == [{"ipBlock": {"cidr": "192.0.2.7/32"}}]


def test_characters_of_ones_own_come_in_by_a_component(mine: Path) -> None:
    """With the file that the README's generator names, and the server and the key that its patches let in."""
    components, patches, _ = blocks(CHARACTERS, "yaml")
    (mine / "kustomization.yaml").write_text(
        "resources: [../deploy/k8s/base]\n" + components + patches, encoding="utf-8"
    )
    (mine / "narrator.py").write_text("TOOLS = []\n", encoding="utf-8")
    objects = render(mine)
    (characters,) = (each for each in of_kind(objects, "ConfigMap") if each["metadata"]["name"] == "extproc-characters")
    assert characters["data"] == {"narrator.py": "TOOLS = []\n"}
    (*_, server) = one(objects, "NetworkPolicy", "extproc")["spec"]["egress"]
    assert server["ports"] == [{"port": 8080, "protocol": "TCP"}]
    pod = Pod(one(objects, "Deployment", "extproc"))
    (runner,) = (name for name, each in pod.containers.items() if _mounts(each, "/etc/tool-keys"))
    assert runner == "runner"
    assert {"name": "tool-keys", "secret": {"secretName": "extproc-tool-keys"}} in pod.spec["volumes"]


def _mounts(container: Any, path: str) -> bool:
    return any(each["mountPath"] == path for each in container.get("volumeMounts", ()))


def test_tls_for_the_processor_comes_in_by_a_patch(tmp_path: Path) -> None:
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (patches,) = blocks(K8S / "processor/README.md", "yaml")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/kustomization.yaml").write_text(
        "resources: [../deploy/k8s/overlays/envoy-gateway]\n" + patches, encoding="utf-8"
    )
    processor = Pod(one(render(tmp_path / "mine"), "Deployment", "extproc-processor")).containers["processor"]
    options = understood(processor["args"])
    mounted = {each["mountPath"] for each in processor["volumeMounts"]}
    assert {str(file.parent) for file in (options.tls_certificate, options.tls_key, options.tls_client_ca)} <= mounted
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert f":{processor[probe]['grpc']['port']}" in options.health


def test_the_gateway_can_be_reached_from_outside(tmp_path: Path) -> None:
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (text,) = (b for b in blocks(K8S / "overlays/tls/README.md", "yaml") if b.startswith("# my-gateway/"))
    (tmp_path / "my-gateway").mkdir()
    (tmp_path / "my-gateway/kustomization.yaml").write_text(text, encoding="utf-8")
    objects = render(tmp_path / "my-gateway")
    service = one(objects, "Service", "extproc")["spec"]
    assert (service["type"], [port["port"] for port in service["ports"]]) == ("LoadBalancer", [443])
    (clients,) = one(objects, "NetworkPolicy", "extproc")["spec"]["ingress"]
    assert {"ipBlock": {"cidr": "203.0.113.0/24"}} in clients["from"]
    assert clients["ports"] == [{"port": 10000, "protocol": "TCP"}]


def test_kserves_service_is_the_backend() -> None:
    (service,) = map(yaml.safe_load, blocks(K8S / "overlays/kserve/README.md", "yaml"))
    config = parse((K8S / "overlays/kserve/extproc.yaml").read_text(encoding="utf-8"))
    (backend,), (model,) = config.backends, config.models
    meta = service["metadata"]
    assert backend.endpoints[0].host == f"{meta['name']}-predictor.{meta['namespace']}.svc.cluster.local"
    assert f"--model_name={model.upstream_name}" in service["spec"]["predictor"]["model"]["args"]


def test_a_public_authority_is_asked_for_public_names_alone() -> None:
    certificate = one(rendered(K8S / "overlays/tls"), "Certificate", "extproc")["spec"]
    assert not [name for name in certificate["dnsNames"] if name.endswith((".svc", ".local"))]

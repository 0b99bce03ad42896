"""Every kustomization renders, is what Kubernetes' own schemas allow, and says of itself what is true."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import kubernetes_validate
import pytest
import trustme
import yaml

from extproc.cli import main
from extproc.config import parse
from tests.k8s.rendered import (
    EVERYTHING,
    K8S,
    OF_OTHERS,
    OF_TWO_NAMESPACES,
    OVERLAYS,
    Object,
    named,
    of_kind,
    one,
    pods,
    rendered,
    settings,
)

OLDEST, NEWEST = "1.29", kubernetes_validate.latest_version()
"""Of Kubernetes: the first with native sidecars, and the last that there are schemas of."""

each_kustomization = pytest.mark.parametrize("folder", EVERYTHING, ids=named)


@each_kustomization
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_objects_are_what_kubernetes_takes(folder: Path, version: str) -> None:
    known = [each for each in rendered(folder) if each["apiVersion"] not in OF_OTHERS]
    assert known
    for each in known:
        check(json.dumps(each), version)


@cache
def check(text: str, version: str) -> None:
    """Raises ValidationError. Most objects are in several kustomizations, and each check reads all schemas."""
    kubernetes_validate.validate(json.loads(text), version, strict=True)


@each_kustomization
def test_every_object_has_a_name_of_its_own(folder: Path) -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in rendered(folder)]
    assert len(names) == len(set(names))


@each_kustomization
def test_every_file_is_used(folder: Path) -> None:
    for file in folder.rglob("kustomization.yaml"):
        there = {path.name for path in file.parent.iterdir() if path.is_file()}
        assert set(used(file)) == there - {"README.md", file.name}


def used(file: Path) -> Iterator[str]:
    """The files beside a kustomization that it names."""
    made = yaml.safe_load(file.read_text(encoding="utf-8"))
    named = [*made.get("resources", []), *(patch["path"] for patch in made.get("patches", []) if "path" in patch)]
    named += [path for each in made.get("configMapGenerator", []) for path in each["files"]]
    yield from (name for name in named if (file.parent / name).is_file())


@each_kustomization
def test_references_lead_to_objects_that_are_there(folder: Path) -> None:
    objects = rendered(folder)
    names = {kind: {each["metadata"]["name"] for each in of_kind(objects, kind)} for kind in kinds(objects)}
    for pod in pods(objects):
        for volume in pod.spec.get("volumes", []):
            if "configMap" in volume:  # one that is optional, too: the overlay is there to show it
                assert volume["configMap"]["name"] in names["ConfigMap"]
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in names["PersistentVolumeClaim"]
        if "serviceAccountName" in pod.spec:
            assert pod.spec["serviceAccountName"] in names["ServiceAccount"]
        mounts = {mount["name"] for each in pod.containers.values() for mount in each.get("volumeMounts", [])}
        assert mounts == {volume["name"] for volume in pod.spec.get("volumes", [])}
    for scaler in of_kind(objects, "HorizontalPodAutoscaler"):
        assert scaler["spec"]["scaleTargetRef"]["name"] in names["Deployment"]


def kinds(objects: tuple[Object, ...]) -> set[str]:
    return {each["kind"] for each in objects} | {"ConfigMap", "PersistentVolumeClaim", "ServiceAccount"}


@each_kustomization
def test_services_and_budgets_select_pods_that_are_there(folder: Path) -> None:
    objects = rendered(folder)
    for service in of_kind(objects, "Service"):
        selected = [pod for pod in pods(objects) if pod.selected_by({"matchLabels": service["spec"]["selector"]})]
        (pod,) = selected
        ports = {port["name"] for each in pod.containers.values() for port in each["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for budget in of_kind(objects, "PodDisruptionBudget"):
        assert any(pod.selected_by(budget["spec"]["selector"]) for pod in pods(objects))


SETTINGS = {settings(rendered(folder)): folder.name for folder in reversed(EVERYTHING)}


@pytest.mark.parametrize("text", SETTINGS, ids=SETTINGS.values())
def test_the_settings_are_valid_and_so_is_what_envoy_makes_of_them(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate = trustme.CA().issue_cert("llm.example.com")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    certificate.private_key_pem.write_to_path(tmp_path / "tls.key")
    text = text.replace("/etc/tls", str(tmp_path)).replace("/etc/characters", str(K8S / "overlays/characters"))
    (tmp_path / "extproc.yaml").write_text(text, encoding="utf-8")
    assert main(["check", str(tmp_path / "extproc.yaml")]) == 0, capsys.readouterr().err


@each_kustomization
def test_changed_settings_reach_pods_that_run(folder: Path) -> None:
    """By a name that stays, and by a directory: a file that is mounted by itself never changes."""
    objects = rendered(folder)
    (config,) = (each for each in of_kind(objects, "ConfigMap") if "extproc.yaml" in each["data"])
    assert config["metadata"]["name"] in ("extproc", "extproc-processor")
    for pod in pods(objects):
        for container in pod.containers.values():
            assert not any("subPath" in mount for mount in container.get("volumeMounts", []))


@pytest.mark.parametrize("folder", [path for path in OVERLAYS if path.name in ("local", "vllm")], ids=named)
def test_backends_are_services_that_serve_their_models(folder: Path) -> None:
    objects = rendered(folder)
    config = parse(settings(objects))
    for backend in config.backends:
        (address,) = backend.endpoints
        service = one(objects, "Service", address.host)
        assert address.port in [port["port"] for port in service["spec"]["ports"]]
        assert service["spec"]["clusterIP"] == "None", "behind one address all its replicas would be one"
        (pod,) = (pod for pod in pods(objects) if pod.selected_by({"matchLabels": service["spec"]["selector"]}))
        (served,) = (model.upstream_model for model in config.models if model.backend == backend.name)
        assert served in pod.containers["vllm"]["args"]
        # By its name clients find pods, and the Service translates no port.
        assert address.port in [port["containerPort"] for port in pod.containers["vllm"]["ports"]]


def test_every_overlay_has_its_readme_and_is_in_the_list() -> None:
    listed = (K8S / "README.md").read_text(encoding="utf-8")
    for overlay in OVERLAYS:
        assert f"[{overlay.name}](overlays/{overlay.name}/README.md)" in listed
        readme = (overlay / "README.md").read_text(encoding="utf-8")
        assert (
            f"kubectl apply -n gateway -k deploy/k8s/overlays/{overlay.name}" in readme
            or overlay.name in OF_TWO_NAMESPACES
        )
        assert len(readme.splitlines()) <= 70, "more than a screen"

"""The images: as small as they get with Python's own base, nobody's in particular, and without tools to build with.

No test builds them. `make test-image` runs their installation as the Dockerfiles have it, and what comes of it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

from scripted_vllm.__main__ import _parser
from tests.k8s.rendered import K8S, Pod, one, rendered
from tests.pods.dockerfile import GATEWAY, ROOT, SCRIPTED, Dockerfile
from tests.pods.manifests import manifests

BUILD, FINAL = GATEWAY.stages()

each_dockerfile = pytest.mark.parametrize("dockerfile", [GATEWAY, SCRIPTED], ids=["gateway", "scripted"])


@each_dockerfile
def test_both_stages_have_one_base_that_can_be_given_by_digest(dockerfile: Dockerfile) -> None:
    assert re.search(r"^ARG PYTHON=python:(\d\.\d+)-slim-\w+$", dockerfile.text, re.MULTILINE)
    assert re.search(r"^ARG BUILDER=\$\{PYTHON\}$", dockerfile.text, re.MULTILINE)
    assert [stage.all("FROM") for stage in dockerfile.stages()] == [["${BUILDER} AS build"], ["${PYTHON}"]]


@pytest.mark.parametrize(("dockerfile", "name"), [(GATEWAY, "extproc"), (SCRIPTED, "scripted-vllm")])
def test_the_final_stage_runs_nothing_and_takes_only_what_was_installed(dockerfile: Dockerfile, name: str) -> None:
    _, final = dockerfile.stages()
    assert final.all("RUN") == final.all("ADD") == []
    assert final.all("COPY") == [f"--from=build /opt/{name} /opt/{name}"]
    assert final.all("ENV") == [f"PATH=/opt/{name}/bin:$PATH"]


@each_dockerfile
def test_nothing_is_compiled(dockerfile: Dockerfile) -> None:
    build, _ = dockerfile.stages()
    assert not any(re.search(r"\b(apt|apk|gcc|build-essential)\b", run) for run in build.all("RUN"))


def test_images_have_one_base() -> None:
    first, second = (re.findall(r"^ARG PYTHON=.*$", each.text, re.MULTILINE) for each in (GATEWAY, SCRIPTED))
    assert first == second


@pytest.mark.parametrize("base", ["python:3.13-slim-bookworm", "python@sha256:0123", f"python:3@sha256:{'A' * 64}"])
def test_a_release_refuses_a_base_without_a_digest(base: str) -> None:
    done = _base_checked(base, release="1")
    assert done.returncode == 1
    assert done.stderr.startswith(f"a release needs its base by digest: --build-arg PYTHON={base}@sha256:")


@pytest.mark.parametrize(("base", "release"), [(f"python:3@sha256:{'a' * 64}", "1"), ("python:3.13-slim-bookworm", "")])
def test_other_bases_are_taken(base: str, release: str) -> None:
    assert _base_checked(base, release).returncode == 0


def _base_checked(base: str, release: str) -> subprocess.CompletedProcess[str]:
    check = BUILD.all("RUN")[0]
    assert BUILD.all("ARG") == ["PYTHON", "RELEASE"]
    environment = {**os.environ, "PYTHON": base, "RELEASE": release}
    return subprocess.run(["/bin/sh", "-c", check], env=environment, capture_output=True, text=True, check=False)


def test_the_image_is_run_by_the_number_that_the_pod_has() -> None:
    context = manifests().pod["securityContext"]
    assert FINAL.all("USER") == [f"{context['runAsUser']}:{context['runAsGroup']}"]


def test_its_command_is_that_of_the_pods_containers() -> None:
    ours = manifests(K8S / "overlays/characters").pod["initContainers"]
    assert FINAL.all("ENTRYPOINT") == ['["extproc"]']
    assert [container["command"] for container in ours] == [["extproc"]] * 2


def test_the_scripted_vllm_has_an_image_of_its_own_that_its_pod_runs() -> None:
    _, final = SCRIPTED.stages()
    pod = Pod(one(rendered(K8S / "overlays/local"), "Deployment", "vllm"))
    container, context = pod.containers["vllm"], pod.spec["securityContext"]
    (tag,) = re.findall(r"^#   docker build .* -t (\S+) \.$", SCRIPTED.text, re.MULTILINE)
    assert container["image"] == tag
    assert [json.loads(each) for each in final.all("ENTRYPOINT")] == [container["command"]]
    assert final.all("USER") == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    _parser().parse_args(container["args"])


def test_the_gateways_image_gets_nothing_of_the_scripted_vllm() -> None:
    assert not [source for source in GATEWAY.sources() if "scripted" in source]
    assert "extproc" not in SCRIPTED.sources()


@pytest.mark.parametrize(
    ("dockerfile", "left_by_builds"), [(GATEWAY, []), (SCRIPTED, ["scripted_vllm/build", "scripted_vllm/*.egg-info"])]
)
def test_of_the_checkout_the_build_sees_what_it_copies(dockerfile: Dockerfile, left_by_builds: list[str]) -> None:
    copied = [f"!{source}" for source in dockerfile.sources()]
    assert dockerfile.ignored() == ["*", *copied, *left_by_builds, "**/__pycache__"]
    assert all((ROOT / source).exists() for source in dockerfile.sources())

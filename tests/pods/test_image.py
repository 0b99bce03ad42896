"""The image: as small as it gets with Python's own base, nobody's in particular, and without tools to build with.

No test builds it. `make test-image` runs its installation as the Dockerfile has it, and what comes of it.
"""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.pods.dockerfile import DOCKERFILE, IGNORED, ROOT, sources, stages
from tests.pods.manifests import manifests

BUILD, FINAL = stages()


def test_both_stages_have_one_base_that_can_be_given_by_digest() -> None:
    base = re.search(r"^ARG PYTHON=python:(\d\.\d+)-slim-\w+$", DOCKERFILE.read_text(), re.MULTILINE)
    assert base is not None
    assert [stage.all("FROM") for stage in (BUILD, FINAL)] == [["${PYTHON} AS build"], ["${PYTHON}"]]


def test_the_final_stage_runs_nothing_and_takes_only_what_was_installed() -> None:
    assert FINAL.all("RUN") == FINAL.all("ADD") == []
    assert FINAL.all("COPY") == ["--from=build /opt/extproc /opt/extproc"]


def test_nothing_is_compiled() -> None:
    assert not any(re.search(r"\b(apt|apk|gcc|build-essential)\b", run) for run in BUILD.all("RUN"))


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


def test_its_command_is_the_pods_command() -> None:
    (processor,) = manifests().pod["initContainers"]
    assert FINAL.all("ENTRYPOINT") == ['["extproc"]']
    assert processor["command"] == ["extproc"]
    assert FINAL.all("ENV") == ["PATH=/opt/extproc/bin:$PATH"]


def test_of_the_checkout_the_build_sees_what_it_copies() -> None:
    ignored = [line for line in IGNORED.read_text().splitlines() if line and not line.startswith("#")]
    assert ignored == ["*", *(f"!{source}" for source in sources()), "**/__pycache__"]
    assert all((ROOT / source).exists() for source in sources())

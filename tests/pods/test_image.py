"""The image: as small as it gets with Python's own base, nobody's in particular, and without tools to build with.

No test builds it. `make test-image` runs its installation as the Dockerfile has it, and what comes of it.
"""

from __future__ import annotations

import re

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
    (_, install) = BUILD.all("RUN")
    assert "--only-binary :all:" in install
    assert not any(re.search(r"\b(apt|apk|gcc|build-essential)\b", run) for run in BUILD.all("RUN"))


def test_versions_are_those_that_the_tests_have() -> None:
    (_, install) = BUILD.all("RUN")
    assert "-c constraints.txt" in install


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

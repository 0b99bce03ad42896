"""How many descriptors a gateway needs, and how it gets them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from extproc.server.descriptors import connections_that_fit, descriptors_needed, too_few
from tests.gateway import limited

RAISED = "from extproc.server.descriptors import raise_descriptor_limit as r; print(r())"


@pytest.mark.parametrize("limit", [256, 1024, 1025, 4096, 65536, 1 << 20])
@pytest.mark.parametrize("workers", [1, 2, 16])
def test_the_connections_that_fit_are_the_most_that_do(limit: int, workers: int) -> None:
    fitting = connections_that_fit(limit, workers)
    assert descriptors_needed(fitting, workers) <= limit < descriptors_needed(fitting + 1, workers)


def test_a_limit_without_room_for_anything_still_lets_one_in() -> None:
    assert connections_that_fit(10) == 1


@pytest.mark.parametrize(("soft", "hard", "raised"), [(256, 1024, 1024), (1024, 1024, 1024), (1024, 4096, 4096)])
def test_the_soft_limit_is_raised_to_the_hard_one(soft: int, hard: int, raised: int) -> None:
    done = subprocess.run(
        limited([sys.executable, "-c", RAISED], soft, hard), capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == raised


def test_a_limit_that_is_too_small_is_told_with_what_it_has_room_for_and_what_is_needed() -> None:
    needed, room = descriptors_needed(5000), connections_that_fit(1024)
    assert too_few(5000, needed) is None
    said = too_few(5000, 1024) or ""
    assert f"1024 file descriptors are allowed, enough for {room} client connections; 5000 need {needed}" in said

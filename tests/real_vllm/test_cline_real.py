"""Cline with a real model: whatever a model of this size makes of a task, the protocol holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.installed import CLIENTS
from tests.real_vllm.cline import TASKS, try_task
from tests.real_vllm.server import VLLM

pytestmark = pytest.mark.vllm

_SECONDS = 75.0
"""Enough for one turn on two busy cores, of which the prompt alone takes most; then Cline is killed."""


def test_a_task_of_cline_is_answered_without_an_error_of_the_protocol(vllm: VLLM, tmp_path: Path) -> None:
    if not CLIENTS["cline"].is_ready:
        pytest.skip(f"cline: {CLIENTS['cline'].why_not}")
    came = try_task(vllm, tmp_path, "prompt", TASKS[1], _SECONDS)
    assert came.turns
    assert any(turn.written for turn in came.turns), came.run.finished
    assert came.problems == []

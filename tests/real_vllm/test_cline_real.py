"""Cline with a real model: whatever a model of this size makes of a task, the protocol holds."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.clients.installed import CLIENTS
from tests.real_vllm.cline import TASKS, try_task
from tests.real_vllm.server import VLLM
from tests.real_vllm.turns import has_two_answers

pytestmark = pytest.mark.vllm

_SECONDS = 300.0
"""At most: the prompt of its first turn alone can take two busy cores a minute."""


def test_a_task_of_cline_is_answered_without_an_error_of_the_protocol(vllm: VLLM, tmp_path: Path) -> None:
    if not CLIENTS["cline"].is_ready:
        pytest.skip(f"cline: {CLIENTS['cline'].why_not}")
    came = try_task(vllm, tmp_path, "prompt", TASKS[1], _SECONDS, partial(has_two_answers, tmp_path))
    assert came.turns
    assert any(turn.written for turn in came.turns), came.run.finished
    assert came.problems == []

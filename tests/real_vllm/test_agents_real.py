"""Codex and Claude Code with a real model: whatever a model of this size makes of a task, the protocol holds."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.clients.installed import CLIENTS
from tests.real_vllm.agent_clients import AGENTS, Agent
from tests.real_vllm.agents import TASKS, Run, try_runs
from tests.real_vllm.server import VLLM
from tests.real_vllm.turns import has_two_answers

pytestmark = pytest.mark.vllm

_SECONDS = 300.0
"""At most: the prompt of its first turn alone can take two busy cores a minute."""


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_a_task_is_answered_without_an_error_of_the_protocol(vllm: VLLM, tmp_path: Path, agent: Agent) -> None:
    if not CLIENTS[agent.name].is_ready:
        pytest.skip(f"{agent.name}: {CLIENTS[agent.name].why_not}")
    results = try_runs(vllm, tmp_path, agent, [Run("prompt", TASKS[0])], _SECONDS, partial(has_two_answers, tmp_path))
    [came] = results.tried
    assert came.turns
    assert any(turn.written for turn in came.turns), came.finished
    assert results.problems == []

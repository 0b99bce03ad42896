"""Anthropic's library for Python, at a task of several turns: whole answers and its own helper for streams."""

from __future__ import annotations

import pytest

from tests.clients.library import OWN_PYTHON, run_errand
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("way", ["create", "stream"])
@pytest.mark.parametrize("model", ["prompt-hermes", "template-pythonic", "native"])
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, model: str, way: str) -> None:
    told = run_errand(stage, sandbox, OWN_PYTHON, "anthropic_python.py", way, model)
    assert told.reasons == ["tool_use"] * 3 + ["end_turn"]
    assert told.tokens > 0

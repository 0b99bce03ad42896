"""The AI SDK with its provider for everything that is compatible with OpenAI, at a task of several turns."""

from __future__ import annotations

import pytest

from tests.clients.installed import client
from tests.clients.library import run_errand
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("way", ["generateText", "streamText"])
@pytest.mark.parametrize("model", ["prompt-hermes", "template-glm45"])
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, model: str, way: str) -> None:
    told = run_errand(stage, sandbox, client("ai-sdk"), "ai_sdk.mjs", way, model)
    assert told.reasons == ["tool-calls"] * 3 + ["stop"]
    assert told.tokens > 0

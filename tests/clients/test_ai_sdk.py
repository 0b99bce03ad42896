"""The AI SDK at a task of several turns, in each dialect: with its provider for everything that is compatible with
OpenAI, with OpenAI's, which speaks Responses unless told otherwise, and with Anthropic's."""

from __future__ import annotations

import pytest

from tests.clients.installed import client
from tests.clients.library import run_errand
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("way", ["generateText", "streamText"])
@pytest.mark.parametrize("model", ["prompt-hermes", "template-glm45"])
@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, dialect: str, model: str, way: str) -> None:
    told = run_errand(stage, sandbox, client("ai-sdk"), "ai_sdk.mjs", f"{dialect} {way}", model)
    assert told.reasons == ["tool-calls"] * 3 + ["stop"]
    assert told.tokens > 0

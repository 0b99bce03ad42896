"""LangChain's ChatOpenAI, by both of OpenAI's dialects, and its ChatAnthropic, at a task of several turns."""

from __future__ import annotations

import pytest

from tests.clients.installed import client
from tests.clients.library import run_errand
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients

REASONS = {
    "chat": ["tool_calls"] * 3 + ["stop"],
    "responses": ["completed"] * 4,
    "messages": ["tool_use"] * 3 + ["end_turn"],
}


@pytest.mark.parametrize("way", ["invoke", "stream"])
@pytest.mark.parametrize("model", ["prompt-hermes", "template-kimi_k2"])
@pytest.mark.parametrize("dialect", REASONS)
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, dialect: str, model: str, way: str) -> None:
    told = run_errand(stage, sandbox, client("langchain"), "langchain_chat.py", f"{dialect} {way}", model)
    assert told.reasons == REASONS[dialect]
    assert told.tokens > 0

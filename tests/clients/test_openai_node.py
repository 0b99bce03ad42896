"""OpenAI's library for Node, at a task of several turns."""

from __future__ import annotations

import pytest

from tests.clients.installed import client
from tests.clients.library import run_errand
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("way", ["runTools", "runToolsStream", "stream"])
@pytest.mark.parametrize("model", ["prompt-hermes", "template-mistral"])
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, model: str, way: str) -> None:
    told = run_errand(stage, sandbox, client("openai-node"), "openai_node.mjs", way, model)
    assert told.reasons == ["tool_calls"] * 3 + ["stop"]
    assert told.tokens > 0


def test_over_tls_too(tls_stage: Stage, sandbox: Sandbox) -> None:
    trust = {"NODE_EXTRA_CA_CERTS": str(tls_stage.certificate)}
    run_errand(tls_stage, sandbox, client("openai-node"), "openai_node.mjs", "stream", "prompt-hermes", env=trust)

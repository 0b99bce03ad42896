"""OpenAI's library for Python, at a task of several turns."""

from __future__ import annotations

import pytest

from tests.clients.library import OWN_PYTHON, run_errand
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("way", ["create", "stream"])
@pytest.mark.parametrize("model", ["prompt-hermes", "template-pythonic"])
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, model: str, way: str) -> None:
    told = run_errand(stage, sandbox, OWN_PYTHON, "openai_python.py", way, model)
    assert told.reasons == ["tool_calls"] * 3 + ["stop"]
    assert told.tokens > 0


@pytest.mark.parametrize("model", ["prompt-hermes", "template-qwen3_coder"])
def test_arguments_of_strict_tools_become_objects(stage: Stage, sandbox: Sandbox, model: str) -> None:
    told = run_errand(stage, sandbox, OWN_PYTHON, "openai_python.py", "parse", model, together=False)
    assert told.reasons == ["tool_calls"] * 4 + ["stop"]
    assert "structural_tag" in stage.actor.requests[0].json["structured_outputs"]


@pytest.mark.parametrize("way", ["create", "stream"])
@pytest.mark.parametrize("model", ["prompt-hermes", "template-pythonic", "native"])
def test_it_does_the_errand_by_responses(stage: Stage, sandbox: Sandbox, model: str, way: str) -> None:
    told = run_errand(stage, sandbox, OWN_PYTHON, "openai_responses.py", way, model)
    assert told.reasons == ["completed"] * 4
    assert told.tokens > 0


def test_over_tls_too(tls_stage: Stage, sandbox: Sandbox) -> None:
    trust = {"SSL_CERT_FILE": str(tls_stage.certificate)}
    run_errand(tls_stage, sandbox, OWN_PYTHON, "openai_python.py", "stream", "prompt-hermes", env=trust)

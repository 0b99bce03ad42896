"""pydantic-ai: an answer with a type, as the arguments of a demanded tool or as JSON by a schema, beside tools."""

from __future__ import annotations

import pytest

from tests.clients.actor import step
from tests.clients.errand import check_done, errand
from tests.clients.installed import client
from tests.clients.library import TOOLS, run_program
from tests.clients.reports import REPORT, is_asked_for, reports
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage
from tests.format_writers import Call

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("model", ["prompt-hermes", "template-glm45"])
def test_its_answer_is_a_demanded_call(stage: Stage, sandbox: Sandbox, model: str) -> None:
    *work, last = errand(TOOLS, sandbox.workspace)
    steps = (*work, step(Call("final_result", REPORT), sees=last.sees))
    told = run_program(stage, sandbox, client("pydantic-ai"), "pydantic_ai_agent.py", model, steps, "tool")
    check_done(stage, sandbox)
    assert told["report"] == REPORT
    assert told["parts"] == [["text", "tool-call"], ["tool-call"], ["tool-call", "tool-call"], ["tool-call"]]
    assert told["reasons"] == ["tool_call"] * 4
    assert told["tokens"] > 0
    assert all(is_asked_for(request.json) for request in stage.actor.requests)


@pytest.mark.parametrize("model", ["prompt-hermes", "template-mistral"])
def test_its_answer_is_json(stage: Stage, sandbox: Sandbox, model: str) -> None:
    *work, last = errand(TOOLS, sandbox.workspace)
    steps = (*work, reports(*last.sees))
    told = run_program(stage, sandbox, client("pydantic-ai"), "pydantic_ai_agent.py", model, steps, "native")
    check_done(stage, sandbox)
    assert told["report"] == REPORT
    assert told["parts"] == [["text", "tool-call"], ["tool-call"], ["tool-call", "tool-call"], ["text"]]
    assert told["reasons"] == ["tool_call"] * 3 + ["stop"]
    assert told["tokens"] > 0
    assert all(is_asked_for(request.json) for request in stage.actor.requests)

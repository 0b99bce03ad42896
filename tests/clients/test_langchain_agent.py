"""LangChain's agents: an answer with a type, as JSON by a schema beside strict tools, or as a demanded call."""

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

WORK = [["write_file"], ["run_command"], ["read_file", "read_file"]]


@pytest.mark.parametrize("model", ["prompt-hermes", "template-kimi_k2"])
def test_its_answer_is_json(stage: Stage, sandbox: Sandbox, model: str) -> None:
    *work, last = errand(TOOLS, sandbox.workspace)
    steps = (*work, reports(*last.sees))
    told = run_program(stage, sandbox, client("langchain"), "langchain_agent.py", model, steps, "provider")
    check_done(stage, sandbox)
    assert (told["report"], told["calls"]) == (REPORT, [*WORK, []])
    assert told["reasons"] == ["tool_calls"] * 3 + ["stop"]
    assert told["tokens"] > 0
    assert all(is_asked_for(request.json) for request in stage.actor.requests)


@pytest.mark.parametrize("model", ["prompt-hermes", "template-qwen3_coder"])
def test_its_answer_is_a_demanded_call(stage: Stage, sandbox: Sandbox, model: str) -> None:
    *work, last = errand(TOOLS, sandbox.workspace)
    steps = (*work, step(Call("Report", REPORT), sees=last.sees))
    told = run_program(stage, sandbox, client("langchain"), "langchain_agent.py", model, steps, "tool")
    check_done(stage, sandbox)
    assert (told["report"], told["calls"]) == (REPORT, [*WORK, ["Report"]])
    assert told["reasons"] == ["tool_calls"] * 4
    assert told["tokens"] > 0
    assert all(is_asked_for(request.json) for request in stage.actor.requests)

"""OpenAI's agents: strict tools, a handover, and an answer with a type of its own beside a tool.

By Responses, which is their default, and by chat completions.
"""

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


@pytest.mark.parametrize(
    ("model", "way"),
    [
        ("prompt-hermes", "chat run_streamed"),
        ("template-glm45", "chat run"),
        ("template-kimi_k2", "chat run_streamed"),
        ("prompt-hermes", "responses run"),
        ("prompt-hermes", "responses run_streamed"),
        ("template-glm45", "responses run_streamed"),
        ("template-kimi_k2", "responses run"),
    ],
)
def test_a_second_agent_answers_with_its_type(stage: Stage, sandbox: Sandbox, model: str, way: str) -> None:
    *work, _ = errand(TOOLS, sandbox.workspace)
    steps = (
        *work,
        step(Call("transfer_to_reviewer", {}), sees="if a < b: return {}"),
        step(TOOLS.read("hello.txt"), sees='"assistant"'),
        reports("if a < b: return {}"),
    )
    told = run_program(stage, sandbox, client("openai-agents"), "openai_agents.py", model, steps, way)
    check_done(stage, sandbox, len(steps))
    assert (told["by"], told["report"]) == ("reviewer", REPORT)
    said, called, returned = ["message_output_item"], ["tool_call_item"], ["tool_call_output_item"]
    one_by_one = said + 2 * (called + returned) + 2 * called + 2 * returned
    assert told["items"] == [*one_by_one, "handoff_call_item", "handoff_output_item", *called, *returned, *said]
    assert told["tokens"] > 0
    requests = [request.json for request in stage.actor.requests]
    assert all("structural_tag" in request["structured_outputs"] for request in requests)
    assert [is_asked_for(request) for request in requests] == [False] * 4 + [True] * 2

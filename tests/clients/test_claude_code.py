"""Claude Code does a task of several turns, straight at the gateway, with models that were never Anthropic's."""

from __future__ import annotations

import pytest

from tests.clients.actor import step
from tests.clients.claude_code import result_of, run_claude
from tests.clients.errand import LAST_WORDS, TASK, Tools, check_done, errand
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage
from tests.format_writers import Call

pytestmark = pytest.mark.clients

TOOLS = Tools(
    write=lambda path, text: Call("Write", {"file_path": path, "content": text}),
    run=lambda command: Call("Bash", {"command": command, "description": "Count the words"}),
    read=lambda path: Call("Read", {"file_path": path}),
)
MODELS = ["prompt-hermes", "template-qwen3_coder", "template-glm45", "template-hermes", "native"]


@pytest.mark.parametrize("model", MODELS)
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, model: str) -> None:
    stage.perform(model, TASK, *errand(TOOLS, sandbox.workspace))
    result = result_of(run_claude(sandbox, stage.gateway.url, model, TASK))
    assert (result["subtype"], result["is_error"], result["result"]) == ("success", False, LAST_WORDS)
    check_done(stage, sandbox)
    assert result["usage"]["output_tokens"] > 0


def test_a_tool_that_fails_is_told_and_tried_again(stage: Stage, sandbox: Sandbox) -> None:
    missing = str(sandbox.workspace / "missing.txt")
    stage.perform(
        "template-hermes",
        TASK,
        step(TOOLS.read(missing)),
        step(TOOLS.run("exit 3"), sees="does not exist"),
        step(says=LAST_WORDS, sees="3"),
    )
    assert result_of(run_claude(sandbox, stage.gateway.url, "template-hermes", TASK))["result"] == LAST_WORDS
    assert stage.actor.problems == []

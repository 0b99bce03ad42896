"""Codex does a task of several turns, straight at the gateway, with models that were never OpenAI's."""

from __future__ import annotations

import shlex

import pytest

from tests.clients.actor import step
from tests.clients.codex import last_message, run_codex
from tests.clients.errand import LAST_WORDS, TASK, Tools, check_done, errand
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage
from tests.format_writers import Call

pytestmark = pytest.mark.clients


def running(command: str) -> Call:
    return Call("exec_command", {"cmd": command})


TOOLS = Tools(
    write=lambda path, text: running(f"printf %s {shlex.quote(text)} > {shlex.quote(path)}"),
    run=running,
    read=lambda path: running(f"cat {shlex.quote(path)}"),
)
MODELS = ["prompt-hermes", "template-qwen3_coder", "template-glm45", "template-hermes", "native"]


@pytest.mark.parametrize("model", MODELS)
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, model: str) -> None:
    stage.perform(model, TASK, *errand(TOOLS, sandbox.workspace))
    finished = run_codex(sandbox, stage.url, model, TASK)
    assert last_message(finished) == LAST_WORDS
    check_done(stage, sandbox)
    [ended] = [line for line in finished.json_lines() if line["type"] == "turn.completed"]
    assert ended["usage"]["output_tokens"] > 0


def test_a_tool_that_fails_is_told_and_tried_again(stage: Stage, sandbox: Sandbox) -> None:
    stage.perform(
        "template-hermes",
        TASK,
        step(TOOLS.read(str(sandbox.workspace / "missing.txt"))),
        step(TOOLS.run("exit 3"), sees="No such file"),
        step(says=LAST_WORDS, sees="3"),
    )
    assert last_message(run_codex(sandbox, stage.url, "template-hermes", TASK)) == LAST_WORDS
    assert stage.actor.problems == []

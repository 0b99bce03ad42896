"""Kimi's command line does a task of several turns."""

from __future__ import annotations

import json

import pytest

from tests.clients.errand import LAST_WORDS, TASK, Tools, check_done, errand
from tests.clients.installed import client
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage
from tests.format_writers import Call

pytestmark = pytest.mark.clients

TOOLS = Tools(
    write=lambda path, text: Call("WriteFile", {"path": path, "content": text}),
    run=lambda command: Call("Shell", {"command": command}),
    read=lambda path: Call("ReadFile", {"path": path}),
)


@pytest.mark.parametrize("model", ["prompt-hermes", "template-kimi_k2", "template-glm45"])
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, model: str) -> None:
    settings = {
        "default_model": "local",
        "telemetry": False,
        "models": {"local": {"provider": "local", "model": model, "max_context_size": 262144}},
        "providers": {"local": {"type": "openai_legacy", "base_url": stage.url, "api_key": "unused"}},
    }
    stage.perform(model, TASK, *errand(TOOLS, sandbox.workspace))
    environment = {"KIMI_CLI_NO_AUTO_UPDATE": "1", "TERM": "dumb"}
    arguments = ("--config", json.dumps(settings), "--print", "--final-message-only", "-p", TASK)
    finished = sandbox.run(client("kimi-cli"), *arguments, env=environment)
    assert finished.status == 0, finished
    check_done(stage, sandbox)
    assert finished.stdout.strip() == LAST_WORDS

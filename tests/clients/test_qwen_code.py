"""Qwen Code does a task of several turns."""

from __future__ import annotations

import json

import pytest

from tests.clients.errand import LAST_WORDS, TASK, Tools, check_done, errand, words
from tests.clients.installed import client
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage
from tests.format_writers import Call

pytestmark = pytest.mark.clients

TOOLS = Tools(
    write=lambda path, text: Call("write_file", {"file_path": path, "content": text}),
    run=lambda command: Call("run_shell_command", {"command": command, "is_background": False}),
    read=lambda path: Call("read_file", {"file_path": path}),
)


@pytest.mark.parametrize("model", ["prompt-hermes", "template-qwen3_coder"])
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, model: str) -> None:
    qwen = client("qwen-code")
    steps = errand(TOOLS, sandbox.workspace)
    stage.perform(model, TASK, *steps)
    environment = {
        "OPENAI_API_KEY": "unused",
        "OPENAI_BASE_URL": stage.url,
        "OPENAI_MODEL": model,
        "QWEN_TELEMETRY_ENABLED": "0",
        "TERM": "dumb",
    }
    finished = sandbox.run(qwen, "--auth-type", "openai", "--yolo", "-o", "json", TASK, env=environment)
    check_done(stage, sandbox)
    *events, result = json.loads(finished.stdout)  # its whole output is one array
    parts = [part for event in events if event["type"] == "assistant" for part in event["message"]["content"]]
    assert [part["text"].strip() for part in parts if part["type"] == "text"] == words(steps)
    assert (result["type"], result["is_error"], result["result"]) == ("result", False, LAST_WORDS)

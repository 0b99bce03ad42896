"""Continue's command line does a task of several turns."""

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
    write=lambda path, text: Call("Write", {"filepath": path, "content": text}),
    run=lambda command: Call("Bash", {"command": command}),
    read=lambda path: Call("Read", {"filepath": path}),
)


@pytest.mark.parametrize("model", ["prompt-hermes", "template-glm45", "template-kimi_k2"])
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, model: str) -> None:
    local = {"name": "local", "provider": "openai", "model": model, "apiBase": stage.url, "apiKey": "unused"}
    settings = {"name": "local", "version": "1.0.0", "schema": "v1", "models": [{**local, "roles": ["chat"]}]}
    file = sandbox.home / "continue.yaml"
    file.write_text(json.dumps(settings))  # which is YAML
    stage.perform(model, TASK, *errand(TOOLS, sandbox.workspace))
    finished = sandbox.run(client("continue"), "--config", str(file), "--auto", "-p", TASK)
    assert finished.status == 0, finished
    check_done(stage, sandbox)
    assert finished.stdout.strip().endswith(LAST_WORDS), finished

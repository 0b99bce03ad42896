"""Mistral's Vibe does a task of several turns."""

from __future__ import annotations

import json

import pytest

from tests.clients.errand import TASK, Tools, check_done, errand, words
from tests.clients.installed import client
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage
from tests.format_writers import Call

pytestmark = pytest.mark.clients

TOOLS = Tools(
    write=lambda path, text: Call("write_file", {"path": path, "content": text}),
    run=lambda command: Call("bash", {"command": command}),
    read=lambda path: Call("read_file", {"path": path}),
)


@pytest.mark.parametrize("model", ["prompt-hermes", "template-mistral", "template-kimi_k2"])
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, model: str) -> None:
    settings = {
        "active_model": "local",
        "enable_telemetry": False,
        "enable_update_checks": False,
        "providers": [{"name": "local", "api_base": stage.url, "api_key_env_var": "", "api_style": "openai"}],
        "models": [{"name": model, "provider": "local", "alias": "local"}],
    }
    folder = sandbox.home / ".vibe"
    folder.mkdir()
    (folder / "config.toml").write_text(_toml(settings))
    steps = errand(TOOLS, sandbox.workspace)
    stage.perform(model, TASK, *steps)
    finished = sandbox.run(client("mistral-vibe"), "-p", TASK, "--trust", "--output", "json", env={"TERM": "dumb"})
    assert finished.status == 0, finished
    check_done(stage, sandbox)
    said = [message["content"] for message in json.loads(finished.stdout) if message["role"] == "assistant"]
    assert [text.strip() for text in said if text] == words(steps)


def _toml(settings: dict[str, object]) -> str:
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items() if not isinstance(value, list)]
    for name, value in settings.items():
        for table in value if isinstance(value, list) else []:
            lines += [f"[[{name}]]", *(f"{key} = {json.dumps(text)}" for key, text in table.items())]
    return "\n".join(lines)

"""opencode and Kilo, which is made from it: they are set up and run alike, under other names."""

from __future__ import annotations

import json

from tests.clients.errand import TASK, Tools
from tests.clients.installed import Installed
from tests.clients.sandbox import Finished, Sandbox
from tests.clients.stage import Stage
from tests.format_writers import Call

TOOLS = Tools(
    write=lambda path, text: Call("write", {"content": text, "filePath": path}),
    run=lambda command: Call("bash", {"command": command, "description": "Counts the words"}),
    read=lambda path: Call("read", {"filePath": path}),
)


def run(
    sandbox: Sandbox, installed: Installed, name: str, stage: Stage, model: str, *options: str, **env: str
) -> Finished:
    """Configure the client called `name` for the gateway, and let it do the task."""
    local = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "local",
        "options": {"baseURL": stage.url, "apiKey": "unused"},
        "models": {model: {"name": model}},
    }
    settings = {
        "provider": {"local": local},
        "model": f"local/{model}",
        "small_model": f"local/{model}",
        "permission": "allow",
        "autoupdate": False,
        "share": "disabled",
    }
    folder = sandbox.home / ".config" / name
    folder.mkdir(parents=True)
    (folder / f"{name}.json").write_text(json.dumps(settings))
    quiet = {f"{name.upper()}_DISABLE_AUTOUPDATE": "1", f"{name.upper()}_DISABLE_MODELS_FETCH": "1"}
    return sandbox.run(installed, "run", *options, "--format", "json", TASK, env={**quiet, **env})


def said(finished: Finished) -> list[str]:
    """The words of the model that the client shows; its last event says that it stopped, and not why it gave up."""
    events = finished.json_lines()
    assert events, finished
    assert (events[-1]["type"], events[-1]["part"]["reason"]) == ("step_finish", "stop"), finished
    return [event["part"]["text"].strip() for event in events if event["type"] == "text"]

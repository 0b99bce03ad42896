"""Cline 2, whose tools depend on the model's name: called natively, or written in XML that it reads by itself.

In the second case the gateway's part is to leave everything as it is.
"""

from __future__ import annotations

import json

import pytest

from tests.clients.actor import Step, step
from tests.clients.installed import client
from tests.clients.sandbox import Finished, Sandbox
from tests.clients.stage import Stage
from tests.format_writers import Call

pytestmark = pytest.mark.clients

TASK = "Create hello.txt with a greeting, then count its bytes."


def run_cline2(sandbox: Sandbox, url: str, model: str) -> Finished:
    """Let it do the task, set up with the files that its `auth` command writes.

    The command itself takes ten seconds without a network: it waits for its telemetry, which can't be switched off.
    """
    data = sandbox.home / ".cline" / "data"
    data.mkdir(parents=True)
    settings: dict[str, object] = {"openAiBaseUrl": url, "welcomeViewCompleted": True}
    for mode in ("actMode", "planMode"):
        settings |= {f"{mode}ApiProvider": "openai", f"{mode}OpenAiModelId": model}
    (data / "globalState.json").write_text(json.dumps(settings))
    (data / "secrets.json").write_text(json.dumps({"openAiApiKey": "sk-any"}))
    arguments = ("--yolo", "--json", "-c", str(sandbox.workspace), TASK)
    return sandbox.run(client("cline2"), *arguments, env={"CLINE_NO_AUTO_UPDATE": "1"})


def assert_done(finished: Finished, stage: Stage, result: str) -> None:
    assert stage.actor.problems == []
    assert (stage.actor.played, stage.actor.asides) == ([0, 1, 2, 3], [])
    last = finished.json_lines()[-1]
    assert (finished.status, last.get("say"), last.get("text")) == (0, "completion_result", result), finished


def test_native_calls(stage: Stage, sandbox: Sandbox) -> None:
    model, result = "deepseek-v3.2", "hello.txt has 6 bytes."
    stage.perform(
        model,
        TASK,
        step(Call("write_to_file", {"path": "hello.txt", "content": "hello\n"}), says="First the file."),
        step(
            Call("execute_command", {"command": "wc -c hello.txt", "requires_approval": False}),
            sees="successfully saved",
        ),
        step(Call("read_file", {"path": "hello.txt"}), sees="6 hello.txt"),
        step(Call("attempt_completion", {"result": result}), sees="1 | hello"),
    )
    finished = run_cline2(sandbox, stage.url, model)
    assert_done(finished, stage, result)
    assert (sandbox.workspace / "hello.txt").read_text() == "hello\n"
    assert all(request.json["tools"] for request in stage.actor.requests)


def element(name: str, **parameters: str) -> str:
    """A call as Cline's own prompt asks for it."""
    inside = "".join(f"<{key}>{value}</{key}>\n" for key, value in parameters.items())
    return f"<{name}>\n{inside}</{name}>"


def test_xml_in_the_text_passes_untouched(stage: Stage, sandbox: Sandbox) -> None:
    model, result = "prompt-hermes", "hello.txt has 5 bytes."
    steps: tuple[Step, ...] = (
        step(says="First the file.\n" + element("write_to_file", path="hello.txt", content="\nhello\n"), sees=TASK),
        step(says=element("execute_command", command="wc -c hello.txt", requires_approval="false")),
        step(says=element("read_file", path="hello.txt"), sees="5 hello.txt"),
        step(says=element("attempt_completion", result=f"\n{result}\n"), sees="1 | hello"),
    )
    stage.perform(model, TASK, *steps)
    finished = run_cline2(sandbox, stage.url, model)
    assert_done(finished, stage, result)
    assert (sandbox.workspace / "hello.txt").read_text() == "hello"
    assert not any("tools" in request.json for request in stage.actor.requests)

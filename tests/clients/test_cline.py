"""Cline 3 does tasks of several turns at the gateway, in every mode and in formats of every kind.

Each test looks at the files, at Cline's own verdict, and at what the model was asked: one request for each of its turns
and none besides, because Cline asks again, for ever, when it finds no call in an answer.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.actor import WRITER_OF, Step, step
from tests.clients.cline import PROVIDER, QUIET, ClineRun, providers, run_cline, sign_in
from tests.clients.installed import client
from tests.clients.sandbox import Sandbox
from tests.clients.stage import NATIVE, Stage
from tests.format_writers import Call

pytestmark = pytest.mark.clients

TASK = "Create hello.txt with a greeting, then count its bytes."
GREETING = 'Hello, "world" \\ <b>größer &amp; {"a": [1]}</b> 😀\n\tEnd\n'
"""What is hard to write in one format or another."""
BYTES = len(GREETING.encode())


def editor(path: Path, text: str) -> Call:
    return Call("editor", {"path": str(path), "new_text": text})


def run_commands(*commands: str) -> Call:
    return Call("run_commands", {"commands": list(commands)})


def read_files(*paths: Path) -> Call:
    return Call("read_files", {"files": [{"path": str(path)} for path in paths]})


def submit(summary: str) -> Call:
    return Call("submit_and_exit", {"summary": summary, "verified": True})


def write_run_read(workspace: Path) -> tuple[Step, ...]:
    """The task, turn by turn; the last turn is missing."""
    hello = workspace / "hello.txt"
    return (
        step(editor(hello, GREETING), sees=TASK, says="First the file."),
        step(run_commands("wc -c hello.txt"), sees="created successfully"),
        step(read_files(hello), sees=f"{BYTES} hello.txt"),
    )


def assert_done(run: ClineRun, stage: Stage, *, turns: int) -> None:
    """It is done in Cline's eyes, and the model was asked once for each of its turns."""
    assert stage.actor.problems == []
    assert stage.actor.played == list(range(turns))
    assert stage.actor.asides == []
    assert run.completed, run.finished


def assert_nothing_leaked(run: ClineRun, model: str) -> None:
    """No text that the user is shown has anything of a call in it."""
    markup = () if model in NATIVE else WRITER_OF[model.partition("-")[2]].markup
    tools = ("run_commands", "read_files", "submit_and_exit", "new_text")
    for text in run.said:
        assert not [literal for literal in (*markup, *tools) if literal in text], text


@pytest.mark.parametrize(
    "model",
    [
        "prompt-hermes",  # JSON between tags
        "prompt-deepseek_v31",  # JSON between special tokens
        "prompt-pythonic",
        "prompt-glm45",  # keys and values in tags
        "template-qwen3_coder",  # parameters in tags
        "template-kimi_k2",
        "template-mistral",
        "template-gemma4",  # a notation of its own
        "native",
    ],
)
def test_it_writes_a_file_runs_a_command_and_reads_it_back(stage: Stage, sandbox: Sandbox, model: str) -> None:
    last = step(submit("hello.txt is there, and was counted."), sees="größer")
    stage.perform(model, TASK, *write_run_read(sandbox.workspace), last)
    run = run_cline(sandbox, stage.url, model, TASK)
    assert_done(run, stage, turns=4)
    assert_nothing_leaked(run, model)
    assert (sandbox.workspace / "hello.txt").read_text() == GREETING
    assert run.said == ["First the file.", "Submission recorded (verified): hello.txt is there, and was counted."]


def test_its_own_sign_in_writes_the_settings_that_we_write(sandbox: Sandbox) -> None:
    url, model = "http://127.0.0.1:1/v1", "some-model"
    sign_in(sandbox, url, model)
    ours = json.loads(providers(sandbox).read_text())
    providers(sandbox).unlink()
    arguments = ("auth", "-p", PROVIDER, "-k", "sk-any", "-m", model, "-b", url)
    assert sandbox.run(client("cline"), *arguments, env=QUIET).status == 0
    theirs = json.loads(providers(sandbox).read_text())
    for settings in (ours, theirs):
        del settings["providers"][PROVIDER]["updatedAt"]
    assert ours == theirs


def test_through_tls(tls_stage: Stage, sandbox: Sandbox) -> None:
    last = step(submit("hello.txt is there, and was counted."))
    tls_stage.perform("prompt-hermes", TASK, *write_run_read(sandbox.workspace), last)
    trust = {"NODE_EXTRA_CA_CERTS": str(tls_stage.certificate)}
    run = run_cline(sandbox, tls_stage.url, "prompt-hermes", TASK, env=trust)
    assert_done(run, tls_stage, turns=4)
    assert (sandbox.workspace / "hello.txt").read_text() == GREETING


def test_a_gateway_that_it_does_not_trust_gets_no_request(tls_stage: Stage, sandbox: Sandbox) -> None:
    tls_stage.perform("prompt-hermes", TASK, step(submit("Nothing was done at all.")))
    run = run_cline(sandbox, tls_stage.url, "prompt-hermes", TASK)
    assert not run.completed
    assert "unable to verify the first certificate" in run.finished.stdout
    assert tls_stage.actor.requests == []


@pytest.mark.parametrize("model", ["prompt-hermes", "native"])
def test_act_mode_with_all_of_its_tools(stage: Stage, sandbox: Sandbox, model: str) -> None:
    last = step(says=f"hello.txt has {BYTES} bytes.", sees="größer")
    stage.perform(model, TASK, *write_run_read(sandbox.workspace), last)
    run = run_cline(sandbox, stage.url, model, TASK, act=True)
    assert_done(run, stage, turns=4)
    assert_nothing_leaked(run, model)
    assert (sandbox.workspace / "hello.txt").read_text() == GREETING
    assert run.said[-1] == f"hello.txt has {BYTES} bytes."


def test_twenty_calls_one_after_the_other(stage: Stage, sandbox: Sandbox) -> None:
    log = sandbox.workspace / "log.txt"
    steps = [
        step(
            run_commands(f"echo line {number} >> log.txt; wc -l log.txt"),
            sees=f"{number} log.txt" if number else (),
        )
        for number in range(20)
    ]
    stage.perform("prompt-hermes", "Write a log of 20 lines.", *steps, step(submit("There are twenty lines.")))
    run = run_cline(sandbox, stage.url, "prompt-hermes", "Write a log of 20 lines.")
    assert_done(run, stage, turns=21)
    assert log.read_text().splitlines() == [f"line {number}" for number in range(20)]


@pytest.mark.parametrize("model", ["prompt-hermes", "template-kimi_k2", "native"])
def test_several_calls_in_one_turn(stage: Stage, sandbox: Sandbox, model: str) -> None:
    workspace = sandbox.workspace
    files = [workspace / f"{name}.txt" for name in ("one", "two", "three")]
    stage.perform(
        model,
        "Write three files.",
        step(*(editor(file, f"This is {file.stem}.\n") for file in files), run_commands("cat notes.txt")),
        step(*(read_files(file) for file in files), sees=("one.txt", "two.txt", "three.txt", "one two")),
        step(submit("All three are there."), sees=("This is one.", "This is two.", "This is three.")),
    )
    run = run_cline(sandbox, stage.url, model, "Write three files.")
    assert_done(run, stage, turns=3)
    assert_nothing_leaked(run, model)
    assert [file.read_text() for file in files] == ["This is one.\n", "This is two.\n", "This is three.\n"]
    assert [name for name, _ in run.results].count("read_files") == 3


@pytest.mark.parametrize("model", ["prompt-hermes", "native"])
def test_tools_that_fail(stage: Stage, sandbox: Sandbox, model: str) -> None:
    stage.perform(
        model,
        "See what is wrong.",
        step(run_commands("echo broken; exit 1"), read_files(sandbox.workspace / "missing.txt")),
        step(run_commands("echo repaired > repaired.txt"), sees=("broken", "missing.txt")),
        step(submit("It is repaired again.")),
    )
    run = run_cline(sandbox, stage.url, model, "See what is wrong.")
    assert_done(run, stage, turns=3)
    assert (sandbox.workspace / "repaired.txt").read_text() == "repaired\n"

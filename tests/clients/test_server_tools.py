"""Coding clients whose model has an MCP server's tools beside their own.

The gateway runs the server's between two rounds of one answer. Each test looks at what the model was told in each
round, at what the client shows, and at what the client's next request still has of it. All three clients ask for
streams, whose heads can't tell how many tools have run: the runner's metrics do.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.clients.actor import Step, step
from tests.clients.claude_code import result_of, run_claude
from tests.clients.cline import run_cline
from tests.clients.codex import run_codex
from tests.clients.errand import Tools
from tests.clients.sandbox import Finished, Sandbox
from tests.clients.stage import Stage
from tests.clients.test_claude_code import TOOLS as CLAUDE_CODE_TOOLS
from tests.clients.test_cline import editor, read_files, run_commands, submit
from tests.clients.test_codex import TOOLS as CODEX_TOOLS
from tests.format_writers import Call
from tests.test_runs import ran

pytestmark = pytest.mark.clients

Json: TypeAlias = dict[str, Any]

TASK = "Ask what the weather is like in Zermatt, and note it."
WEATHER = "box__weather"
SUNNY = "Sunny in Zermatt."
FIRST, SECOND, LAST = "I ask for the weather.", "I write it down.", "The weather is in weather.txt."


def weather(city: str) -> Call:
    return Call(WEATHER, {"city": city})


@dataclass(frozen=True)
class Seen:
    """What a client's user sees."""

    finished: Finished
    words: list[str]
    """Of the model."""
    calls: int
    """How many tools the client shows as called."""


@dataclass(frozen=True)
class Coder:
    """A coding client."""

    tools: Tools
    run: Callable[[Stage, Sandbox, str], Seen]
    """Has it do the task with a model, to an end that it takes for a good one."""
    last: Step
    """The model's last, by which the client ends."""
    joins: bool = True
    """What the model says before and after a call of the server's is one text."""


def cline(stage: Stage, sandbox: Sandbox, model: str) -> Seen:
    run = run_cline(sandbox, stage.url, model, TASK)
    assert run.completed, run.finished
    words = [text.removeprefix("Submission recorded (verified): ") for text in run.said]
    return Seen(run.finished, words, sum(1 for name, _ in run.results if name != "submit_and_exit"))


def claude_code(stage: Stage, sandbox: Sandbox, model: str) -> Seen:
    finished = run_claude(sandbox, stage.gateway.url, model, TASK)
    result = result_of(finished)
    assert (result["subtype"], result["is_error"], result["result"]) == ("success", False, LAST)
    messages = [line["message"] for line in finished.json_lines() if line["type"] == "assistant"]
    blocks = [block for message in messages for block in message["content"]]
    words = [block["text"] for block in blocks if block["type"] == "text"]
    return Seen(finished, words, sum(block["type"] == "tool_use" for block in blocks))


def codex(stage: Stage, sandbox: Sandbox, model: str) -> Seen:
    finished = run_codex(sandbox, stage.url, model, TASK)
    lines = finished.json_lines()
    assert lines[-1]["type"] == "turn.completed", finished
    items = [line["item"] for line in lines if line["type"] == "item.completed"]
    [trouble] = [item["message"] for item in items if item["type"] == "error"]
    assert "Model metadata" in trouble  # as always
    words = [item["text"] for item in items if item["type"] == "agent_message"]
    assert {item["type"] for item in items} == {"error", "agent_message", "command_execution"}
    return Seen(finished, words, sum(item["type"] == "command_execution" for item in items))


CLINE_TOOLS = Tools(
    write=lambda path, text: editor(Path(path), text),
    run=run_commands,
    read=lambda path: read_files(Path(path)),
)
CODERS = {
    "cline": Coder(CLINE_TOOLS, cline, step(submit(LAST))),
    "claude-code": Coder(CLAUDE_CODE_TOOLS, claude_code, step(says=LAST)),
    "codex": Coder(CODEX_TOOLS, codex, step(says=LAST), joins=False),
}


@pytest.fixture(params=CODERS)
def coder(request: pytest.FixtureRequest) -> Coder:
    return CODERS[request.param]


def runs_of(stage: Stage) -> list[list[list[Json]]]:
    """The messages of each round, for each request of the client's. The rounds of one have its id."""
    requests = [(dict(request.headers)["x-request-id"], request.json["messages"]) for request in stage.actor.requests]
    return [[messages for _, messages in rounds] for _, rounds in groupby(requests, lambda request: request[0])]


def said_by_model(messages: list[Json]) -> str:
    return json.dumps([message for message in messages if message["role"] == "assistant"])


def check_rounds(stage: Stage, *rounds: int) -> None:
    """So many rounds had the client's requests, one after the other, and each round had what came before it.

    None of a client's requests has anything of what the gateway ran in an earlier one: Cline and Claude Code haven't
    been told, and Codex leaves the item out.
    """
    runs = runs_of(stage)
    assert [len(run) for run in runs] == list(rounds)
    for first, *others in runs:
        assert WEATHER not in said_by_model(first)
        for before, messages in zip([first, *others], others, strict=False):
            assert messages[: len(before)] == before
            call, result = messages[len(before) :]
            assert call["role"] == "assistant"
            assert WEATHER in json.dumps(call)
            assert "Sunny in" in result["content"]


def check_seen(seen: Seen, calls: int, *words: str) -> None:
    """The client shows its own calls and the model's words, and knows nothing of a tool that it hasn't got."""
    assert (seen.finished.status, seen.calls, seen.words) == (0, calls, list(words)), seen.finished
    assert WEATHER not in seen.finished.stdout + seen.finished.stderr


def check_played(stage: Stage, turns: int) -> None:
    assert (stage.actor.problems, stage.actor.asides) == ([], [])
    assert stage.actor.played == list(range(turns))


@pytest.mark.parametrize("model", ["prompt-hermes", "native"])
def test_what_a_servers_tool_says_goes_into_a_file(
    served_stage: Stage, sandbox: Sandbox, coder: Coder, model: str
) -> None:
    note = str(sandbox.workspace / "weather.txt")
    before = ran(served_stage.gateway, "weather")
    served_stage.perform(
        model,
        TASK,
        step(weather("Zermatt"), says=FIRST, served=True),
        step(coder.tools.write(note, f"{SUNNY}\n"), says=SECOND, sees=SUNNY),
        step(coder.tools.read(note)),
        step(weather("Bern"), sees=SUNNY, served=True),  # now in a request with results of the client's tools
        step(weather("Chur"), sees="Sunny in Bern.", served=True),
        replace(coder.last, sees=("Sunny in Chur.",)),
    )
    seen = coder.run(served_stage, sandbox, model)
    check_played(served_stage, 6)
    check_rounds(served_stage, 2, 1, 3)
    check_seen(seen, 2, *([f"{FIRST}\n\n{SECOND}"] if coder.joins else [FIRST, SECOND]), LAST)
    assert (sandbox.workspace / "weather.txt").read_text() == f"{SUNNY}\n"
    assert ran(served_stage.gateway, "weather") == before + 3


def test_beside_a_call_of_the_clients_own_the_servers_waits(
    served_stage: Stage, sandbox: Sandbox, coder: Coder
) -> None:
    note = str(sandbox.workspace / "weather.txt")
    before = ran(served_stage.gateway, "weather")
    served_stage.perform(
        "template-qwen3_coder",
        TASK,
        step(weather("Zermatt"), coder.tools.read(str(sandbox.workspace / "notes.txt")), says=FIRST),
        step(weather("Zermatt"), sees="one two", served=True),
        step(coder.tools.write(note, f"{SUNNY}\n"), says=SECOND, sees=SUNNY),
        coder.last,
    )
    seen = coder.run(served_stage, sandbox, "template-qwen3_coder")
    check_played(served_stage, 4)
    check_rounds(served_stage, 1, 2, 1)
    check_seen(seen, 2, FIRST, SECOND, LAST)
    assert (sandbox.workspace / "weather.txt").read_text() == f"{SUNNY}\n"
    assert ran(served_stage.gateway, "weather") == before + 1

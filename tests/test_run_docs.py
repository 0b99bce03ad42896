"""docs/characters.md, docs/server-tools.md and the README, of tools that run on our side: what they print works as
printed, and their tables are whole."""

from __future__ import annotations

import json
import logging
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
import yaml

from extproc.cli import main
from extproc.config import parse
from extproc.config.tools import Runs
from extproc.runner.audit import audit
from extproc.runner.characters import Kind, State
from extproc.runner.characters import character as calls
from extproc.runner.characters import validation as rules
from extproc.runner.characters.directory import LARGEST
from extproc.runner.characters.pool import MOST
from extproc.runner.characters.process import Lines
from extproc.runner.characters.worker import LOAD
from extproc.runner.driver import ToolRun
from extproc.runner.mcp_servers import offer, results
from extproc.runner.mcp_servers.program import INHERITED, LOGGED_LINES, LONGEST_LINE
from extproc.runner.plan import _NOT_IN_RUNS
from extproc.runner.steps import CallTool, Offered
from extproc.runner.tools import Outcome, ToolResult
from scripted_vllm import ScriptedVLLM
from tests.gateway import Gateway, configured_gateway, curl, wait_until

ROOT = Path(__file__).parents[1]
CHARACTERS = (ROOT / "docs" / "characters.md").read_text(encoding="utf-8")
TOOLS = (ROOT / "docs" / "server-tools.md").read_text(encoding="utf-8")
RESPONSES = (ROOT / "docs" / "responses.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLAIN = """
models: [{name: assistant, backend: gpu, tools: prompt}]
backends: [{name: gpu, address: "gpu:8000"}]
"""


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def questions(page: str) -> list[str]:
    return [block for block in blocks(page, "bash") if block.startswith("curl")]


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the tables under a heading."""
    section = re.split(r"^## ", page.partition(f"\n## {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


# What is printed, in a gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The one of docs/server-tools.md, with the characters of docs/characters.md and of `make run`."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "characters").mkdir()
    patience = "\nTIME_LIMIT = 30\n"  # a busy machine may take the tenth of a second that there is without it
    (folder / "characters" / "innkeeper.py").write_text(blocks(CHARACTERS, "python")[0] + patience)
    (folder / "characters" / "narrator.py").write_text((ROOT / "envoy/characters/narrator.py").read_text() + patience)
    printed = yaml.safe_load(blocks(TOOLS, "yaml")[0])
    printed["tool_servers"][0]["command"] = [sys.executable, "-m", "tests.clock_server"]
    printed["tool_servers"][0]["environment"] = {"PYTHONPATH": str(ROOT)}
    with ScriptedVLLM().running() as backend:
        printed["backends"][0]["address"] = f"127.0.0.1:{backend.port}"
        with configured_gateway(folder, yaml.safe_dump({**printed, "characters": "characters"}), backend) as gateway:
            up = 'extproc_tool_server_up{server="clock"} 1.0'
            wait_until(lambda: up in httpx.get(gateway.runner_metrics).text)
            yield gateway


def run(command: str, gateway: Gateway) -> dict[str, Any]:
    return dict(json.loads(curl(command.replace("http://127.0.0.1:10000", gateway.url))))


def test_the_first_character_answers_in_each_dialect(gateway: Gateway) -> None:
    chat, messages, responses = (run(command, gateway) for command in questions(CHARACTERS))
    said = chat["choices"][0]["message"]["content"]
    assert f"The `content` of the answer is `{said}`" in CHARACTERS
    assert [block["text"] for block in messages["content"]] == [said]
    call, message = responses["output"]
    assert (call["type"], call["output"]) == ("mcp_call", "3 nights in a double room are 270 crowns")
    assert message["content"][0]["text"] == said
    [printed] = blocks(RESPONSES, "json")
    assert json.loads(printed).keys() == call.keys()


def test_the_tool_of_an_mcp_server_answers(gateway: Gateway) -> None:
    [command] = questions(TOOLS)
    choice = run(command, gateway)["choices"][0]
    [printed] = re.findall(r"`content` begins with `(.+?)`", TOOLS)
    assert choice["message"]["content"].startswith(printed)
    assert choice["finish_reason"] == "stop"


def test_the_readmes_character_has_used_its_tool(gateway: Gateway) -> None:
    [command] = [command for command in blocks(README, "bash") if "character/" in command]
    said = run(command, gateway)["choices"][0]["message"]["content"]
    assert "Logged story event: the dragon returns" in said


@pytest.mark.parametrize(
    "command", [line for page in (CHARACTERS, TOOLS) for line in re.findall(r"^extproc .+", page, re.MULTILINE)]
)
def test_every_command_is_understood(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)[1:]
    with pytest.raises(SystemExit) as end:
        main([*words, "--help"])
    assert end.value.code == 0
    offered = capsys.readouterr().out
    assert [word for word in words if word.startswith("--") and word not in offered] == []


@pytest.mark.parametrize("sample", [*blocks(CHARACTERS, "yaml"), *blocks(TOOLS, "yaml")])
def test_every_sample_is_a_configuration(sample: str) -> None:
    parse(sample if "models:" in sample else sample + PLAIN)


# What is told


def test_every_outcome_is_told() -> None:
    told = {cell[-1].strip("`") for cell in rows(CHARACTERS, "How a call is executed")[1:]}
    assert told == set(get_args(Outcome)) - {"ok"}
    told = {cell[-1].strip("`") for cell in rows(TOOLS, "What a model is told of a call")[1:]}
    assert told == set(get_args(Outcome)) - {"memory", "crashed"}  # which are a character's


def test_every_rule_and_every_state_is_told() -> None:
    cells = rows(CHARACTERS, "The rules when it is loaded")
    told = {cell[-1].strip("`") for cell in cells}
    assert set(get_args(Kind)) <= told
    assert {cell[0].strip("`") for cell in cells} >= {state.value for state in State}


def test_everything_that_a_file_may_hold_is_told() -> None:
    told = " ".join(cell[0] for cell in rows(CHARACTERS, "What a file may hold"))
    program = (ROOT / "extproc/runner/characters/program.py").read_text()
    asked = set(re.findall(r'(?:getattr\(module|_method\(), ?"(\w+)"|_method\("(\w+)"\)', program))
    names = {name for pair in asked for name in pair if name}
    assert names >= {"TOOLS", "handle_tool_call", "get_tools", "MODEL"}
    assert [name for name in names if name not in told] == []


@pytest.mark.parametrize(
    ("page", "told"),
    [
        *(
            (CHARACTERS, told)
            for told in (
                f"at most {rules.MOST_TOOLS} tools",
                f"at most {rules.MOST_PROPERTIES} properties, at most {rules.MOST_VALUES} values",
                f"at most {rules.LONGEST_NAME} characters",
                f"at most {rules.LONGEST_DESCRIPTION} characters",
                f"{rules.DEFAULT_SECONDS:g} unless given, and {rules.MOST_SECONDS:g} at most",
                f"{calls.MOST_ARGUMENTS:,} bytes at most",
                f"cut to {calls.LONGEST_RESULT} characters",
                f"at most {LARGEST >> 20} MiB",
                f"takes {LOAD:g} seconds at most",
                f"{Lines.MOST} lines and {Lines.MOST_BYTES >> 10} KiB",
                f"{Lines.LONGEST} bytes of a line",
                f"{Runs().character_memory >> 20} MiB by default",
            )
        ),
        *(
            (TOOLS, told)
            for told in (
                f"{results.LONGEST:,} characters",
                f"{calls.MOST_ARGUMENTS:,} bytes",
                f"more than {offer.LONGEST_NAME} characters",
                f"more than {offer.LARGEST_SCHEMA:,} bytes",
                f"the first {offer.MOST_TOOLS:,}",
                f"cut at {offer.LONGEST_DESCRIPTION:,} characters",
                f"{LOGGED_LINES} lines a second and {LONGEST_LINE} characters",
                f"| `runs.rounds` | {Runs().rounds} |",
                f"| `runs.seconds` | {Runs().seconds:g} |",
                f"| `runs.calls_at_once` | {Runs().calls_at_once} |",
                f"| `runs.retained_bytes` | {Runs().retained_bytes >> 20} MiB |",
                ", ".join(f"`{name}`" for name in INHERITED),
            )
        ),
        *((TOOLS, f"`{name}`") for name in _NOT_IN_RUNS),
    ],
)
def test_the_limits_are_told(page: str, told: str) -> None:
    assert told in " ".join(page.split())


def test_a_character_has_as_many_processes_as_is_told() -> None:
    assert MOST == 4
    assert "four at most" in CHARACTERS


def test_the_line_of_the_audit_log_is_as_printed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "extproc.runner.audit")
    call = CallTool("call_1", Offered("clock", "get_current_time"), "clock__get_current_time", "{}")
    ran = ToolRun(call, ToolResult("noon"), 0.1)
    audit(ran, run_id="1", client="alice", model="assistant", shows_arguments=False)
    audit(ran, run_id="1", client=None, model="assistant", shows_arguments=True)
    plain, whole = (record.__dict__["fields"].keys() for record in caplog.records)
    [printed] = [json.loads(line) for line in blocks(TOOLS, "json")]
    assert printed.keys() - {"time", "level", "logger", "message", "request_id"} == plain
    assert whole - plain == {"arguments", "result"}

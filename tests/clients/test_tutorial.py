"""docs/tutorial.md does what it says: each agent's block is run as it is printed, but for the gateway's address, and
shows what is printed below it.

The gateway is what `make run` starts, on another port and without its access log. In the place of npm there is a
program that puts the agent on PATH which `make test-clients` has installed. Section 6 takes a vLLM, and isn't run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.installed import Installed, client
from tests.clients.sandbox import Sandbox
from tests.clients.test_clients_document import QUIET, installer
from tests.test_up import Up, up

pytestmark = pytest.mark.clients

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def blocks(heading: str, language: str) -> list[str]:
    section = re.split(rf"^## \d\. {heading}$", PAGE, flags=re.MULTILINE)[1].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


@pytest.fixture(scope="module")
def running() -> Iterator[Up]:
    with up("--characters", str(ROOT / "envoy" / "characters"), "--scripted", "--quiet") as running:
        yield running


def test_the_gateway_says_that_it_is_ready(running: Up) -> None:
    [printed] = blocks("Start the gateway", "text")
    said = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", running.guide)
    assert re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", printed) in said


@pytest.mark.parametrize(
    ("heading", "name"), [("Cline", "cline"), ("Codex", "codex"), ("Claude Code", "claude-code")], ids=str
)
def test_an_agent_gets_its_tool_called(running: Up, sandbox: Sandbox, heading: str, name: str) -> None:
    [place], [block], [printed] = blocks("Make .*", "bash"), blocks(heading, "bash"), blocks(heading, "text")
    programs = sandbox.home / "programs"
    installer(programs, name)
    script = sandbox.workspace / "block.sh"
    script.write_text(place + block.replace("http://127.0.0.1:10000", running.url))
    installed = Installed("/bin/bash", client(name).folder, f"{programs}:{client(name).path}")
    finished = sandbox.run(installed, str(script), env={**QUIET, "IS_SANDBOX": "1"})
    assert finished.status == 0, finished
    shown = " ".join(COLOURS.sub("", finished.stdout).split())
    missing = [line for line in printed.splitlines() if " ".join(line.split()) not in shown]
    assert missing == [], finished


def test_the_versions_are_those_of_the_page_of_clients() -> None:
    clients = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    installations = re.findall(r"^npm install .*$", PAGE, re.MULTILINE)
    assert len(installations) == 3
    assert [each for each in installations if each not in clients] == []

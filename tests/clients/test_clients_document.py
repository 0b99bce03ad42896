"""Every block of docs/clients.md does what it says: it is run as it is printed, at the tests' gateway.

In the place of the document's address and model there are those of the tests. In the place of npm and pip there is a
program that puts on PATH what `tests.clients.setup` has installed, if it is told to do so as the other has to be told.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.actor import Step, step
from tests.clients.installed import CLIENTS, Installed, client
from tests.clients.library import OWN_PYTHON
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage
from tests.format_writers import Call
from tests.gateway import UP_SECONDS, free_port, wait_until

pytestmark = pytest.mark.clients

DOCUMENT = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")
TASK = "Write hello.txt, count its words, and check what is in it."
QUESTION = "What is the weather in Paris?"
TEXT = "Hello, world!\n"
DONE = "hello.txt is written and has two words."
QUIET = {
    "CLINE_NO_AUTO_UPDATE": "1",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "KIMI_CLI_NO_AUTO_UPDATE": "1",
    "GPTME_BREAK_ON_TOOLUSE": "0",
    "KILO_DISABLE_AUTOUPDATE": "1",
    "KILO_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OTEL_SDK_DISABLED": "true",
    "QWEN_TELEMETRY_ENABLED": "0",
    "TERM": "dumb",
}
"""Nobody looks for news while a test runs, or leaves before the end of an answer."""


@dataclass(frozen=True)
class Section:
    """What stands under a heading, and what the model does when it is run."""

    heading: str
    client: str | None
    """None: it is in the project's own environment."""
    steps: Callable[[Path], tuple[Step, ...]]
    model: str = "prompt-hermes"

    @property
    def blocks(self) -> list[tuple[str, str]]:
        """Of each its language, and its text."""
        section = DOCUMENT.partition(f"\n## {self.heading}\n")[2].partition("\n## ")[0]
        found = re.findall(r"```(bash|python|js)\n(.*?)```", section, re.DOTALL)
        assert found, self.heading
        return found


def writes(tool: str, path: str, text: str, last: Step) -> Callable[[Path], tuple[Step, ...]]:
    """The file is written by a tool of this name and with these parameters, and that's it."""
    return lambda workspace: (step(Call(tool, {path: str(workspace / "hello.txt"), text: TEXT}), sees=TASK), last)


def asks_for_weather(_: Path) -> tuple[Step, ...]:
    return step(Call("get_weather", {"city": "Paris"}), sees=QUESTION), step(says="It is sunny.", sees="sunny")


def answers_in_json(_: Path) -> tuple[Step, ...]:
    answer = step(says='{"city": "Paris", "sunny": true}', sees="sunny")
    return step(Call("get_weather", {"city": "Paris"}), sees=QUESTION), answer


def runs_a_command(_: Path) -> tuple[Step, ...]:
    return step(Call("exec_command", {"cmd": f"printf '{TEXT}' > hello.txt"}), sees=TASK), SAYS_DONE


SAYS_DONE = step(says=DONE)
SUBMITS = step(Call("submit_and_exit", {"summary": DONE, "verified": True}))
COMPLETES = step(Call("attempt_completion", {"result": DONE}))
AGENTS = [
    Section("Cline", "cline", writes("editor", "path", "new_text", SUBMITS)),
    Section("Cline 2", "cline2", writes("write_to_file", "path", "content", COMPLETES), "deepseek-v3.2"),
    Section("opencode", "opencode", writes("write", "filePath", "content", SAYS_DONE)),
    Section("Kilo", "kilo", writes("write", "filePath", "content", SAYS_DONE)),
    Section("Qwen Code", "qwen-code", writes("write_file", "file_path", "content", SAYS_DONE)),
    Section("Claude Code", "claude-code", writes("Write", "file_path", "content", SAYS_DONE)),
    Section("Codex", "codex", runs_a_command),
    Section("Continue", "continue", writes("Write", "filepath", "content", SAYS_DONE)),
    Section("Kimi CLI", "kimi-cli", writes("WriteFile", "path", "content", SAYS_DONE)),
    Section("Mistral Vibe", "mistral-vibe", writes("write_file", "path", "content", SAYS_DONE)),
    Section("gptme", "gptme", writes("save", "path", "content", step(Call("complete", {}), says=DONE))),
]
LIBRARIES = [
    Section("openai for Python", None, asks_for_weather),
    Section("openai for Python, Responses", None, asks_for_weather),
    Section("anthropic for Python", None, asks_for_weather),
    Section("openai for Node", "openai-node", asks_for_weather),
    Section("AI SDK", "ai-sdk", asks_for_weather),
    Section("AI SDK, Responses", "ai-sdk", asks_for_weather),
    Section("AI SDK, Messages", "ai-sdk", asks_for_weather),
    Section("LangChain", "langchain", asks_for_weather),
    Section("LangChain, Messages", "langchain", asks_for_weather),
    Section("OpenAI Agents", "openai-agents", answers_in_json),
    Section("pydantic-ai", "pydantic-ai", answers_in_json),
    Section("CrewAI", "crewai", answers_in_json),
]


KEPT = Section("Conversations that are kept: agentic-api in front", "agentic-api", asks_for_weather)


def installer(folder: Path, name: str) -> None:
    """A program `npm` or `pip` in `folder` that can install this client there, and nothing else in no other way."""
    described = CLIENTS[name]
    packages, place = " ".join(described.packages), client(name).folder
    programs = f"{place}/bin/{described.command}" if described.python else f"{place}/node_modules/.bin/*"
    program = folder / ("pip" if described.python else "npm")
    options = "" if described.python else "-g "
    folder.mkdir()
    program.write_text(
        f"""#!/bin/sh
if [ "$*" != "install {options}{packages}" ]; then
    echo "{program.name} $*: this puts no program on PATH" >&2
    exit 1
fi
ln -s {programs} {folder}
"""
    )
    program.chmod(0o755)


def run_as_printed(stage: Stage, sandbox: Sandbox, section: Section) -> str:
    """Run the block in the workspace; what it prints."""
    installed = OWN_PYTHON if section.client is None else client(section.client)
    language, text = section.blocks[0]
    text = text.replace("http://127.0.0.1:10000/v1", stage.url).replace("http://127.0.0.1:10000", stage.gateway.url)
    text = text.replace("qwen2.5-coder", section.model)
    stage.perform(section.model, QUESTION if QUESTION in text else TASK, *section.steps(sandbox.workspace))
    if language == "bash":
        assert section.client is not None
        programs = sandbox.home / "programs"
        installer(programs, section.client)
        installed = Installed("/bin/bash", installed.folder, f"{programs}:{installed.path}")
    program = sandbox.workspace / {"bash": "block.sh", "python": "block.py", "js": "block.mjs"}[language]
    program.write_text(text)
    if language == "js":  # where the language looks for what is installed
        (sandbox.workspace / "node_modules").symlink_to(installed.folder / "node_modules")
    finished = sandbox.run(installed, str(program), env=QUIET)
    assert finished.status == 0, finished
    return finished.stdout


@pytest.mark.parametrize("section", AGENTS, ids=lambda section: section.heading)
def test_an_agent_does_its_task(stage: Stage, sandbox: Sandbox, section: Section) -> None:
    printed = run_as_printed(stage, sandbox, section)
    assert (sandbox.workspace / "hello.txt").read_text() == TEXT
    assert (stage.actor.problems, stage.actor.played) == ([], [0, 1])
    assert DONE in printed


@pytest.mark.parametrize("section", LIBRARIES, ids=lambda section: section.heading)
def test_a_program_gets_its_call(stage: Stage, sandbox: Sandbox, section: Section) -> None:
    assert "get_weather Paris" in run_as_printed(stage, sandbox, section)
    assert stage.actor.problems == []


def test_a_conversation_is_kept(stage: Stage, sandbox: Sandbox) -> None:
    (_, serve), (_, program) = KEPT.blocks
    programs, port = sandbox.home / "programs", free_port()
    installer(programs, "agentic-api")
    serving = Installed("/bin/bash", programs, f"{programs}:/usr/bin:/bin")
    serve = serve.replace("http://127.0.0.1:10000", stage.gateway.url).replace("--port 9000", f"--port {port}")
    (sandbox.workspace / "block.py").write_text(
        program.replace("127.0.0.1:9000", f"127.0.0.1:{port}").replace("qwen2.5-coder", KEPT.model)
    )
    stage.perform(KEPT.model, QUESTION, *KEPT.steps(sandbox.workspace))
    with ThreadPoolExecutor(1) as beside:
        try:
            beside.submit(sandbox.run, serving, "-c", serve)
            wait_until(lambda: serves(port), UP_SECONDS)
            finished = sandbox.run(OWN_PYTHON, str(sandbox.workspace / "block.py"))
        finally:
            sandbox.close()
    assert finished.stdout.splitlines() == ["get_weather Paris", "It is sunny.", "completed"], finished
    assert (stage.actor.problems, stage.actor.played) == ([], [0, 1])


def serves(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


def test_the_versions_are_those_that_are_tried() -> None:
    tried = DOCUMENT.partition("\n## aider\n")[0]
    named = set(re.findall(r"(?:(?<=install )|(?<=install -g ))(?!-g)\S+[@=]=?[\d.]*\d|@ai-sdk/\S+@[\d.]*\d", tried))
    assert named <= {package for each in CLIENTS.values() for package in each.packages}
    assert len(named) >= len(CLIENTS)


@pytest.mark.parametrize("printed", ["npm install cline@3.0.65", "npm install -g cline", "npm install -g cline@3.0.64"])
def test_an_installation_that_gives_no_such_program_would_be_noticed(sandbox: Sandbox, printed: str) -> None:
    programs = sandbox.home / "programs"
    installer(programs, "cline")
    block = f"{printed}\ncline --version"
    installed = Installed("/bin/bash", programs, f"{programs}:/usr/bin:/bin")
    finished = sandbox.run(installed, "-c", block)
    assert finished.status == 127
    assert "this puts no program on PATH" in finished.stderr

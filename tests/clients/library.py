"""Libraries, each at the errand in a small program of `scripts/`, which a user of the library could have written.

A program is told the gateway's address, the model, the task and the way in which it is to use the library; its tools
work in the folder in which it runs. It prints one line of JSON: what the library gave it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.clients.actor import Step
from tests.clients.errand import TASK, Tools, check_done, errand
from tests.clients.installed import Installed
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage
from tests.format_writers import Call

_ROOT = Path(__file__).parents[2]
_SCRIPTS = Path(__file__).with_name("scripts")
OWN_PYTHON = Installed(sys.executable, Path(sys.prefix), os.environ.get("PATH", os.defpath))
"""The project's own environment, which has OpenAI's library and Anthropic's."""
TOOLS = Tools(
    write=lambda path, text: Call("write_file", {"path": path, "content": text}),
    run=lambda command: Call("run_command", {"command": command}),
    read=lambda path: Call("read_file", {"path": path}),
)


@dataclass(frozen=True)
class Told:
    """What a program prints."""

    contents: list[str]
    """The text of each turn, empty where there was none."""
    calls: list[list[Any]]
    """Names and arguments of all calls, as the library hands them over."""
    reasons: list[str]
    """Why each turn ended, in the library's own words."""
    tokens: int
    """The prompts' and the answers' tokens of all turns."""


def run_errand(
    stage: Stage,
    sandbox: Sandbox,
    library: Installed,
    script: str,
    way: str,
    model: str,
    *,
    together: bool = True,
    env: Mapping[str, str] = MappingProxyType({}),
) -> Told:
    """Have a program do the errand, check that it is done, and return what the program got.

    `env` are more variables, such as those that make its language trust an authority.
    """
    steps = errand(TOOLS, sandbox.workspace, together=together)
    told = Told(**run_program(stage, sandbox, library, script, model, steps, way, env=env))
    check_done(stage, sandbox, len(steps))
    assert [content.strip() for content in told.contents] == [step.says for step in steps]
    assert told.calls == [[call.name, call.arguments] for step in steps for call in step.calls]
    return told


def run_program(
    stage: Stage,
    sandbox: Sandbox,
    library: Installed,
    script: str,
    model: str,
    steps: Sequence[Step],
    way: str,
    *,
    env: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Have a program do the task with a model that takes these steps, and return what it printed."""
    stage.perform(model, TASK, *steps)
    environment = {"LIBRARY": str(library.folder), "PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1", **env}
    file = str(_SCRIPTS / script)
    finished = sandbox.run(library, file, stage.url, model, TASK, way, env=environment)
    assert finished.status == 0, finished
    printed = finished.json_lines()
    assert len(printed) == 1, finished
    return printed[0]

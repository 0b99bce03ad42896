"""The errand on which coding clients are sent: write a file, run a command, read back what came of both, finish.

Every client has names of its own for the tools; what comes of the errand is the same, and lies in the workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.clients.actor import Step, step
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage
from tests.format_writers import Call

TASK = "Write hello.txt, count its words, and check what is in it."
LAST_WORDS = "hello.txt is there, and has eight words."
TEXT = 'Grüezi, "Welt"!\n\tif a < b: return {}\n'
"""With whatever may go wrong between a model and a disk: quotes, a tab, brackets, letters of two bytes."""


@dataclass(frozen=True)
class Tools:
    """How a client's tools are called."""

    write: Callable[[str, str], Call]
    """With the file's path and its text."""
    run: Callable[[str], Call]
    """With a shell command."""
    read: Callable[[str], Call]
    """With the file's path."""


def errand(tools: Tools, workspace: Path, *, together: bool = True) -> tuple[Step, ...]:
    """What the model does, turn by turn; it goes on only if it is told what the tools made of it.

    It reads both files in one turn if `together`; where calls are forced to be strict, it can make but one.
    """
    file, count = str(workspace / "hello.txt"), str(workspace / "count.txt")
    text, number = "if a < b: return {}", "8"
    if together:
        reading: tuple[Step, ...] = (step(tools.read(file), tools.read(count), sees="counted"),)
    else:
        reading = (step(tools.read(file), sees="counted"), step(tools.read(count), sees=text))
    return (
        step(tools.write(file, TEXT), says="I write the file."),
        step(tools.run("wc -w < hello.txt | tee count.txt && echo counted")),
        *reading,
        step(says=LAST_WORDS, sees=(text, number) if together else number),
    )


def words(steps: Sequence[Step]) -> list[str]:
    """All that a user may be shown as words of the model."""
    return [step.says for step in steps if step.says]


def check_done(stage: Stage, sandbox: Sandbox, turns: int = 4) -> None:
    """The errand went as it should, no turn was repeated, and its traces are on the disk."""
    assert stage.actor.problems == []
    assert stage.actor.played == list(range(turns))
    assert (sandbox.workspace / "hello.txt").read_text() == TEXT
    assert (sandbox.workspace / "count.txt").read_text().split() == ["8"]

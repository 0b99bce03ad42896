"""deploy/Dockerfile, read: its stages and their instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy/Dockerfile"
IGNORED = ROOT / "deploy/Dockerfile.dockerignore"


@dataclass(frozen=True, slots=True)
class Instruction:
    word: str
    rest: str


@dataclass(frozen=True, slots=True)
class Stage:
    """What stands between one FROM and the next, with that FROM first."""

    instructions: tuple[Instruction, ...]

    def all(self, word: str) -> list[str]:
        """What stands behind each instruction of this kind."""
        return [each.rest for each in self.instructions if each.word == word]


def stages() -> list[Stage]:
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    made: list[list[Instruction]] = []
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            made.append([])
        if word and made:  # an ARG before the first FROM is of no stage
            made[-1].append(Instruction(word, rest))
    return [Stage(tuple(each)) for each in made]


def sources() -> list[str]:
    """What the build copies out of the checkout."""
    copies = [copy.split()[:-1] for stage in stages() for copy in stage.all("COPY") if not copy.startswith("--from")]
    return [source for copy in copies for source in copy]

"""The Dockerfiles of deploy/, read: their stages and the instructions of these."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


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


@dataclass(frozen=True, slots=True)
class Dockerfile:
    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def stages(self) -> list[Stage]:
        text = re.sub(r"^#.*\n", "", self.text, flags=re.MULTILINE).replace("\\\n", " ")
        made: list[list[Instruction]] = []
        for line in text.splitlines():
            word, _, rest = line.strip().partition(" ")
            if word == "FROM":
                made.append([])
            if word and made:  # an ARG before the first FROM is of no stage
                made[-1].append(Instruction(word, rest))
        return [Stage(tuple(each)) for each in made]

    def sources(self) -> list[str]:
        """What the build copies out of the checkout."""
        stages = self.stages()
        copies = [copy.split()[:-1] for stage in stages for copy in stage.all("COPY") if not copy.startswith("--from")]
        return [source for copy in copies for source in copy]

    def ignored(self) -> list[str]:
        """The lines that say what of the checkout the build sees."""
        lines = self.path.with_name(f"{self.path.name}.dockerignore").read_text(encoding="utf-8").splitlines()
        return [line for line in lines if line and not line.startswith("#")]

    def copy_sources(self, folder: Path) -> None:
        """Have in `folder` what the build has in its working directory."""
        left = [line.rpartition("/")[2] for line in self.ignored()[1:] if not line.startswith("!")]
        for name in self.sources():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns(*left))
            else:
                shutil.copy(ROOT / name, folder / name)


GATEWAY = Dockerfile(ROOT / "deploy/Dockerfile")
SCRIPTED = Dockerfile(ROOT / "deploy/scripted-vllm.Dockerfile")

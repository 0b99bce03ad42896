"""The picture of rooms in docs/architecture.md is the one that import-linter holds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_rooms_are_those_of_the_linter() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    rooms = [layer.split(" | ") for layer in layers if layer != "__main__"]
    page = (ROOT / "docs" / "architecture.md").read_text()
    picture = page.partition("## What depends on what\n\n```\n")[2].partition("```")[0]
    drawn = [re.match(r" (\w+(?: {3}\w+)*)", line) for line in picture.splitlines()]
    assert [line[1].split() for line in drawn if line] == rooms
